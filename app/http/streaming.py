"""Speak over HTTP: admission, chunked body, complete body and server-sent events."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from firstword.app.audio.formats import FORMATS, AudioFormat, OutputFormat, sample_rate_of
from firstword.app.core.interface import SynthesisRequest
from firstword.app.errors import InvalidRequest
from firstword.app.http.encoding import MIN_AUDIO_S, EncodedChunk, StreamEncoder
from firstword.app.http.errors import INTERNAL, error_body, row_of
from firstword.app.http.schemas import FileFields, ReferenceFields, TimestampFields, synthesis_request
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession

SYNTHETIC = "X-Firstword-Synthetic"  # a header of every answer with speech

logger = logging.getLogger(__name__)


def resolve_output_format(
    format: AudioFormat, sample_rate_hz: int | None, speed: float, service: Service
) -> OutputFormat:
    """sample_rate_hz None: the format's own, or the engine's. Raises InvalidRequest for a bad one."""
    default_hz = service.engine.info.sample_rate_hz
    try:
        rate_hz = sample_rate_of(format, sample_rate_hz, default_hz)
        return OutputFormat(format, rate_hz, speed, service.tags_audio)
    except ValueError as error:
        raise InvalidRequest(str(error), param="sample_rate") from None


class BodyAborted(Exception):
    """The audio failed after it had begun. Nobody handles it, so that the server drops the connection."""

    @property
    def is_ordinary(self) -> bool:
        """Whether the cause is no fault of ours: the server stops, or the client does not read."""
        cause = self.__cause__
        return isinstance(cause, ClientTooSlow) or (
            isinstance(cause, Exception) and row_of(cause) is not INTERNAL
        )


class ClientTooSlow(Exception):
    """A write waited too long for the client to read."""


class TimedStreamingResponse(StreamingResponse):
    """A body as it is made, aborted where the client reads none of it for too long."""

    def __init__(
        self,
        content: AsyncIterable[str] | Iterable[bytes],
        send_timeout_s: float,
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        self._send_timeout_s = send_timeout_s
        super().__init__(content, media_type=media_type, headers=headers)

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._send_timeout_s):
                    await send(message)
            except TimeoutError:
                slow = ClientTooSlow(f"a write took longer than {self._send_timeout_s:g} s")
                raise BodyAborted("a client did not read what it asked for") from slow

        await super().stream_response(send_in_time)


class AudioResponse(Response):
    """Send audio as it is made. The status line waits for the first audio.

    What fails before it is raised as it is, for the error handlers; what fails later aborts the body, so that
    it never looks complete. A client that disconnects, while it waits for a slot, for audio or for the
    socket, ends the stream at once.
    """

    media_type: str | None = None  # None: that of the audio

    def __init__(
        self,
        http: Request,
        service: Service,
        request: SynthesisRequest,
        output: OutputFormat,
        timestamps: TimestampFields | None = None,
        translate: Callable[[Exception], Exception] | None = None,
    ) -> None:
        """timestamps: what was asked of them, for the kinds of response that have any.

        translate: puts errors into the words of a route's own protocol.
        """
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", SYNTHETIC: "true"})
        self.session = StreamSession(service, request, http.state.received_s, http.headers)
        self._output = output
        self._timestamps = timestamps or TimestampFields(timestamps=None)
        self._send_timeout_s = service.limits.slow_listener_timeout_s
        self._translate = translate
        self._has_started = False
        self._is_complete = False  # the end of the body has been handed over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("is_head"):
            media_type = self.media_type or FORMATS[self._output.format].media_type
            head = Response(headers=dict(self.headers), media_type=media_type)
            del head.headers["Content-Length"]
            return await head(scope, receive, send)

        async def disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        speaking = asyncio.ensure_future(self.speak(send))
        leaving = asyncio.ensure_future(disconnect())  # a server need not fail writes to who has left
        try:
            await asyncio.wait((speaking, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._is_complete:  # a server reports a disconnect then, though the client has not left
                await asyncio.wait((speaking,))
            elif leaving.done():
                self.session.cancel_reason = "disconnect"
        finally:
            speaking.cancel()
            leaving.cancel()
            await asyncio.gather(speaking, leaving, return_exceptions=True)
        if speaking.cancelled():
            return
        try:
            speaking.result()
        except Exception as error:
            if self._has_started:
                await self.abort(error, send)
            elif self._translate is None:
                raise
            else:
                raise self._translate(error) from error

    async def speak(self, send: Send) -> None:
        """Send the whole body."""
        async with self.session as session:
            with StreamEncoder(session.stream, self._output, session.record.encoded) as encoder:
                async with aclosing(encoder.events(MIN_AUDIO_S)) as events:
                    async for event in events:
                        if isinstance(event, EncodedChunk):
                            await self.send_audio(send, encoder, event)
            await self.send({"type": "http.response.body", "body": self.last_part()}, send)

    def framed(self, chunk: EncodedChunk) -> bytes:
        """Return encoded audio as it stands in the body."""
        return chunk.data

    def timed(self, chunk: EncodedChunk) -> dict[str, object]:
        """Return the words that ended in the audio, as a field of a JSON object; {} where nobody asked."""
        words = self._timestamps.spoken(chunk.words, self.session.stream.sample_rate_hz * self._output.speed)
        return {} if words is None else {"words": [word.model_dump() for word in words]}

    def last_part(self) -> bytes:
        """Return what follows the last audio."""
        return b""

    async def abort(self, error: Exception, send: Send) -> None:
        """Show the client that the audio is not complete."""
        raise BodyAborted("the stream failed after its first audio") from error

    async def end_with(self, error: Exception, report: bytes, send: Send) -> None:
        """Report the error in the body, which may then end as any other."""
        if isinstance(error, ClientTooSlow):
            raise BodyAborted("the stream failed after its first audio") from error
        if row_of(error) is INTERNAL:
            logger.error("a stream failed after its first audio", exc_info=error)
        else:
            logger.info("a stream was cut off: %s", error)
        await self.send({"type": "http.response.body", "body": report}, send)

    async def send_audio(
        self, send: Send, encoder: StreamEncoder, chunk: EncodedChunk, more_body: bool = True
    ) -> None:
        """The first call sends the status line before the chunk."""
        record = self.session.record
        if not self._has_started:
            self.headers["Content-Type"] = self.media_type or encoder.media_type
            self.headers["X-Sample-Rate"] = str(self._output.sample_rate_hz)
            self.headers["X-Channels"] = "1"
            if warnings := self.session.stream.stats.warnings:
                self.headers["X-Firstword-Warnings"] = "; ".join(warnings)
            self.headers["Server-Timing"] = record.server_timing(self.session.stream.stats)
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            self._has_started = True
            await self.send(start, send)
        body = self.framed(chunk)
        await self.send({"type": "http.response.body", "body": body, "more_body": more_body}, send)
        record.audio_went(chunk.num_samples, self._output.sample_rate_hz)

    async def send(self, message: Message, send: Send) -> None:
        """Raise ClientTooSlow."""
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
                # A write to a client that is gone returns at once; let the task that watches for that run.
                await asyncio.sleep(0)
        except TimeoutError:
            self.session.cancel("slow_listener")
            raise ClientTooSlow(f"a write took longer than {self._send_timeout_s:g} s") from None


class CompleteAudioResponse(AudioResponse):
    """Send all of the audio at once, with its length and with true sizes in its header."""

    async def speak(self, send: Send) -> None:
        async with self.session as session:
            with StreamEncoder(session.stream, self._output, session.record.encoded) as encoder:
                file = await encoder.file()
                self.headers["Content-Length"] = str(len(self.framed(file)))
                await self.send_audio(send, encoder, file, more_body=False)


class CompleteTimedResponse(CompleteAudioResponse):
    """One JSON object: `audio` in base64, `words` and how their times were found."""

    media_type = "application/json"

    def framed(self, chunk: EncodedChunk) -> bytes:
        content = {"audio": base64.b64encode(chunk.data).decode(), **self.timed(chunk)}
        return json.dumps({**content, "word_times": self.session.stream.stats.word_times}).encode()


class TimedResponse(AudioResponse):
    """JSON lines: `audio` in base64 with the `words` that ended in it; at last `word_times` or an `error`."""

    media_type = "application/x-ndjson"

    def framed(self, chunk: EncodedChunk) -> bytes:
        return _line({"audio": base64.b64encode(chunk.data).decode(), **self.timed(chunk)})

    def last_part(self) -> bytes:
        return _line({"word_times": self.session.stream.stats.word_times})

    async def abort(self, error: Exception, send: Send) -> None:
        await self.end_with(error, _line(error_body(error)), send)


class EventStreamResponse(AudioResponse):
    """Send OpenAI's server-sent events. The decoded deltas, concatenated, are an AudioResponse's body."""

    media_type = "text/event-stream"

    def framed(self, chunk: EncodedChunk) -> bytes:
        audio = base64.b64encode(chunk.data).decode()
        return _event({"type": "speech.audio.delta", "audio": audio, **self.timed(chunk)})

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
        await self.end_with(error, _event({"type": "speech.audio.error", **error_body(error)}), send)


async def audio_response(fields: FileFields, request: Request, service: Service, **own: Any) -> AudioResponse:
    """Answer with the audio of a `synthesis_request`, as it is made or all of it.

    own: as that takes it. Raises InvalidRequest and UploadTooLarge.
    """
    output = resolve_output_format(fields.format, fields.sample_rate, fields.speed, service)
    if isinstance(fields, ReferenceFields):
        own["reference"] = await fields.reference(service.limits.max_reference_bytes)
    state = request.state
    synthesis = synthesis_request(fields, state.request_id, state.client, "http", **own)
    timestamps = fields if isinstance(fields, TimestampFields) and fields.wants_words else None
    kind: type[AudioResponse]
    if timestamps is not None:
        kind = TimedResponse if fields.stream else CompleteTimedResponse
    else:
        kind = AudioResponse if fields.stream else CompleteAudioResponse
    return kind(request, service, synthesis, output, timestamps)


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
