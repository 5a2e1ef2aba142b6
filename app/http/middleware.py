"""ASGI middleware that every request passes: its id and time, internal errors."""

import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.http.errors import error_response, route_of

logger = logging.getLogger(__name__)

_ACCEPTED_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_RESPONSE_STARTS = {"http.response.start", "websocket.accept", "websocket.http.response.start"}


def request_id_of(given: str) -> str:
    """Return the id that a client gave its request, or one of ours."""
    return given if _ACCEPTED_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


class TimingMiddleware:
    """Give every HTTP and WebSocket request an id and a time, and its response the headers that report them.

    It puts `request_id` and `received_s` (seconds of `clock`) into scope["state"]. The response carries
    X-Request-Id and, where the route set no Server-Timing, the time from request to response. A WebSocket
    refused by a bare close has no response to carry them; refuse it by a response.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        received_s = self._clock()
        request_id = request_id_of(Headers(scope=scope).get("X-Request-Id", ""))
        # A dict of its own: a server may give every request the same one.
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "received_s": received_s}

        async def send_timed(message: Message) -> None:
            if message["type"] in _RESPONSE_STARTS:
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers["X-Request-Id"] = request_id
                if message["type"] == "http.response.start":
                    headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Server-Timing", f"total;dur={1000 * (self._clock() - received_s):.1f}")
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_timed)


class InternalErrorMiddleware:
    """Turn unhandled exceptions into a generic 500 and log them.

    It belongs inside the middlewares that add headers to every response. Once a response has started, the
    exception is passed on and the server drops the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_started = False

        async def note_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except Exception as error:
            if has_started:
                raise
            logger.exception("%s %s failed", scope["method"], route_of(scope))
            await error_response(error, scope)(scope, receive, send)
