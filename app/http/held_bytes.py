"""What clients make the server hold until it is answered: how much that may be, and who makes room."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from firstword.app.errors import Overloaded

PART_OF_HELD: Final = 3 / 8  # of what all clients may make the server hold, that one may
SMALL_BYTES: Final = 64 * 1024  # a body or message up to this size has nothing to do with larger ones
MIN_BODY_BYTES: Final = 16 * 1024  # as which a smaller body counts: its connection and its task take that
GRACE_S = 2.0  # that nothing, or too little, may come before an upload is late
MESSAGE_GRACE_S = 10.0  # the same of a message of gRPC, which does not tell how much of it has come


class Upload:
    """What one client sends, or has said that it will send, from then until it is answered.

    While it comes, others may be let in instead of it; `is_given_up` then says that it is no longer held.
    """

    def __init__(self, client: str, add: "Callable[[Upload, int], None]", clock: Callable[[], float]) -> None:
        self.client = client
        self.num_bytes = 0
        self.is_given_up = False
        self.give_up: Callable[[], object] | None = None  # ends its receipt; None: it does not come just now
        self.due_s = math.inf  # it is late from then on, if no more of it comes
        self._s_per_byte = 0.0  # that it may take
        self._add = add
        self._clock = clock

    def hold(self, more: int) -> None:
        """Count so many more bytes. Raise Overloaded where that is too much."""
        if self.is_given_up:
            raise given_up()
        self._add(self, more)

    @contextmanager
    def coming(
        self, give_up: Callable[[], object], s_per_byte: float = 0.0, grace_s: float = GRACE_S
    ) -> Iterator[None]:
        """Let others be let in instead. give_up: called then. s_per_byte: of the pace that is in time."""
        self.give_up, self._s_per_byte = give_up, s_per_byte
        self.due_s = self._clock() + grace_s
        try:
            yield
        finally:
            self.give_up = None

    def came(self, num_bytes: int) -> None:
        """Note that so many bytes of it have come."""
        self.due_s = min(self.due_s + num_bytes * self._s_per_byte, self._clock() + GRACE_S)

    def has_come(self) -> None:
        """Note that all of it has: it is late no more, and makes room for clients that hold less."""
        self.due_s = math.inf


def given_up() -> Overloaded:
    return Overloaded(
        "the server is receiving too many uploads at once, and gave up this one for those that come faster "
        "or of clients that have fewer; retry later",
        1,
    )


class HeldBytes:
    """Counts the uploads of all clients, over HTTP, WebSocket and gRPC together. For one event loop.

    Small ones have as much room as all others, of their own.
    """

    def __init__(
        self,
        max_bytes: int,
        small_bytes: int = SMALL_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: monotonic seconds."""
        self._small_bytes = small_bytes
        self._clock = clock
        self._small, self._large = _Room(max_bytes), _Room(max_bytes)

    @property
    def num_bytes(self) -> int:
        return self._small.num_bytes + self._large.num_bytes

    @contextmanager
    def held(self, client: str, num_bytes: int = 0) -> Iterator[Upload]:
        """Count so many bytes, and those that are held by what this yields.

        Both raise Overloaded where that is too much beside what the client or others hold, and nobody can
        make room. What is alone has its own limit.
        """
        upload = Upload(client, self._add, self._clock)
        try:
            upload.hold(num_bytes)
            yield upload
        finally:
            self._room_of(upload).remove(upload)

    def _add(self, upload: Upload, more: int) -> None:
        self._room_of(upload).remove(upload)
        upload.num_bytes += more
        room = self._room_of(upload)
        room.put(upload)
        room.check(upload, self._clock())

    def _room_of(self, upload: Upload) -> "_Room":
        return self._small if upload.num_bytes <= self._small_bytes else self._large


class _Room:
    """Uploads that share so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_of_one = int(PART_OF_HELD * max_bytes)
        self.num_bytes = 0
        self._num_of: Counter[str] = Counter()  # by client
        self._uploads: dict[Upload, None] = {}

    def put(self, upload: Upload) -> None:
        self._uploads[upload] = None
        self.num_bytes += upload.num_bytes
        self._num_of[upload.client] += upload.num_bytes

    def remove(self, upload: Upload) -> None:
        """Do nothing where it is not here: it was never put, or was given up."""
        if upload not in self._uploads:
            return
        del self._uploads[upload]
        self.num_bytes -= upload.num_bytes
        self._num_of[upload.client] -= upload.num_bytes
        if not self._num_of[upload.client]:
            del self._num_of[upload.client]

    def check(self, upload: Upload, now_s: float) -> None:
        """Raise Overloaded where an upload that was put here is too much, and nobody can make room."""
        if upload.num_bytes < self._num_of[upload.client] > self._max_of_one:
            raise Overloaded(
                f"this client's uploads are more than {self._max_of_one} bytes at once; retry later", 1
            )
        if upload.num_bytes < self.num_bytes > self._max_bytes:
            chosen = self._who_makes_room(upload, now_s)
            if not chosen:
                raise Overloaded("the server is receiving too many uploads at once; retry later", 1)
            for one in chosen:
                self.remove(one)
                one.is_given_up = True
                assert one.give_up is not None, "only what comes is chosen"
                one.give_up()

    def _who_makes_room(self, upload: Upload, now_s: float) -> list[Upload]:
        """Return enough of what comes late, and of clients that hold more than that of this upload.

        Of these the ones that hold most come first. Return nothing where that is not enough.
        """
        excess = self.num_bytes - self._max_bytes
        num_of = self._num_of.copy()
        coming = [one for one in self._uploads if one.give_up is not None and one is not upload]
        coming.sort(key=lambda one: (one.due_s > now_s, -num_of[one.client], one.due_s))
        chosen: list[Upload] = []
        for one in coming:
            if excess <= 0:
                break
            if one.due_s > now_s and num_of[one.client] <= num_of[upload.client]:
                continue
            chosen.append(one)
            excess -= one.num_bytes
            num_of[one.client] -= one.num_bytes
        return chosen if excess <= 0 else []
