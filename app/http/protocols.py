"""uvicorn's protocols within limits: of heads, framing and unread rests, of idle connections, of frames."""

import asyncio
import base64
import binascii
import json
import logging
import uuid
from contextlib import suppress
from typing import Any, Final, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from firstword.app.errors import (
    Draining,
    ExpectationFailed,
    HeadersTooLarge,
    InvalidRequest,
    Refused,
    StreamTimeout,
    TtsError,
    UnsupportedCoding,
    UpgradeRequired,
    UrlTooLong,
)
from firstword.app.http import connection_limits as limits
from firstword.app.http.errors import error_body, row_of
from firstword.app.http.streaming import BodyAborted

WEBSOCKET_VERSION: Final = b"13"  # RFC 6455

logger = logging.getLogger(__name__)


class HttpProtocol(HttpToolsProtocol):
    """A connection that is refused as soon as a request's head or framing is too large or takes too long.

    Framing is what is neither head nor body: sizes and extensions of chunks, trailers. Once a request is
    answered, a bounded rest of it is read and discarded.

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
        self._num_body_bytes = 0  # of the current request, as the next two
        self._num_framing_bytes = 0
        self._num_rest_bytes = 0  # came after its answer
        self._is_in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._refusal: TtsError | None = None  # why the parser was stopped
        self._answered: RequestResponseCycle | None = None  # the request whose answer began last
        self._has_upgrade = False  # which waits for the application of the request ahead to end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._note_waiting()
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_lingering()
        if self._answered is not None:  # uvicorn tells the last request alone, which may wait behind this one
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data:
            if self.transport.is_closing():
                return
            if self._refusal is not None:
                self._discard(len(data))
                return
            if self._has_upgrade:  # a client sends nothing before its upgrade is answered
                self.transport.abort()
                return
            room = limits.MAX_HEAD_BYTES - (self._num_head_bytes if self._is_in_head else 0)
            part, data = data[:room], data[room:]
            if self._is_in_head:
                self._head_received(part)
            else:
                self._body_received(part)
            if self.transport.get_protocol() is not self:  # upgraded
                return

    def _head_received(self, part: bytes) -> None:
        if self._head_timer is None:
            self._start_head_timer()
        self._num_head_bytes += len(part)
        super().data_received(part)
        if self._is_in_head and self._num_head_bytes >= limits.MAX_HEAD_BYTES and not self._is_refused:
            kind = HeadersTooLarge if self.headers else UrlTooLong
            self._refuse(
                kind(f"the request's head is larger than {limits.MAX_HEAD_BYTES} bytes; send a smaller one")
            )

    def _body_received(self, part: bytes) -> None:
        if self.cycle.response_complete:
            self._discard(len(part))
        body_before = self._num_body_bytes
        super().data_received(part)
        if self._is_in_head or self._is_refused:
            return
        self._num_framing_bytes += len(part) - (self._num_body_bytes - body_before)
        allowed = limits.max_framing_bytes(self._num_body_bytes)
        if self._num_framing_bytes > allowed:
            self._refuse(
                InvalidRequest(
                    f"the body's chunk sizes, extensions and trailers are larger than {allowed} bytes; send "
                    "larger chunks and no trailers"
                )
            )

    def _discard(self, num_bytes: int) -> None:
        """Stop reading where too much has come of a request that is answered."""
        self._num_rest_bytes += num_bytes
        if self._num_rest_bytes > limits.MAX_REST_BYTES:
            self.transport.pause_reading()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > limits.MAX_HEADERS:
            self._refusal = HeadersTooLarge(
                f"the request has more than {limits.MAX_HEADERS} headers; send fewer"
            )
            raise self._refusal  # stops the parser, which calls `send_400_response`

    def on_headers_complete(self) -> None:
        fault = self._fault_of_head()
        if fault is not None:
            self._refusal = fault
            raise fault
        self._is_in_head = False
        self._num_body_bytes = self._num_framing_bytes = self._num_rest_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def _fault_of_head(self) -> TtsError | None:
        """Return why a head cannot be served: RFC 9110 and 9112, and RFC 6455 of an upgrade."""
        values: dict[bytes, bytes] = {}
        for name, value in self.headers:
            values[name] = values[name] + b"," + value if name in values else value
        coding = values.get(b"transfer-encoding")
        if coding is not None and self.parser.get_http_version() == "1.0":
            return InvalidRequest("HTTP/1.0 has no Transfer-Encoding; send a Content-Length, or HTTP/1.1")
        if coding is not None and coding.strip().lower() != b"chunked":
            return UnsupportedCoding(
                f"Transfer-Encoding is {coding[:60].decode('latin-1')!a}; only chunked is understood"
            )
        expected = values.get(b"expect")
        if expected is not None and expected.strip().lower() != b"100-continue":
            return ExpectationFailed(
                f"Expect is {expected[:60].decode('latin-1')!a}; only 100-continue is understood"
            )
        if self.url.count(b"&") >= limits.MAX_PARAMETERS:
            return UrlTooLong(f"the address has more than {limits.MAX_PARAMETERS} parameters; send fewer")
        if len(values.get(b"content-type", b"")) > limits.MAX_CONTENT_TYPE_BYTES:
            return HeadersTooLarge(
                f"Content-Type is longer than {limits.MAX_CONTENT_TYPE_BYTES} bytes; send a shorter one"
            )
        if not self._should_upgrade():
            return None
        if not (self._is_idle or self._is_sent):
            return InvalidRequest("an upgrade came before the answer to the request ahead; await it")
        if b"transfer-encoding" in values or values.get(b"content-length", b"0") != b"0":
            return InvalidRequest("a WebSocket's upgrade has no body; leave out its length")
        version = values.get(b"sec-websocket-version", b"").strip()
        if version != WEBSOCKET_VERSION:
            return UpgradeRequired(
                f"Sec-WebSocket-Version is {version[:60].decode('latin-1')!a}; expected "
                f"{WEBSOCKET_VERSION.decode()}"
            )
        if not _is_websocket_key(values.get(b"sec-websocket-key", b"")):
            return InvalidRequest("Sec-WebSocket-Key has to be 16 bytes in base64; use a WebSocket client")
        return None

    def _should_upgrade(self) -> bool:
        """Whether a WebSocket is asked for; an upgrade in HTTP/1.0 is to be ignored (RFC 9110, 7.8)."""
        return self.parser.get_http_version() != "1.0" and super()._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        if self._is_idle:
            super().handle_websocket_upgrade()
        else:
            self._has_upgrade = True
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        self._num_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._num_head_bytes = 0
        self._stop_lingering()
        self._note_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_upgrade and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            super().handle_websocket_upgrade()
            return
        self._note_waiting()
        if not self._is_in_head and self.cycle.response_complete and not self.transport.is_closing():
            self._linger_timer = self.loop.call_later(limits.LINGER_S, self.transport.close)

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

        self._answered = cycle
        super()._start_asgi_task(cycle, cast(Any, app_or_cut))

    def shutdown(self) -> None:
        """Answer a request whose body is still to come: it would wait for it longer than the server does."""
        if self._is_in_head or self._is_refused or self.cycle.response_started:
            super().shutdown()
        else:
            self._refuse(
                Draining("the server is shutting down; send the request again", 1), limits.DRAIN_LINGER_S
            )

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
        self._head_timer = self.loop.call_later(limits.HEAD_TIMEOUT_S, self._time_out)

    def _stop_lingering(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _time_out(self) -> None:
        self._head_timer = None
        if not self._is_idle:  # what was sent ahead may wait for the answer before it
            self._start_head_timer()
        elif self._num_head_bytes:
            self._refuse(
                StreamTimeout(
                    f"the request's head took longer than {limits.HEAD_TIMEOUT_S:g} s; send it faster"
                )
            )
        else:
            self.transport.close()

    @property
    def _is_idle(self) -> bool:
        """Whether no answer is under way."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _is_sent(self) -> bool:
        """Whether the client has the last answer whole, though its application goes on."""
        cycle = self.cycle
        if not cycle.response_started:
            return False
        is_head = cycle.scope["method"] == "HEAD"
        return is_head or (cycle.chunked_encoding is False and cycle.expected_content_length == 0)

    @property
    def _is_refused(self) -> bool:
        return self._refusal is not None or self.transport.is_closing()

    def _refuse(self, error: TtsError, linger_s: float = limits.LINGER_S) -> None:
        """Answer and close; between the two, what still comes is discarded."""
        self._refusal = error
        self._stop_waiting()
        if not self._is_in_head and self.cycle.response_complete:
            self.transport.close()  # the request whose body is at fault has its answer
            return
        if not self._is_idle:
            if self.pipeline or self.cycle.response_started:  # in another answer there is no place for this
                self.transport.abort()
                return
            self.cycle.disconnected = True  # the application, which waits for its body, has lost its client
            self.cycle.message_event.set()
        self.transport.write(refusal(error))
        if self.transport.can_write_eof():
            with suppress(OSError):  # the other side has reset the connection
                self.transport.write_eof()
        self.loop.call_later(linger_s, self.transport.abort)


def _is_websocket_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value.strip(), validate=True)) == 16
    except binascii.Error:
        return False


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket whose frames are worked off in slices, and closed with 1008 where most carry nothing.

    It also answers an upgrade that its library does not, and closes one that was not answered yet.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._received = bytearray()  # and not worked off yet
        self._next_slice: asyncio.Handle | None = None
        self._frames = limits.frame_budget(self.loop.time())
        self._has_too_many_frames = False

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:
            self._receive_upgrade(data)
            return
        self._received += data
        if self._next_slice is None:
            self._work_off_slice()
        else:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next_slice is not None:
            self._next_slice.cancel()
        super().connection_lost(exc)

    async def receive(self) -> Any:
        message = await super().receive()
        if self._received:  # uvicorn reads on once no message waits
            self.transport.pause_reading()
        return message

    def _receive_upgrade(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(
                refusal(InvalidRequest(f"the upgrade is not valid: {self.conn.handshake_exc}"))
            )
            self.transport.close()

    def _work_off_slice(self) -> None:
        self._next_slice = None
        if self.transport.is_closing():
            return
        part = bytes(self._received[: limits.SLICE_BYTES])
        del self._received[: limits.SLICE_BYTES]
        super().data_received(part)
        if self._has_too_many_frames and not self.transport.is_closing():
            self._close_flooded()
        elif self._received:
            self.transport.pause_reading()
            self._next_slice = self.loop.call_soon(self._work_off_slice)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _close_flooded(self) -> None:
        logger.info("a WebSocket sent more than %d frames a second that carry nothing", limits.FRAMES_PER_S)
        if not self.handshake_complete or self.close_sent:
            self.transport.close()
            return
        self.conn.fail(1008, f"more than {limits.FRAMES_PER_S} control or empty frames a second; send fewer")
        self.handle_parser_exception()

    def _count_frame(self) -> None:
        if self._frames.take(self.loop.time()) > 0:
            self._has_too_many_frames = True

    def handle_ping(self) -> None:
        self._count_frame()
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._count_frame()
        super().handle_pong(event)

    def handle_cont(self, event: Frame) -> None:
        if len(event.data) < limits.SMALL_FRAME_BYTES:
            self._count_frame()
        super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        if not event.data:
            self._count_frame()
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        if not event.data:
            self._count_frame()
        super().handle_bytes(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn would log it as an error of ours
                self.frames = []
                if self.conn.close_sent is None:
                    self.conn.fail(1007, "the text is not valid UTF-8")
                    self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

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
    if isinstance(error, Refused):
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, UpgradeRequired):
        headers["sec-websocket-version"] = WEBSOCKET_VERSION.decode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[row_of(error).status] + lines.encode() + b"\r\n" + body
