"""Gives every request an id and a time, and every answer the headers that tell them."""

import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
ANSWER_STARTS = {"http.response.start", "websocket.accept", "websocket.http.response.start"}


class TimingMiddleware:
    """Pure ASGI, for HTTP and WebSocket: messages go through as they come, as do cancels and errors.

    It puts `request_id` and `received_s` (seconds of `clock`) into scope["state"]. The answer bears
    X-Request-Id and, where the route set no Server-Timing, the time from request to answer. A WebSocket
    refused by a bare close has no answer to bear them; refuse it by a response.

    Wrap it round the whole application: Starlette makes its answer to an unhandled error outside of the
    middlewares that were added to it.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        received_s = self._clock()
        request_id = _request_id(Headers(scope=scope))
        # A dict of its own: a server may give every request the same one.
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "received_s": received_s}

        async def send_timed(message: Message) -> None:
            if message["type"] in ANSWER_STARTS:
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers["X-Request-Id"] = request_id
                headers.setdefault("Server-Timing", f"total;dur={1000 * (self._clock() - received_s):.1f}")
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_timed)


def _request_id(headers: Headers) -> str:
    """The client's own if it is sane, else a new one."""
    theirs = headers.get("X-Request-Id", "")
    return theirs if SANE_REQUEST_ID.fullmatch(theirs) else uuid.uuid4().hex
