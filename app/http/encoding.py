"""Encode the audio of one stream as it is made, without blocking the event loop."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Self

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.formats import OutputFormat, Tags, tags_of
from firstword.app.core.interface import Audio, Flushed, SynthesisStream
from firstword.app.core.transcript import TimedWord

_PLAIN_FORMATS = frozenset({"pcm", "pcm_f32", "wav"})  # encoding them takes microseconds
MIN_AUDIO_S = 0.02  # of a body: a file without any audio is not valid in every format

P = ParamSpec("P")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    data: bytes  # empty only with words
    num_samples: int  # of this chunk, at the output's rate; what a codec holds back counts as well
    words: Sequence[TimedWord] = ()  # that ended since the chunk before, in the stream's samples


class StreamEncoder:
    """Encode a stream once, either chunk by chunk (`events`) or all of it (`file`).

    Steps that take long run in a thread. `with` frees it, however the stream ends: a step that still runs in
    its thread is the last one. Both raise what the stream raises.
    """

    def __init__(
        self, stream: SynthesisStream, output: OutputFormat, on_encoded: Callable[[float], None]
    ) -> None:
        """on_encoded: called after each step with the seconds it took."""
        self._stream = stream
        self._output = output
        self._on_encoded = on_encoded
        self._watermark = stream.watermark if output.speed != 1 else None
        self._encoder: AudioEncoder | None = None  # None: nothing was spoken yet
        is_resampled = output.sample_rate_hz != stream.sample_rate_hz or output.speed != 1
        self._is_plain = output.format in _PLAIN_FORMATS and not is_resampled
        self._step: asyncio.Future[bytes] | None = None  # the last one that runs, or ran, in a thread

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """A task that is cancelled leaves its step behind in a thread; the encoder is closed after it."""

        def close(step: asyncio.Future[bytes] | None) -> None:
            if step is not None and step.exception() is not None:
                logger.info("a step of encoding failed after its stream had ended", exc_info=step.exception())
            if self._encoder is not None:
                self._encoder.close()

        if self._step is None or self._step.done():
            close(None)
        else:
            self._step.add_done_callback(close)

    async def events(self, min_audio_s: float = 0.0) -> AsyncGenerator[EncodedChunk | Flushed]:
        """Yield the audio encoded, and Flushed behind the last audio of each flush.

        The first chunk is the container's header with audio behind it. A stream without audio becomes silence
        of `min_audio_s`, or with 0 no chunk at all.
        """
        # Its tags name the speaker, whom the text may have to tell first.
        header = await self._run(self._opened().start) if self._stream.speaker else None
        has_audio = False
        num_sent_samples = 0
        words: list[TimedWord] = []
        async for event in self._stream:
            encoder = self._opened()
            if header is None:
                header = await self._run(encoder.start)
            if isinstance(event, Flushed):
                data = await self._run(encoder.flush)
            else:
                words += event.words
                if not event.samples.size:
                    continue
                has_audio = True
                data = await self._run(encoder.encode, event.samples)
            if data:  # else the encoder holds all of it back
                yield EncodedChunk(header + data, encoder.num_samples - num_sent_samples, words)
                words = []
                header = b""
                num_sent_samples = encoder.num_samples
            if isinstance(event, Flushed):
                yield event
        encoder = self._opened()
        if header is None:
            header = await self._run(encoder.start)
        if not has_audio:
            if not min_audio_s:
                return
            header += await self._run(encoder.encode, self._silence(min_audio_s))
        data = header + await self._run(encoder.finish)
        if data or words:
            yield EncodedChunk(data, encoder.num_samples - num_sent_samples, words)

    async def file(self) -> EncodedChunk:
        """Return all of it as one complete file, true sizes in its header.

        A stream without audio becomes silence of MIN_AUDIO_S.
        """
        chunks = [event async for event in self._stream if isinstance(event, Audio)]
        samples = np.concatenate([np.empty(0, np.float32), *(chunk.samples for chunk in chunks)])
        words = [word for chunk in chunks for word in chunk.words]
        if not samples.size:
            samples = self._silence(MIN_AUDIO_S)
        output = self._output
        source_rate_hz = self._stream.sample_rate_hz
        started_s = time.perf_counter()
        given = (source_rate_hz, output.sample_rate_hz, output.speed, self._tags(), self._watermark)
        data = await asyncio.to_thread(encode_whole, output.format, samples, *given)
        self._on_encoded(time.perf_counter() - started_s)
        num_samples = round(samples.size * output.sample_rate_hz / source_rate_hz / output.speed)
        return EncodedChunk(data, num_samples, words)

    def _tags(self) -> Tags | None:
        return tags_of(self._output, self._stream.speaker, self._stream.request.request_id)

    def _opened(self) -> AudioEncoder:
        if self._encoder is None:
            output = self._output
            self._encoder = AudioEncoder(
                output.format,
                self._stream.sample_rate_hz,
                output.sample_rate_hz,
                output.speed,
                tags=self._tags(),
                watermark=self._watermark,
            )
        return self._encoder

    def _silence(self, duration_s: float) -> Samples:
        """duration_s: at the output's speed."""
        return np.zeros(round(duration_s * self._output.speed * self._stream.sample_rate_hz), np.float32)

    async def _run(self, step: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs) -> bytes:
        started_s = time.perf_counter()
        if self._is_plain:
            data = step(*args, **kwargs)
        else:
            loop = asyncio.get_running_loop()
            self._step = loop.run_in_executor(None, partial(step, *args, **kwargs))
            data = await asyncio.shield(self._step)
        self._on_encoded(time.perf_counter() - started_s)
        return data
