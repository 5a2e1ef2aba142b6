"""Encode the audio of one stream as it is made, without blocking the event loop."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole, open_encoder
from firstword.app.audio.formats import OutputFormat

_PLAIN_FORMATS = frozenset({"pcm", "wav"})  # encoding them takes microseconds

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    data: bytes  # never empty
    num_samples: int  # of this chunk, at the output's rate; what a codec holds back counts as well


class StreamEncoder:
    """Encode either chunk by chunk (`start`, `encode`, `flush`, `finish`) or all at once (`encode_file`).

    Steps that take long run in a thread. The first chunk is the container's header with audio behind it.
    """

    def __init__(
        self, output: OutputFormat, source_rate_hz: int, on_encoded: Callable[[float], None]
    ) -> None:
        """on_encoded: called after each step with the seconds it took."""
        self.output = output
        self._source_rate_hz = source_rate_hz
        self._on_encoded = on_encoded
        self._encoder = open_encoder(output.format, source_rate_hz, output.sample_rate_hz, output.speed)
        self._is_resampled = output.sample_rate_hz != source_rate_hz or output.speed != 1
        self._header = b""  # until it has gone out
        self._num_sent_samples = 0
        self.media_type = self._encoder.media_type

    async def start(self) -> None:
        """Once, before the first `encode`."""
        self._header = await self._run(self._encoder.start)

    async def encode(self, samples: Samples) -> EncodedChunk | None:
        """samples (n,). None: the encoder holds all of it back."""
        return self._chunk(await self._run(self._encoder.encode, samples))

    async def flush(self) -> EncodedChunk | None:
        """Return what is held back, as far as the codec's frames allow; the audio must have faded out."""
        return self._chunk(await self._run(self._encoder.flush))

    async def finish(self) -> EncodedChunk | None:
        """Return the rest, once and last; for a stream without audio at least the header, if it has one."""
        data = await self._run(self._encoder.finish)
        return self._chunk(data, is_last=True)

    async def encode_file(self, chunks: Sequence[Samples]) -> EncodedChunk:
        """Return all of it as one complete file, true sizes in its header. chunks: at least one."""
        output = self.output
        started_s = time.perf_counter()

        def encode() -> EncodedChunk:
            samples = np.concatenate(chunks)
            data = encode_whole(
                output.format, samples, self._source_rate_hz, output.sample_rate_hz, output.speed
            )
            num_samples = round(samples.size * output.sample_rate_hz / self._source_rate_hz / output.speed)
            return EncodedChunk(data, num_samples)

        chunk = await asyncio.to_thread(encode)
        self._on_encoded(time.perf_counter() - started_s)
        return chunk

    def _chunk(self, data: bytes, is_last: bool = False) -> EncodedChunk | None:
        if not data and not (is_last and self._header):
            return None
        num_samples = self._encoder.num_samples - self._num_sent_samples
        self._num_sent_samples += num_samples
        data = self._header + data
        self._header = b""
        return EncodedChunk(data, num_samples)

    async def _run(self, step: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs) -> bytes:
        started_s = time.perf_counter()
        if self.output.format in _PLAIN_FORMATS and not self._is_resampled:
            data = step(*args, **kwargs)
        else:
            data = await asyncio.to_thread(step, *args, **kwargs)
        self._on_encoded(time.perf_counter() - started_s)
        return data
