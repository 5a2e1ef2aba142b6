"""Stream audio over HTTP: admission, encoding, chunked body and server-sent events."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstword.app.api.dependencies import Services
from firstword.app.api.errors import error_body, outcome_of
from firstword.app.audio.formats import AudioFormat, OutputFormat, sample_rate_of
from firstword.app.audio.stream import EncodedChunk, StreamEncoder
from firstword.app.engine.interface import Audio, Flushed, StreamEvent, SynthesisRequest, SynthesisStream
from firstword.app.errors import CancelReason, Draining, InvalidRequest, SynthesisFailed
from firstword.app.telemetry.stream_record import StreamRecord, StreamStats

logger = logging.getLogger(__name__)


def resolve_output_format(
    format: AudioFormat, sample_rate_hz: int | None, speed: float, default_hz: int
) -> OutputFormat:
    """sample_rate_hz None: the format's own, or `default_hz`. Raises InvalidRequest for a bad one."""
    try:
        return OutputFormat(format, sample_rate_of(format, sample_rate_hz, default_hz), speed)
    except ValueError as error:
        raise InvalidRequest(str(error), param="sample_rate") from None


class StreamSession:
    """One stream of a client: admission, the engine's stream and its record, used by HTTP and WebSocket.

    `async with` waits for a slot, opens the stream and owns it; however it is left, everything is freed.
    Entering raises what `Engine.open` raises, and RateLimited.
    """

    def __init__(
        self, services: Services, request: SynthesisRequest, owner: str, received_s: float | None = None
    ) -> None:
        """owner: whose API key it is. received_s: when the request came, by the services' clock; None: when
        the session is entered."""
        self.cancel_reason: CancelReason = "shutdown"  # why, should our task be cancelled
        self.received_s = received_s
        self._services = services
        self._request = request
        self._owner = owner
        self._record: StreamRecord | None = None  # None: not entered
        self._stream: SynthesisStream | None = None  # None: not open yet
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        services = self._services
        self._record = self._new_record()
        async with AsyncExitStack() as stack:
            stack.push(self._end_record)
            stack.enter_context(services.quotas.admitted(self._owner))
            stream = await services.engine.open(self._request)
            self._stream = await stack.enter_async_context(stream)
            self._record.named(self._request.request_id, stream.speaker)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            self.cancel(self.cancel_reason)
        await self._resources.__aexit__(kind, error, trace)

    @property
    def is_open(self) -> bool:
        """Whether it has, or had, a stream."""
        return self._stream is not None

    @property
    def stream(self) -> SynthesisStream:
        assert self._stream is not None, "the session has not been entered"
        return self._stream

    @property
    def record(self) -> StreamRecord:
        assert self._record is not None, "the session has not been entered"
        return self._record

    def cancel(self, reason: CancelReason) -> None:
        """Stop the stream at once, which ends its iteration, and record why."""
        self.stream.cancel(reason)
        self.record.end("cancelled", reason, self.stream.stats)

    def record_failure(self, error: Exception) -> None:
        """Count the stream as ended by `error`, entered or not; the first cause counts."""
        record = self._new_record() if self._record is None else self._record
        record.end(*outcome_of(error), self._stats)

    @property
    def _stats(self) -> StreamStats | None:
        return None if self._stream is None else self._stream.stats

    def _new_record(self) -> StreamRecord:
        services = self._services
        return StreamRecord(services.metrics, services.clock, self._request.wire, self.received_s)

    def _end_record(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        match error:
            case None:
                self.record.end("ok", None, self._stats)
            case Draining() if self.is_open:
                self.record.end("cancelled", "shutdown", self._stats)
            case Exception():
                self.record_failure(error)
            case _:
                self.record.end("cancelled", self.cancel_reason, self._stats)


def open_stream_encoder(session: StreamSession, output: OutputFormat) -> StreamEncoder:
    """session: entered."""
    return StreamEncoder(output, session.stream.sample_rate_hz, session.record.encoded)


async def encoded_events(
    stream: SynthesisStream, encoder: StreamEncoder
) -> AsyncGenerator[EncodedChunk | Flushed]:
    """Yield the stream's audio encoded, and Flushed behind the last audio of each flush.

    Raises what the stream raises, and SynthesisFailed for a stream without audio.
    """
    await encoder.start()
    async with aclosing(_audio_events(stream)) as events:
        async for event in events:
            if isinstance(event, Audio):
                chunk = await encoder.encode(event.samples)
            else:
                chunk = await encoder.flush()
            if chunk is not None:
                yield chunk
            if isinstance(event, Flushed):
                yield event
    rest = await encoder.finish()
    if rest is not None:
        yield rest


async def encoded_file(stream: SynthesisStream, encoder: StreamEncoder) -> EncodedChunk:
    """Return all of the stream's audio as one complete file. Raises as `encoded_events`."""
    async with aclosing(_audio_events(stream)) as events:
        chunks = [event.samples async for event in events if isinstance(event, Audio)]
    return await encoder.encode_file(chunks)


async def _audio_events(stream: SynthesisStream) -> AsyncGenerator[StreamEvent]:
    has_audio = False
    async for event in stream:
        if isinstance(event, Audio):
            if not event.samples.size:
                continue
            has_audio = True
        yield event
    if not has_audio:
        raise SynthesisFailed("The stream ended without any audio.")


class BodyAborted(Exception):
    """The audio failed after it had begun. Nobody handles it, so that the server drops the connection."""


class ClientTooSlow(Exception):
    """A write waited too long for the client to read."""


class AudioResponse(Response):
    """Send audio as it is made. The status line waits for the first audio.

    What fails before it is raised as it is, for the error handlers; what fails later aborts the body, so that
    it never looks complete. A client that disconnects, while it waits for a slot, for audio or for the
    socket, ends the stream at once.
    """

    media_type: str | None = None  # None: that of the audio

    def __init__(
        self,
        session: StreamSession,
        output: OutputFormat,
        send_timeout_s: float,
        text_field: str = "text",
    ) -> None:
        """session: not yet entered. text_field: the request's field that holds the text, for errors."""
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.session = session
        self._output = output
        self._send_timeout_s = send_timeout_s
        self._text_field = text_field
        self._has_started = False
        self._is_complete = False  # the end of the body has been handed over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._until_disconnect(receive, self._speak(send))
        except Exception as error:
            if isinstance(error, InvalidRequest) and error.param == "text":
                error.param = self._text_field
            if not self._has_started:
                raise
            await self.abort(error, send)

    async def deliver(self, encoder: StreamEncoder, send: Send) -> None:
        """Send the whole body."""
        async with aclosing(encoded_events(self.session.stream, encoder)) as events:
            async for event in events:
                if isinstance(event, EncodedChunk):
                    await self.send_audio(send, encoder, event)
        await self.send_body(send, self.last_part(), more_body=False)

    def framed(self, data: bytes) -> bytes:
        """Return encoded audio as it stands in the body."""
        return data

    def last_part(self) -> bytes:
        """Return what follows the last audio."""
        return b""

    async def abort(self, error: Exception, send: Send) -> None:
        """Show the client that the audio is not complete."""
        raise BodyAborted("the stream failed after its first audio") from error

    async def send_audio(
        self, send: Send, encoder: StreamEncoder, chunk: EncodedChunk, more_body: bool = True
    ) -> None:
        """The first call sends the status line before the chunk."""
        record = self.session.record
        if not self._has_started:
            self.headers["Content-Type"] = self.media_type or encoder.media_type
            self.headers["X-Sample-Rate"] = str(self._output.sample_rate_hz)
            self.headers["X-Channels"] = "1"
            self.headers["Server-Timing"] = record.server_timing(self.session.stream.stats)
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            self._has_started = True
            await self._send(send, start)
        await self.send_body(send, self.framed(chunk.data), more_body)
        record.audio_went(chunk.num_samples, self._output.sample_rate_hz)

    async def send_body(self, send: Send, body: bytes, more_body: bool) -> None:
        self._is_complete = not more_body
        await self._send(send, {"type": "http.response.body", "body": body, "more_body": more_body})

    async def _speak(self, send: Send) -> None:
        async with self.session as session:
            await self.deliver(open_stream_encoder(session, self._output), send)

    async def _send(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
                # A write to a client that is gone returns at once; let the task that watches for that run.
                await asyncio.sleep(0)
        except TimeoutError:
            self.session.cancel("slow_listener")
            raise ClientTooSlow(f"a write took longer than {self._send_timeout_s:g} s") from None

    async def _until_disconnect(self, receive: Receive, work: Coroutine[None, None, None]) -> None:
        """Run `work` to its end or until the client disconnects; a server need not fail writes to it."""

        async def disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(disconnect())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._is_complete:  # a server reports a disconnect then, though the client has not left
                await asyncio.wait((working,))
            elif leaving.done():
                self.session.cancel_reason = "disconnect"
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            working.result()


class CompleteAudioResponse(AudioResponse):
    """Send all of the audio at once, with its length and with true sizes in its header."""

    async def deliver(self, encoder: StreamEncoder, send: Send) -> None:
        file = await encoded_file(self.session.stream, encoder)
        self.headers["Content-Length"] = str(len(file.data))
        await self.send_audio(send, encoder, file, more_body=False)


class EventStreamResponse(AudioResponse):
    """Send OpenAI's server-sent events. The decoded deltas, concatenated, are an AudioResponse's body."""

    media_type = "text/event-stream"

    def framed(self, data: bytes) -> bytes:
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})

    def last_part(self) -> bytes:
        """Input tokens are counted as characters: the engine does not report its text tokens."""
        stats = self.session.stream.stats
        usage = {
            "input_tokens": stats.characters,
            "output_tokens": stats.speech_tokens,
            "total_tokens": stats.characters + stats.speech_tokens,
        }
        return _event({"type": "speech.audio.done", "usage": usage})

    async def abort(self, error: Exception, send: Send) -> None:
        """Report the error in a last event; the body may then end as any other."""
        if isinstance(error, ClientTooSlow):
            await super().abort(error, send)
        logger.error("a stream failed after its first audio", exc_info=error)
        event = _event({"type": "speech.audio.error", **error_body(error)})
        await self.send_body(send, event, more_body=False)


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def audio_response(
    kind: type[AudioResponse],
    http: Request,
    services: Services,
    request: SynthesisRequest,
    output: OutputFormat,
    text_field: str = "text",
) -> AudioResponse:
    """Return what a route answers. text_field: the field that the text came in."""
    session = StreamSession(services, request, http.state.key_owner, http.state.received_s)
    return kind(session, output, services.limits.slow_listener_timeout_s, text_field)
