"""Read the bodies of requests within the limits of their routes."""

import asyncio
from collections import deque
from contextlib import AsyncExitStack, ExitStack, suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.errors import Overloaded, StreamTimeout, TtsError
from firstword.app.http.connection_limits import Places, caller_of
from firstword.app.http.errors import count_rejection, error_response
from firstword.app.http.held_bytes import MIN_BODY_BYTES, Upload, given_up
from firstword.app.http.limits import BodyLimit
from firstword.app.http.routes import matched_of
from firstword.app.http.service import Service

CHUNKED_BYTES = 1024**2  # whose pace is in time for a body that does not tell its length
BLOCK_BYTES = 256 * 1024  # of a body at a time: the application parses it on the event loop

# A client that is still sending when the connection closes may never see the response: this much of the
# rest is read and discarded.
LINGER_BYTES = 16 * 1024 * 1024
LINGER_S = 5.0
# Of refused bodies at once; of others no more is read than of any request that is answered.
MAX_LINGERING = 16
PART_OF_LINGERING = 1 / 4  # of one client


class ClientDisconnected(Exception):
    """The client left before it had sent its body."""


class BodyLimitMiddleware:
    """Read each request's body before the application sees the request, within a size and a time.

    Of a body that is too large, no more is kept than shows that; then the connection closes. Bodies are held
    in memory, all of them together within `max_bodies_bytes`. A body counts from its head on, which names its
    length, or else as it comes, until its response starts; while it comes, it may be given up for others.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._limits = service.limits
        self._metrics = service.metrics
        self._held = service.bounds.held
        self._lingering = Places(MAX_LINGERING, PART_OF_LINGERING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        body: deque[bytearray] = deque((bytearray(),))
        host, _ = scope.get("client") or ("", 0)
        caller = caller_of(scope["state"]["client"].name, host)
        held = ExitStack()
        upload = held.enter_context(self._held.held(caller))

        async def send_and_release(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.close()
            await send(message)

        limit = matched_of(scope).body_limit
        timeout_s = self._limits.body_timeout_s
        try:
            await self._read(body, limit, upload, scope, receive)
        except ClientDisconnected:
            return
        except TimeoutError:
            body.clear()
            error = StreamTimeout(f"the request body took longer than {timeout_s:g} s; send it faster")
            await self._refuse(error, scope, receive, send_and_release)
        except TtsError as error:
            body.clear()
            held.close()
            async with AsyncExitStack() as place:
                with suppress(Overloaded):
                    await place.enter_async_context(self._lingering.place_now(caller, "refused bodies"))
                    send = _lingering(receive, send)
                await self._refuse(error, scope, receive, send)
        else:
            await self._app(scope, _replay(body, receive), send_and_release)
        finally:
            held.close()

    async def _read(
        self, body: deque[bytearray], limit: BodyLimit, upload: Upload, scope: Scope, receive: Receive
    ) -> None:
        """body: of one empty block, to be read into.

        Raise the limit's error, Overloaded, TimeoutError, ClientDisconnected.
        """
        given = dict(scope["headers"])
        # The server has refused a Content-Length that is not a number.
        num_held = int(given.get(b"content-length", 0))
        if num_held > limit.max_bytes:
            raise limit.error()
        timeout_s = self._limits.body_timeout_s
        s_per_byte = timeout_s / max(1, num_held or min(limit.max_bytes, CHUNKED_BYTES))
        if num_held or b"transfer-encoding" in given:
            num_held = max(num_held, MIN_BODY_BYTES)
            upload.hold(num_held)
        try:
            async with asyncio.timeout(timeout_s) as timer:
                with upload.coming(lambda: _run_out(timer), s_per_byte):
                    more_body = True
                    while more_body:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            raise ClientDisconnected
                        part = message.get("body", b"")
                        _add(body, part)
                        more_body = message.get("more_body", False)
                        upload.came(len(part))
                        if upload.num_come > limit.max_bytes:
                            raise limit.error()
                        if upload.num_come > num_held:
                            upload.hold(upload.num_come - num_held)
                            num_held = upload.num_come
        except TimeoutError:
            if not upload.is_given_up:
                raise
        if upload.is_given_up:  # its last part may have come before that ended the receipt
            raise given_up()

    async def _refuse(self, error: TtsError, scope: Scope, receive: Receive, send: Send) -> None:
        count_rejection(self._metrics, error)
        response = error_response(error, scope)
        response.headers["Connection"] = "close"  # or the server would read the rest, however long
        await response(scope, receive, send)


def _run_out(timer: asyncio.Timeout) -> None:
    if not timer.expired():
        timer.reschedule(asyncio.get_running_loop().time())


def _lingering(receive: Receive, send: Send) -> Send:
    """Send the response at once, then drain the request's body before the end that closes the connection."""

    async def send_and_linger(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            num_bytes = 0
            more_body = True
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while more_body and num_bytes < LINGER_BYTES:
                        part = await receive()
                        num_bytes += len(part.get("body", b""))
                        more_body = part.get("more_body", False)
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_and_linger


def _add(body: deque[bytearray], part: bytes) -> None:
    """Fill the last block, and append others of its size: the next body fits into the holes they leave."""
    while part:
        if len(body[-1]) == BLOCK_BYTES:
            body.append(bytearray())
        room = BLOCK_BYTES - len(body[-1])
        body[-1] += part[:room]
        part = part[room:]


def _replay(body: deque[bytearray], receive: Receive) -> Receive:
    """Return a `receive` that gives the body by blocks, other tasks running in between, then `receive`'s."""
    num_blocks = len(body)

    async def replay() -> Message:
        if not body:
            return await receive()
        if len(body) < num_blocks:
            await asyncio.sleep(0)
        block = bytes(body.popleft())
        return {"type": "http.request", "body": block, "more_body": bool(body)}

    return replay
