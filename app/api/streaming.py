"""Stream audio over HTTP: admission, encoding, chunked body and server-sent events.

A turn's audio as encoded payloads, made without holding up the event loop.

One turn of speech as the transports hold it: admitted by its key, opened, recorded, freed.

Answers with a turn's audio: holds the turn while it is sent, and frees it however that ends.

Answers with a turn's audio as OpenAI's server-sent events.
"""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import ParamSpec, Self

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstword.app.api.dependencies import Services
from firstword.app.api.errors import error_body, outcome_of
from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole, open_encoder
from firstword.app.audio.formats import AudioFormat, sample_rate_of
from firstword.app.engine.interface import Audio, Flushed, StreamEvent, SynthesisRequest, SynthesisStream
from firstword.app.errors import CancelReason, Draining, InvalidRequest, SynthesisFailed, TextTooLong
from firstword.app.telemetry.stream_record import StreamRecord

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


class Turn:
    """`async with` waits for a place, opens the stream and owns it; however it is left, all is freed.

    Entering raises what `Engine.open` raises, and RateLimited.

    request.request_id need not be that of the HTTP request: a WebSocket has many turns. owner: whose key it
    is. received_s: when the request came, by the services' clock; None: when the turn is entered.
    """

    stream: SynthesisStream
    record: StreamRecord

    def __init__(
        self, services: Services, request: SynthesisRequest, owner: str, received_s: float | None = None
    ) -> None:
        self.cancel_reason: CancelReason = "shutdown"  # why, should our task be cancelled
        self._services = services
        self._request = request
        self._owner = owner
        self.received_s = received_s
        self._is_open = False

    async def __aenter__(self) -> Self:
        services = self._services
        self.record = self._new_record()
        async with AsyncExitStack() as stack:
            stack.push(self._end_record)
            stack.enter_context(services.quotas.admitted(self._owner))
            stream = await services.engine.open(self._request)
            self.stream = await stack.enter_async_context(stream)
            self._is_open = True
            self.record.named(self._request.request_id, stream.speaker)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            self.cancel(self.cancel_reason)
        await self._stack.__aexit__(kind, error, trace)

    def refuse(self, error: Exception) -> None:
        """Counts a turn that is refused before it is entered; it never will be."""
        self._new_record().end(*outcome_of(error))

    def cancel(self, reason: CancelReason) -> None:
        """Stops the stream at once; its iteration ends. Says so in the record, whatever follows."""
        self.stream.cancel(reason)
        self.record.end("cancelled", reason, self.stream.stats)

    def _new_record(self) -> StreamRecord:
        services = self._services
        return StreamRecord(services.metrics, services.clock, self._request.wire, self.received_s)

    def _end_record(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stats = self.stream.stats if self._is_open else None
        match error:
            case None:
                self.record.end("ok", None, stats)
            case Draining() if self._is_open:
                self.record.end("cancelled", "shutdown", stats)
            case Exception():
                self.record.end(*outcome_of(error), stats)
            case _:
                self.record.end("cancelled", self.cancel_reason, stats)


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


class BodyCut(Exception):
    """The audio broke off after it had begun. Nobody answers it, so that the server drops the connection."""


class ListenerTooSlow(Exception):
    """A write waited too long for the listener to read."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What is to be said, and how the listener wants it."""

    text: str
    form: AudioForm
    field: str = "text"  # where the text came


class AudioResponse(Response):
    """Sends audio as it is made. Its status line waits for the first of it.

    What fails before is raised as it is, for the error handlers; what fails after cuts the body off, so that
    it never looks complete. A listener who leaves, be it while we wait for a place, for audio or for the
    socket, ends the turn at once.
    """

    media_type: str | None = None  # None: that of the audio

    def __init__(self, turn: Turn, speech: Speech, send_timeout_s: float) -> None:
        """turn: not yet entered."""
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.turn = turn
        self._speech = speech
        self._send_timeout_s = send_timeout_s
        self._has_started = False
        self._is_complete = False  # the end of the body has been handed over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._while_connected(receive, self._hold_turn(send))
        except Exception as error:
            if not self._has_started:
                raise
            await self.break_off(error, send)

    async def deliver(self, encoder: TurnEncoder, send: Send) -> None:
        """Sends all that the encoder gives, and the end."""
        async with aclosing(encoder.payloads()) as payloads:
            async for payload in payloads:
                await self.send_audio(send, encoder, payload)
        await self.send_body(send, self.ending(), more_body=False)

    def framed(self, data: bytes) -> bytes:
        """How a payload stands in the body."""
        return data

    def ending(self) -> bytes:
        """What stands behind the last payload."""
        return b""

    async def break_off(self, error: Exception, send: Send) -> None:
        """Shows the listener that the audio is not complete."""
        raise BodyCut("the audio broke off") from error

    async def send_audio(
        self, send: Send, encoder: TurnEncoder, payload: Payload, more_body: bool = True
    ) -> None:
        """The first call sends the status line before the payload."""
        if not self._has_started:
            self._tell_headers(encoder)
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            self._has_started = True
            await self._send_in_time(send, start)
        await self.send_body(send, self.framed(payload.data), more_body)
        self.turn.record.audio_went(payload.num_samples, self._speech.form.sample_rate_hz)

    async def send_body(self, send: Send, body: bytes, more_body: bool) -> None:
        self._is_complete = not more_body
        await self._send_in_time(send, {"type": "http.response.body", "body": body, "more_body": more_body})

    def _tell_headers(self, encoder: TurnEncoder) -> None:
        self.headers["Content-Type"] = self.media_type or encoder.media_type
        self.headers["X-Sample-Rate"] = str(self._speech.form.sample_rate_hz)
        self.headers["X-Channels"] = "1"
        self.headers["Server-Timing"] = self.turn.record.server_timing(self.turn.stream.stats)

    async def _hold_turn(self, send: Send) -> None:
        async with self.turn as turn:
            self._tell_text(turn.stream)
            await self.deliver(TurnEncoder(turn, self._speech.form), send)

    def _tell_text(self, stream: SynthesisStream) -> None:
        try:
            stream.push_text(self._speech.text)
            stream.finish_text()
        except InvalidRequest as error:
            if error.param == "text":
                error.param = self._speech.field
            raise

    async def _send_in_time(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
                # A write to somebody who left returns at once; let the one who watches for that run.
                await asyncio.sleep(0)
        except TimeoutError:
            self.turn.cancel("slow_listener")
            raise ListenerTooSlow(f"a write took longer than {self._send_timeout_s:g} s") from None

    async def _while_connected(self, receive: Receive, work: Coroutine[None, None, None]) -> None:
        """Runs `work` to its end, or until the listener leaves. A server may not fail writes to who left."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._is_complete:  # a server says "disconnect" then, though nobody has left
                await asyncio.wait((working,))
            elif leaving.done():
                self.turn.cancel_reason = "disconnect"
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            working.result()


class CompleteAudioResponse(AudioResponse):
    """Sends all of the audio at once, with its length and with true sizes in its header."""

    async def deliver(self, encoder: TurnEncoder, send: Send) -> None:
        payload = await encoder.whole()
        self.headers["Content-Length"] = str(len(payload.data))
        await self.send_audio(send, encoder, payload, more_body=False)


def answer_with(
    kind: type[AudioResponse],
    http: Request,
    services: Services,
    request: SynthesisRequest,
    speech: Speech,
) -> AudioResponse:
    """What a route returns. Raises TextTooLong here, so that such a text need not wait for a place."""
    turn = Turn(services, request, http.state.key_owner, http.state.received_s)
    try:
        services.engine.info.check_length(len(speech.text), speech.field)
    except TextTooLong as error:
        turn.refuse(error)
        raise
    return kind(turn, speech, services.limits.send_timeout_s)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


logger = logging.getLogger(__name__)


class EventResponse(AudioResponse):
    """The decoded deltas, one behind the other, are what an AudioResponse sends."""

    media_type = "text/event-stream"

    def framed(self, data: bytes) -> bytes:
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})

    def ending(self) -> bytes:
        """Text is counted in characters: the engine does not tell its text tokens."""
        stats = self.turn.stream.stats
        usage = {
            "input_tokens": stats.characters,
            "output_tokens": stats.speech_tokens,
            "total_tokens": stats.characters + stats.speech_tokens,
        }
        return _event({"type": "speech.audio.done", "usage": usage})

    async def break_off(self, error: Exception, send: Send) -> None:
        """The last event says what happened; the body itself may then end as any other."""
        if isinstance(error, ListenerTooSlow):
            await super().break_off(error, send)
        logger.error("the audio broke off", exc_info=error)
        event = _event({"type": "speech.audio.error", **error_body(error)})
        await self.send_body(send, event, more_body=False)


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
