"""Reads a request's body before the application sees the request: so much, in so much time, no more."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import count_rejection, error_response
from app.api.limits import Limits
from app.engine.interface import StreamTimeout, TextTooLong, TtsError, UploadTooLarge
from app.telemetry.metrics import Metrics

FORM_BYTES = 64 * 1024  # what an upload's form may add to its file

# A client that is still sending when the connection closes may never see the answer: so much of the rest is
# taken and thrown away.
LINGER_BYTES = 16 * 1024 * 1024
LINGER_S = 5.0

PIECE_BYTES = 256 * 1024  # of a body on its way to the application, which parses it on the event loop


class ClientGone(Exception):
    """The client left before it had sent its body."""


class BodyLimitMiddleware:
    """Pure ASGI. Of a body that is too large it keeps no more than shows that; then the connection closes.

    Bodies are small against what a stream needs, so each is held in memory.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            body = await self._read(scope, receive)
        except ClientGone:
            return
        except TtsError as error:
            return await self._refuse(error, scope, receive, send)
        await self._app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytearray:
        """Raises TextTooLong, UploadTooLarge, StreamTimeout, ClientGone."""
        timeout_s = self._limits.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._read_within_limit(scope, receive)
        except TimeoutError:
            raise StreamTimeout(f"The body did not come within {timeout_s:g} s; send it faster.") from None

    async def _read_within_limit(self, scope: Scope, receive: Receive) -> bytearray:
        too_large, max_bytes = self._limit_of(scope)
        if _declared_bytes(scope) > max_bytes:
            raise too_large
        body = bytearray()
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            more_body = message.get("more_body", False)
            if len(body) > max_bytes:
                raise too_large
        return body

    def _limit_of(self, scope: Scope) -> tuple[TtsError, int]:
        max_file_bytes = self._limits.max_file_bytes(scope["path"])
        if max_file_bytes is not None:
            return upload_too_large(max_file_bytes), max_file_bytes + FORM_BYTES
        max_bytes = self._limits.max_json_bytes
        return TextTooLong(f"The body is larger than {max_bytes} bytes; send a shorter text."), max_bytes

    async def _refuse(self, error: TtsError, scope: Scope, receive: Receive, send: Send) -> None:
        count_rejection(self._metrics, error)
        response = error_response(error)
        response.headers["Connection"] = "close"  # or the server would read the rest, however long
        is_silent = isinstance(error, StreamTimeout)
        await response(scope, receive, send if is_silent else _lingering(receive, send))


def upload_too_large(max_bytes: int) -> UploadTooLarge:
    max_mib = max_bytes / 1024**2
    return UploadTooLarge(f"The upload is larger than {max_mib:g} MiB; send a shorter or compressed file.")


def _declared_bytes(scope: Scope) -> int:
    """What Content-Length says; 0 without one. The server has refused one that is no number."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _lingering(receive: Receive, send: Send) -> Send:
    """Sends an answer at once, and its end, which closes the connection, when the client has had its say."""

    async def send_and_linger(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            await _take_rest(receive)
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_and_linger


async def _take_rest(receive: Receive) -> None:
    taken_bytes = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while taken_bytes < LINGER_BYTES:
                message = await receive()
                taken_bytes += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _replayed(body: bytearray, receive: Receive) -> Receive:
    """Gives the body piece by piece, others running in between, then what the server gives."""
    view = memoryview(body)
    pieces = (view[start : start + PIECE_BYTES] for start in range(0, max(1, len(body)), PIECE_BYTES))
    num_given_bytes = 0

    async def replay() -> Message:
        nonlocal num_given_bytes
        piece = next(pieces, None)
        if piece is None:
            return await receive()
        if num_given_bytes:
            await asyncio.sleep(0)
        num_given_bytes += len(piece)
        return {"type": "http.request", "body": bytes(piece), "more_body": num_given_bytes < len(body)}

    return replay
