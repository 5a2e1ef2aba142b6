"""What one connection may send beside its messages, how long it may take, and how many calls may be open: the
limits of every door."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from firstword.app.errors import Overloaded
from firstword.app.http.limits import TokenBucket

Received = TypeVar("Received")

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers
MAX_HEADERS: Final = 200
MAX_CONTENT_TYPE_BYTES: Final = 1024  # its parameters are taken apart in the square of the time
HEAD_TIMEOUT_S = 10.0  # from the connection, or the first byte of a later request, to the end of its head

FRAMING_BYTES: Final = 64 * 1024  # trailers, sizes and extensions of chunks, beside a share of the body
FRAMING_SHARE: Final = 8  # one byte of framing for so many of the body

MAX_REST_BYTES: Final = 1 << 20  # of a request, once it is answered
LINGER_S = 1.0  # for that rest: a client still sending when its connection closes may not see the answer
DRAIN_LINGER_S = 0.5  # the same at the end of the server, which waits a second for its connections

SLICE_BYTES: Final = 4 * 1024  # of a WebSocket, worked off before the event loop serves others
SMALL_FRAME_BYTES: Final = 64  # a fragment below it counts as one that carries nothing
FRAMES_PER_S: Final = 50  # control frames and those that carry next to nothing, in the long run
FRAME_BURST: Final = 100  # the same, at once

MAX_WAITING: Final = 1024  # connections without a request; each is a file handle and a few KB

MAX_CALLS: Final = 1024  # of gRPC at once, each with one message
MIN_STREAM_CALLS: Final = 16  # calls at once that take one message after the other: each may hold one
STREAM_CALLS_PER_SLOT: Final = 2  # the same, on a server that speaks many streams
PART_OF_CALLS: Final = 3 / 4  # that one client may have, of both
QUICK_MESSAGE_S = 0.1  # what takes longer to come is slow, and leaves its place to what does not
QUICK_READERS: Final = 1 / 3  # of the messages that are received at once; the rest are slow ones
PART_OF_READERS: Final = 1 / 2  # of both, that one client may have

MAX_PUBLIC_CALLS: Final = 64  # of methods that ask for no key; and so many that go on, as health watches do
PART_OF_PUBLIC_CALLS: Final = 1 / 4
NUM_PUBLIC_READERS: Final = 4
PUBLIC_MESSAGE_TIMEOUT_S = 2.0  # for a message of theirs, which is a name at most

MAX_GRPC_CONNECTIONS: Final = 4096
KEEPALIVE_S: Final = 60  # of gRPC: then a ping finds out whether the other side is still there
WINDOW_BYTES: Final = 64 * 1024 - 1  # that a gRPC client may send before its call is let in: HTTP/2's own


def max_framing_bytes(num_body_bytes: int) -> int:
    """Return how many bytes may come that are neither head nor body, beside so many of the body."""
    return FRAMING_BYTES + num_body_bytes // FRAMING_SHARE


def frame_budget(now_s: float) -> TokenBucket:
    """Return what a WebSocket may spend on frames that are no message. now_s: the clock of its `take`."""
    return TokenBucket(FRAME_BURST, FRAMES_PER_S, FRAME_BURST, now_s)


def max_waiting() -> int:
    """Return how many connections may be open without a request: well under the limit of file handles."""
    return _of_file_handles(MAX_WAITING, 4)


def max_grpc_connections() -> int:
    """Return how many connections gRPC may have: it closes none to let another in."""
    return _of_file_handles(MAX_GRPC_CONNECTIONS, 2)


def _of_file_handles(at_most: int, share: int) -> int:
    if sys.platform == "win32":
        return at_most
    import resource

    num_handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return at_most if num_handles == resource.RLIM_INFINITY else min(at_most, num_handles // share)


def max_stream_calls(max_streams: int) -> int:
    """Return how many calls of gRPC that take one message after the other may be open at once."""
    return max(MIN_STREAM_CALLS, STREAM_CALLS_PER_SLOT * max_streams)


def num_readers(max_bytes: int, max_message_bytes: int) -> int:
    """Return how many messages of gRPC may be received at once, so that they have so many bytes at most."""
    return max(2, max_bytes // max_message_bytes)


class Places:
    """Places that clients share, of which each may have a part; a client is known by its key or address."""

    def __init__(self, capacity: int, part: float) -> None:
        """part: that one client may have."""
        self._free = asyncio.Semaphore(capacity)
        self._per_client = max(1, int(part * capacity))
        self._own: dict[str, asyncio.Semaphore] = {}  # of clients that have a place, or wait for one
        self._num_of: Counter[str] = Counter()

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        own = self._own.setdefault(client, asyncio.Semaphore(self._per_client))
        self._num_of[client] += 1
        try:
            async with own, self._free:  # in this order: who has all of its own keeps nobody else waiting
                yield
        finally:
            self._num_of[client] -= 1
            if not self._num_of[client]:
                del self._num_of[client], self._own[client]

    @asynccontextmanager
    async def place_now(self, client: str, what: str) -> AsyncIterator[None]:
        """Hold a place. Raise Overloaded where there is none; what: the calls that have them."""
        own = self._own.get(client)
        if own is not None and own.locked():
            raise Overloaded(f"{self._per_client} {what} of this client are open already; end one", 1)
        if self._free.locked():
            raise Overloaded(f"too many {what} are open on this server; retry later", 1)
        async with self.place(client):
            yield


class Readers:
    """Places in which messages of gRPC are received, so many at once.

    gRPC says of a message that it has come, not that it comes, and a receipt that has begun cannot be
    withdrawn. So every message begins in a quick place, and one that is not there at once goes to a slow one:
    slow messages of a client keep neither its quick ones waiting nor those of others.
    """

    def __init__(self, count: int, has_slow: bool = True) -> None:
        """has_slow: False keeps each message in its place: for those that may take no long time anyway."""
        num_quick = max(1, round(count * QUICK_READERS)) if has_slow else count
        self._quick = Places(num_quick, PART_OF_READERS)
        self._slow = Places(count - num_quick, PART_OF_READERS) if has_slow else None

    async def receive(self, message: Callable[[], Coroutine[Any, Any, Received]], client: str) -> Received:
        """Wait for a place and receive one message in it. Raise Overloaded where too many come slowly."""
        async with AsyncExitStack() as place:
            await place.enter_async_context(self._quick.place(client))
            receiving = asyncio.create_task(message())
            try:
                done, _ = await asyncio.wait((receiving,), timeout=QUICK_MESSAGE_S)
                if not done and self._slow is not None:
                    await place.aclose()
                    await place.enter_async_context(self._slow.place_now(client, "slow messages"))
                return await receiving
            finally:
                receiving.cancel()


class HeldBytes:
    """Counts what has been received and not answered yet."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0

    @contextmanager
    def held(self, num_bytes: int) -> Iterator[None]:
        """Raise Overloaded where that is too much beside what others have sent."""
        if self._num_bytes and self._num_bytes + num_bytes > self._max_bytes:
            raise Overloaded("the server is receiving too many uploads at once; retry later", 1)
        self._num_bytes += num_bytes
        try:
            yield
        finally:
            self._num_bytes -= num_bytes
