"""A turn's audio as encoded payloads, made without holding up the event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from app.api.turns import Turn
from app.audio.encoder import encode_whole, open_encoder
from app.audio.formats import AudioFormat, sample_rate_of
from app.audio.pcm import Samples
from app.engine.interface import Audio, Flushed, InvalidRequest, StreamEvent, SynthesisFailed

PLAIN_FORMATS = frozenset({"pcm", "wav"})  # encoding them takes microseconds

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class AudioForm:
    """How a listener wants the audio."""

    format: AudioFormat
    sample_rate_hz: int
    speed: float = 1.0

    def is_plain(self, source_rate_hz: int) -> bool:
        """Cheap enough to be encoded on the event loop."""
        is_untouched = self.sample_rate_hz == source_rate_hz and self.speed == 1
        return is_untouched and self.format in PLAIN_FORMATS


@dataclass(frozen=True, slots=True)
class Payload:
    data: bytes
    num_samples: int  # of this payload, at the form's rate; what a codec keeps back counts as well


def wanted_form(format: AudioFormat, sample_rate_hz: int | None, speed: float, default_hz: int) -> AudioForm:
    """sample_rate_hz: None for the format's own or the default one. Raises InvalidRequest for an odd one."""
    try:
        return AudioForm(format, sample_rate_of(format, sample_rate_hz, default_hz), speed)
    except ValueError as error:
        raise InvalidRequest(str(error), param="sample_rate") from None


class TurnEncoder:
    """Takes all that a turn says and encodes it; what costs time is done in a thread.

    Both ways raise what the stream raises, and SynthesisFailed if it says nothing at all.
    """

    def __init__(self, turn: Turn, form: AudioForm) -> None:
        """turn: entered."""
        self._turn = turn
        self._form = form
        self._source_rate_hz = turn.stream.sample_rate_hz
        self._is_plain = form.is_plain(self._source_rate_hz)
        self._encoder = open_encoder(form.format, self._source_rate_hz, form.sample_rate_hz, form.speed)
        self._has_spoken = False
        self._num_told_samples = 0
        self.media_type = self._encoder.media_type

    async def payloads(self) -> AsyncGenerator[Payload]:
        """As the audio comes. The first one is the container's header with audio behind it; none is empty."""
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Payload):
                    yield event

    async def events(self) -> AsyncGenerator[Payload | Flushed]:
        """The payloads, and where a flush has been spoken to its end."""
        held = await self._run(self._encoder.start)
        async with aclosing(self._speech()) as speech:
            async for event in speech:
                encoded = await self._encoded(event)
                if encoded:
                    yield self._payload(held + encoded)
                    held = b""
                if isinstance(event, Flushed):
                    yield event
        held += await self._run(self._encoder.finish)
        if held:
            yield self._payload(held)

    async def whole(self) -> Payload:
        """All of it, as one complete file."""
        async with aclosing(self._speech()) as speech:
            pieces = [event.samples async for event in speech if isinstance(event, Audio)]
        started_s = time.perf_counter()
        payload = await asyncio.to_thread(_whole_file, pieces, self._source_rate_hz, self._form)
        self._turn.record.encoded(time.perf_counter() - started_s)
        return payload

    async def _encoded(self, event: StreamEvent) -> bytes:
        if isinstance(event, Flushed):
            return await self._run(self._encoder.flush)
        return await self._run(self._encoder.encode, event.samples)

    async def _speech(self) -> AsyncGenerator[StreamEvent]:
        async for event in self._turn.stream:
            if isinstance(event, Audio):
                self._has_spoken |= event.samples.size > 0
            if isinstance(event, Flushed) or event.samples.size:
                yield event
        if not self._has_spoken:
            raise SynthesisFailed("The stream ended without any audio.")

    def _payload(self, data: bytes) -> Payload:
        num_samples = self._encoder.num_samples - self._num_told_samples
        self._num_told_samples += num_samples
        return Payload(data, num_samples)

    async def _run(self, step: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs) -> bytes:
        started_s = time.perf_counter()
        data = step(*args, **kwargs) if self._is_plain else await asyncio.to_thread(step, *args, **kwargs)
        self._turn.record.encoded(time.perf_counter() - started_s)
        return data


def _whole_file(pieces: Sequence[Samples], source_rate_hz: int, form: AudioForm) -> Payload:
    samples = np.concatenate(pieces)
    data = encode_whole(form.format, samples, source_rate_hz, form.sample_rate_hz, form.speed)
    return Payload(data, round(samples.size * form.sample_rate_hz / source_rate_hz / form.speed))
