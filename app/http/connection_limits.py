"""What one connection may send beside its messages, how long it may take, and how many calls may be open: the
limits of every door."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from typing import Any, Final, TypeVar

from firstword.app.errors import Overloaded
from firstword.app.http.held_bytes import MESSAGE_GRACE_S, HeldBytes, Upload, given_up
from firstword.app.http.limits import TokenBucket
from firstword.app.memory import Freed

Received = TypeVar("Received")

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers
MAX_HEADERS: Final = 200
MAX_PARAMETERS: Final = 200  # of an address; each unknown one is an error to be described
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
QUICK_READERS: Final = 1 / 3  # of the largest messages that fit in what all may hold
PART_OF_READERS: Final = 1 / 2  # of them, that one client may have

MAX_PUBLIC_CALLS: Final = 64  # of methods that ask for no key; and so many that go on, as health watches do
PART_OF_PUBLIC_CALLS: Final = 1 / 4
NUM_PUBLIC_READERS: Final = 2  # of whose messages each may be one of the largest, counted nowhere
PUBLIC_MESSAGE_TIMEOUT_S = 0.5  # for a message of theirs, a name at most: the next of its address waits
READ_WITHIN_S: Final = 0.05  # behind that time: of what has come while the event loop stood still

MAX_SOCKETS: Final = 4096  # WebSockets that are open, each some 33 KB while it is silent
PART_OF_SOCKETS: Final = 1 / 4  # that one client may have

MAX_CHECKS: Final = 16  # of recordings, of consents and for watermarks: one computes for up to seconds
PART_OF_CHECKS: Final = 1 / 4  # that one client may have waiting

MAX_GRPC_CONNECTIONS: Final = 4096
KEEPALIVE_S: Final = 60  # of gRPC: then a ping finds out whether the other side is still there
WINDOW_BYTES: Final = 16 * 1024  # of a gRPC call before its message is read; until its client has heard
# of that, 64 KiB. A text fits, and is there at once over a far line.


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


def max_sockets() -> int:
    """Return how many WebSockets may be open: none is closed to let another in."""
    return _of_file_handles(MAX_SOCKETS, 2)


def _of_file_handles(at_most: int, share: int) -> int:
    if sys.platform == "win32":
        return at_most
    import resource

    num_handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return at_most if num_handles == resource.RLIM_INFINITY else min(at_most, num_handles // share)


def max_stream_calls(max_streams: int) -> int:
    """Return how many calls of gRPC that take one message after the other may be open at once."""
    return max(MIN_STREAM_CALLS, STREAM_CALLS_PER_SLOT * max_streams)


def num_quick_readers(max_bytes: int, max_message_bytes: int) -> int:
    """Return how many messages of gRPC may be received at once that are not known to be slow."""
    return max(1, round(QUICK_READERS * max(2, max_bytes // max_message_bytes)))


def caller_of(key: str, address: str) -> str:
    """Return whose places a request takes: its key's, without one its address', of IPv6 its /64."""
    if key:
        return f"key {key}"
    try:
        network = ip_network((address, 64 if ":" in address else 32), strict=False)
    except ValueError:  # a socket of this machine's files
        return f"address {address}"
    return f"address {network}"


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
        """Hold a place. Raise Overloaded where there is none; what: what has them, in the plural."""
        own = self._own.get(client)
        if own is not None and own.locked():
            raise Overloaded(
                f"this client has {self._per_client} {what} already; retry once one has ended", 1
            )
        if self._free.locked():
            raise Overloaded(f"the server has too many {what}; retry later", 1)
        async with self.place(client):
            yield


class Bounds:
    """What the clients of one server may have of it at once."""

    def __init__(self, max_bodies_bytes: int) -> None:
        self.freed = Freed()
        self.held = HeldBytes(max_bodies_bytes, on_end=self.freed.note)
        self.sockets = Places(max_sockets(), PART_OF_SOCKETS)  # of WebSockets
        self.checks = Places(MAX_CHECKS, PART_OF_CHECKS)  # of recordings that become no speaker, waiting too
        self.checking = asyncio.Semaphore(1)  # the one of them that computes


class Readers:
    """Places in which messages of gRPC are received, so many at once.

    gRPC says of a message that it has come, not that it comes, and a receipt that has begun cannot be
    withdrawn. So every message begins in a place, and one that is not there at once leaves it and is held as
    if it were one of the largest: slow messages of a client keep neither its quick ones waiting nor those of
    others.
    """

    def __init__(
        self,
        count: int,
        held: HeldBytes | None = None,
        max_message_bytes: int = 0,
        on_loss: Callable[[int], object] = lambda num_bytes: None,
    ) -> None:
        """held: None keeps each message in its place: for those that may take no long time anyway.

        on_loss: called with the most bytes that may have come of a message that is given up.
        """
        self._places = Places(count, PART_OF_READERS)
        self._held = held
        self._max_message_bytes = max_message_bytes
        self._on_loss = on_loss

    async def receive(self, message: Callable[[], Coroutine[Any, Any, Received]], client: str) -> Received:
        """Wait for a place and receive one message in it. Raise Overloaded where too much comes slowly."""
        async with AsyncExitStack() as place:
            await place.enter_async_context(self._places.place(client))
            receiving = asyncio.create_task(message())
            is_whole = False
            upload: Upload | None = None
            try:
                done, _ = await asyncio.wait((receiving,), timeout=QUICK_MESSAGE_S)
                if not done and self._held is not None:
                    await place.aclose()
                    upload = place.enter_context(self._held.held(client, self._max_message_bytes))
                    place.enter_context(upload.coming(receiving.cancel, grace_s=MESSAGE_GRACE_S))
                received = await receiving
                is_whole = True
                return received
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                if upload is not None and upload.is_given_up and not task.cancelling():
                    raise given_up() from None
                raise
            finally:
                receiving.cancel()
                if not is_whole:
                    self._on_loss(self._max_message_bytes)
