"""One gRPC call: its key, its id, its errors as statuses, and why it ended early."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import grpc

from firstword.app.clients import ANYBODY
from firstword.app.errors import CancelReason, Refused, StreamTimeout
from firstword.app.http.auth import Credentials
from firstword.app.http.connection_limits import caller_of
from firstword.app.http.errors import INTERNAL, error_message, row_of
from firstword.app.http.middleware import request_id_of
from firstword.app.http.routes import Guard
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession

STATUS: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ALREADY_EXISTS,
    410: grpc.StatusCode.DATA_LOSS,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    417: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""gRPC's status by that of HTTP, of the same error."""

DEADLINE_MARGIN_S: Final = 0.005

logger = logging.getLogger(__name__)


class Call:
    """What the handler of a method needs of its call."""

    def __init__(self, service: Service, context: Any) -> None:
        metadata = {str(name).lower(): str(value) for name, value in context.invocation_metadata() or ()}
        self.metadata = metadata
        self.request_id = request_id_of(metadata.get("x-request-id", ""))
        self.received_s = service.clock()
        self.client = ANYBODY
        # Without the port: a client has several connections.
        self.host = str(context.peer()).rpartition(":")[0]
        self.session: StreamSession | None = None  # set by a handler whose call is one stream
        self.cancel_reason: CancelReason = "disconnect"  # why, should the call be cancelled
        self.context = context
        self.until_answered = ExitStack()  # left at the first write, or at the end
        self.idle_timer: asyncio.Timeout | None = None  # while the next message of the call is awaited
        self._idle_timeout_s = service.limits.idle_timeout_s
        self._write_timeout_s = service.limits.slow_listener_timeout_s
        self._shown = Credentials(metadata.get("authorization", ""), metadata.get("x-api-key", ""))
        self._auth = service.auth

    async def authenticate(self, guard: Guard) -> None:
        """Raise InvalidApiKey and MissingScope."""
        self.client = await self._auth.client_of(self._shown, guard)

    async def check_key(self) -> None:
        """Raise InvalidApiKey once the key is removed, or allows something else."""
        await self._auth.check_again(self.client)

    @property
    def caller(self) -> str:
        return caller_of(self.client.name, _address_of(self.context.peer()))

    @asynccontextmanager
    async def within_deadline(self) -> AsyncIterator[None]:
        """Raise StreamTimeout right before the deadline that the client set, if it set one.

        gRPC would cancel the call at it, as it does where the client leaves.
        """
        remaining_s = self.context.time_remaining()
        if remaining_s is None:
            yield
            return
        timer = asyncio.timeout(max(0.0, remaining_s - DEADLINE_MARGIN_S))
        # The stream is told why before it is cancelled.
        telling = asyncio.get_running_loop().call_later(remaining_s - 2 * DEADLINE_MARGIN_S, self._be_late)
        try:
            async with timer:
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise StreamTimeout("the deadline of the call passed; give it more time") from None
        finally:
            telling.cancel()

    def _be_late(self) -> None:
        self.cancel_reason = "timeout"
        if self.session is not None:
            self.session.cancel_reason = "timeout"

    async def write(self, message: Any) -> None:
        """Raises StreamTimeout where the client does not read."""
        self.until_answered.close()
        if self.idle_timer is not None and not self.idle_timer.expired():
            now_s = asyncio.get_running_loop().time()
            self.idle_timer.reschedule(now_s + self._idle_timeout_s)
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self.context.write(message)
        except TimeoutError:
            if self.session is not None:
                self.session.cancel("slow_listener")
            raise StreamTimeout(
                f"the client read nothing for {self._write_timeout_s:g} s; read what is sent"
            ) from None

    async def send_id(self) -> None:
        """Send the initial metadata, which bears the id."""
        await self.context.send_initial_metadata((("x-request-id", self.request_id),))


async def abort(context: Any, error: Exception) -> None:
    """End the call with the status of an error; our own faults are logged."""
    row = row_of(error)
    if row is INTERNAL:
        logger.error("a gRPC call failed", exc_info=error)
    metadata = [("error-code", row.code)]
    if isinstance(error, Refused):
        metadata.append(("retry-after", str(error.retry_after_s)))
    await context.abort(STATUS[row.status], error_message(error), tuple(metadata))


def _address_of(peer: str) -> str:
    """Return the address within gRPC's name of the other side, such as ipv4:127.0.0.1:4711."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind  # a socket of this machine's files
    return unquote(rest).rpartition(":")[0].strip("[]")
