"""Answer with a body that is made while it is sent."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from firstword.app.audio.formats import FORMATS, AudioFormat, OutputFormat, sample_rate_of
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import CancelReason, InvalidRequest
from firstword.app.http.errors import INTERNAL, row_of
from firstword.app.http.schemas import TimestampFields
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.http.spoken import NO_TIMESTAMPS, Framing, SpokenAudio, reported

SYNTHETIC = "X-Firstword-Synthetic"  # a header of every answer with speech
PROVENANCE = "X-Firstword-Provenance"  # the marks of origin that it carries, where any are set


def resolve_output_format(
    format: AudioFormat, sample_rate_hz: int | None, speed: float, service: Service
) -> OutputFormat:
    """sample_rate_hz None: the format's own, or the engine's. Raises InvalidRequest for a bad one."""
    default_hz = service.engine.info.sample_rate_hz
    try:
        rate_hz = sample_rate_of(format, sample_rate_hz, default_hz)
        marks = service.provenance
        return OutputFormat(format, rate_hz, speed, marks.tags_files, marks.names_source)
    except ValueError as error:
        raise InvalidRequest(str(error), param="sample_rate") from None


class BodyAborted(Exception):
    """The body failed after it had begun. Nobody handles it, so that the server drops the connection."""

    @property
    def is_ordinary(self) -> bool:
        """Whether the cause is no fault of ours: the server stops, or the client does not read."""
        cause = self.__cause__
        return isinstance(cause, ClientTooSlow) or (
            isinstance(cause, Exception) and row_of(cause) is not INTERNAL
        )


class ClientTooSlow(Exception):
    """A write waited too long for the client to read."""


def ignore(reason: CancelReason) -> None:
    """For a body whose maker does not ask why it ends early."""


class BodyResponse(Response):
    """Send a body as it is made. The status line waits for the first part.

    What fails before it is raised as it is, for the error handlers; what fails later aborts the body, so that
    it never looks complete. A client that disconnects, while it waits for the first part, for another or for
    the socket, closes the generator at once.
    """

    def __init__(
        self,
        parts: AsyncGenerator[bytes],
        headers: Callable[[], Mapping[str, str]],
        send_timeout_s: float,
        leave: Callable[[CancelReason], None] = ignore,
        is_whole: bool = False,
    ) -> None:
        """headers: asked for with the first part, or for a request of the headers alone. leave: called with
        the reason before a generator that has more to give is closed. is_whole: there is one part."""
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store"})
        self._parts = parts
        self._headers_of_start = headers
        self._send_timeout_s = send_timeout_s
        self._leave = leave
        self._is_whole = is_whole
        self._has_started = False
        self._is_complete = False  # the end of the body has been handed over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("is_head"):
            self.headers.update(self._headers_of_start())
            await send(self._start())
            return await send({"type": "http.response.body", "body": b""})

        async def disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(disconnect())  # a server need not fail writes to who has left
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._is_complete:  # a server reports a disconnect then, though the client has not left
                await asyncio.wait((sending,))
            elif leaving.done():
                self._leave("disconnect")
        except asyncio.CancelledError:
            self._leave("shutdown")
            raise
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.cancelled():
            return
        error = sending.exception()
        if error is None:
            return
        if self._has_started:
            raise BodyAborted("the body failed after its first part") from error
        raise error

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._parts) as parts:
            async for part in parts:
                if not self._has_started:
                    if self._is_whole:
                        self.headers["Content-Length"] = str(len(part))
                    self.headers.update(self._headers_of_start())
                    self._has_started = True
                    await self._send(self._start(), send)
                await self._send(
                    {"type": "http.response.body", "body": part, "more_body": not self._is_whole}, send
                )
        if not self._is_whole:
            await self._send({"type": "http.response.body", "body": b""}, send)

    def _start(self) -> Message:
        return {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}

    async def _send(self, message: Message, send: Send) -> None:
        """Raise ClientTooSlow."""
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
                # A write to a client that is gone returns at once; let the task that watches for that run.
                await asyncio.sleep(0)
        except TimeoutError:
            self._leave("slow_listener")
            raise ClientTooSlow(f"a write took longer than {self._send_timeout_s:g} s") from None


def audio_response(
    http: Request,
    service: Service,
    request: SynthesisRequest,
    output: OutputFormat,
    framing: Framing,
    timestamps: TimestampFields = NO_TIMESTAMPS,
    translate: Callable[[Exception], Exception] | None = None,
) -> BodyResponse:
    """Answer with the audio of a stream.

    timestamps: what was asked of them. translate: puts errors into the words of a surface's own protocol.
    """
    session = StreamSession(service, request, http.state.received_s, http.headers)
    media_type = framing.media_type or FORMATS[output.format].media_type

    def headers() -> dict[str, str]:
        found = {"Content-Type": media_type, "X-Accel-Buffering": "no", SYNTHETIC: "true"}
        if service.provenance.names_source:
            found[PROVENANCE] = ", ".join(service.provenance.marks_of(output, framing.is_whole)) or "none"
        if session.is_admitted:  # the rest is known with the first audio
            stats = session.stream.stats
            found |= {"X-Sample-Rate": str(output.sample_rate_hz), "X-Channels": "1"}
            if stats.warnings:
                found["X-Firstword-Warnings"] = "; ".join(stats.warnings)
            found["Server-Timing"] = session.record.server_timing(stats)
        return found

    def leave(reason: CancelReason) -> None:
        session.cancel_reason = reason

    parts = framing.frame(SpokenAudio(session, output, timestamps))
    if translate is not None:
        parts = translated(parts, translate)
    if framing.report is not None:
        parts = reported(parts, framing.report)
    return BodyResponse(parts, headers, service.limits.slow_listener_timeout_s, leave, framing.is_whole)


async def translated(
    parts: AsyncGenerator[bytes], translate: Callable[[Exception], Exception]
) -> AsyncGenerator[bytes]:
    async with aclosing(parts):
        try:
            async for part in parts:
                yield part
        except Exception as error:
            raise translate(error) from error
