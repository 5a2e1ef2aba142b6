"""uvicorn's protocols within limits: of a request's head, of connections without a request, of upgrades."""

import asyncio
import json
import logging
import uuid
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from firstword.app.errors import HeadersTooLarge, InvalidRequest, StreamTimeout, TtsError, UrlTooLong
from firstword.app.http.errors import error_body, row_of
from firstword.app.http.streaming import BodyAborted

MAX_HEAD_BYTES = 64 * 1024  # request line and headers
MAX_HEADERS = 200
HEAD_TIMEOUT_S = 10.0  # from the connection, or the first byte of a later request, to the end of its head
LINGER_S = 1.0  # a client that is still sending when its connection closes may never see the answer

logger = logging.getLogger(__name__)


class HttpProtocol(HttpToolsProtocol):
    """A connection that is refused as soon as its request's head is too large or takes too long.

    A connection counts as waiting while it has no request: until its first one has a whole head, and between
    two of them. Where too many wait, the one that has waited longest is closed.
    """

    def __init__(
        self, *given: Any, waiting: "dict[HttpProtocol, None]", max_waiting: int, **named: Any
    ) -> None:
        """waiting: the server's connections without a request, the one that waits longest first."""
        super().__init__(*given, **named)
        self._waiting = waiting
        self._max_waiting = max_waiting
        self._num_head_bytes = 0
        self._is_in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._refusal: TtsError | None = None  # why the parser was stopped

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._note_waiting()
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        while self._is_in_head and data:
            if self._head_timer is None:
                self._start_head_timer()
            part = data[: MAX_HEAD_BYTES - self._num_head_bytes]
            data = data[len(part) :]
            self._num_head_bytes += len(part)
            super().data_received(part)
            if self._refusal is not None or self.transport.is_closing():
                return
            if self.transport.get_protocol() is not self:  # upgraded
                return
            if self._is_in_head and self._num_head_bytes >= MAX_HEAD_BYTES:
                kind = HeadersTooLarge if self.headers else UrlTooLong
                self._refuse(
                    kind(f"the request's head is larger than {MAX_HEAD_BYTES} bytes; send a smaller one")
                )
                return
        if data:
            super().data_received(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._refusal = HeadersTooLarge(f"the request has more than {MAX_HEADERS} headers; send fewer")
            raise self._refusal  # stops the parser, which calls `send_400_response`

    def on_headers_complete(self) -> None:
        names = {name for name, value in self.headers if (name, value) != (b"content-length", b"0")}
        if self._should_upgrade() and names & {b"content-length", b"transfer-encoding"}:
            self._refusal = InvalidRequest("a WebSocket's upgrade has no body; leave out its length")
            raise self._refusal
        self._is_in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._num_head_bytes = 0
        self._note_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_waiting()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        async def app_or_cut(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await app(scope, receive, send)
            except BodyAborted as aborted:
                if not aborted.is_ordinary:
                    raise
                logger.info("a stream was cut off: %s", aborted.__cause__)
                cycle.disconnected = True  # else uvicorn logs that the response is not complete
                self.transport.close()

        super()._start_asgi_task(cycle, cast(Any, app_or_cut))

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or InvalidRequest("the request is not valid HTTP; send HTTP/1.1"))

    def _note_waiting(self) -> None:
        if not (self._is_in_head and self._is_idle):
            return
        self._waiting[self] = None
        if len(self._waiting) > self._max_waiting:
            longest = next(iter(self._waiting))
            longest._stop_waiting()
            longest.transport.abort()

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._time_out)

    def _time_out(self) -> None:
        self._head_timer = None
        if not self._is_idle:  # what was sent ahead may wait for the answer before it
            self._start_head_timer()
        elif self._num_head_bytes:
            self._refuse(
                StreamTimeout(f"the request's head took longer than {HEAD_TIMEOUT_S:g} s; send it faster")
            )
        else:
            self.transport.close()

    @property
    def _is_idle(self) -> bool:
        """Whether no answer is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, error: TtsError) -> None:
        """Answer and close; between the two, what still comes is discarded."""
        self._refusal = error
        self._stop_waiting()
        if not self._is_idle:  # in the middle of another answer there is no place for this one
            self.transport.abort()
            return
        self.transport.write(refusal(error))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Answers an upgrade that its library does not, and closes one that was not answered yet."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(
                refusal(InvalidRequest(f"the upgrade is not valid: {self.conn.handshake_exc}"))
            )
            self.transport.close()

    def shutdown(self) -> None:
        if self.handshake_initiated:
            super().shutdown()
        else:
            self.transport.close()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # by a response instead; else uvicorn logs an error


def refusal(error: TtsError) -> bytes:
    """Return an answer to what never becomes a request of the application."""
    body = json.dumps(error_body(error)).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-request-id": uuid.uuid4().hex,
        "connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[row_of(error).status] + lines.encode() + b"\r\n" + body
