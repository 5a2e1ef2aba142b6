"""What clients make the server hold until it is answered: how much that may be, and who makes room."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop
from typing import Final

from firstword.app.errors import Overloaded

PART_OF_HELD: Final = 3 / 8  # of what all clients may make the server hold, that one may
SMALL_BYTES: Final = 64 * 1024  # a body or message up to this size has nothing to do with larger ones
MIN_BODY_BYTES: Final = 16 * 1024  # as which a smaller body counts: its connection and its task take that
GRACE_S = 2.0  # behind its pace, an upload is late
MESSAGE_GRACE_S = 10.0  # the same of a message of gRPC, which does not tell how much of it has come
PART_OF_BEGUN = 1 / 64  # an upload of which less has come has not begun, and has nothing to lose
PART_OF_KEPT = 1 / 2  # an upload of which so much has come makes no room for what its client has held of late
TURN_S: Final = 18.0  # in it half of an upload has come that is in time: 15 s, and the grace
HALF_LIFE_S: Final = 60.0  # after which what a client has held counts half
PART_OF_TURN: Final = 1 - 0.5 ** (TURN_S / HALF_LIFE_S)  # that a turn makes of the average of what is held
MAX_REMEMBERED: Final = 1024  # clients that hold nothing now


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
        self.num_come = 0
        self.s_per_byte = 0.0  # that it may take; 0: it does not tell what has come
        self.came_from_s = self.came_until_s = math.inf
        self._add = add
        self._clock = clock

    def hold(self, more: int) -> None:
        """Count so many more bytes. Raise Overloaded where that is too much."""
        if self.is_given_up:
            raise given_up()
        self._add(self, more)

    @contextmanager
    def coming(
        self, give_up: Callable[[], object], s_per_byte: float = 0.0, grace_s: float | None = None
    ) -> Iterator[None]:
        """Let others be let in instead. give_up: called then.

        s_per_byte: of the pace that is in time; 0: it does not tell what has come. grace_s: None: GRACE_S.
        """
        self.give_up, self.s_per_byte = give_up, s_per_byte
        self.came_from_s = self._clock()
        grace_s = GRACE_S if grace_s is None else grace_s
        self.due_s = self.came_from_s + grace_s + self.num_come * s_per_byte
        try:
            yield
        finally:
            self.give_up, self.came_until_s = None, self._clock()

    def came(self, num_bytes: int) -> None:
        """Note that so many more bytes of it have come."""
        self.num_come += num_bytes
        self.due_s += num_bytes * self.s_per_byte

    def has_come(self) -> None:
        """Note that all of it has: it is late no more, and makes room for clients that hold less."""
        self.num_come, self.due_s = self.num_bytes, math.inf

    def part_come(self) -> float:
        return self.num_come / self.num_bytes

    def has_begun(self) -> bool:
        """Return True too of what does not tell."""
        return not self.s_per_byte or self.part_come() >= PART_OF_BEGUN

    def idle_byte_s(self, now_s: float) -> float:
        """Return what it held while it came, times the seconds, if it has not begun."""
        if self.has_begun():
            return 0.0
        return self.num_bytes * (min(now_s, self.came_until_s) - self.came_from_s)


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
        on_end: Callable[[int], object] = lambda num_bytes: None,
    ) -> None:
        """clock: monotonic seconds. on_end: called with the bytes of each large upload that is over."""
        self._small_bytes = small_bytes
        self._on_end = on_end
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
            room = self._room_of(upload)
            room.remove(upload, self._clock())
            if room is self._large:
                self._on_end(upload.num_bytes)

    def _add(self, upload: Upload, more: int) -> None:
        now_s = self._clock()
        self._room_of(upload).remove(upload, now_s)
        upload.num_bytes += more
        room = self._room_of(upload)
        room.put(upload, now_s)
        room.check(upload, now_s)

    def _room_of(self, upload: Upload) -> "_Room":
        return self._small if upload.num_bytes <= self._small_bytes else self._large


@dataclass(slots=True)
class _Share:
    """What one client holds, and has held of late."""

    counted_s: float  # until when the others count
    num_bytes: int = 0
    average_bytes: float = 0.0  # that it has held of late
    idle_byte_s: float = 0.0  # of late, of uploads that ended before they had begun

    def count(self, now_s: float) -> None:
        kept = 0.5 ** ((now_s - self.counted_s) / HALF_LIFE_S)
        self.average_bytes = self.average_bytes * kept + self.num_bytes * (1 - kept)
        self.idle_byte_s *= kept
        self.counted_s = now_s


class _Room:
    """Uploads that share so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_of_one = int(PART_OF_HELD * max_bytes)
        self.num_bytes = 0
        self._shares: dict[str, _Share] = {}  # by client
        self._remembered: dict[str, _Share] = {}  # of clients that hold nothing now, the latest last
        self._uploads: dict[Upload, None] = {}

    def put(self, upload: Upload, now_s: float) -> None:
        """Do nothing where it holds nothing: it could make no room."""
        if not upload.num_bytes:
            return
        self._uploads[upload] = None
        self.num_bytes += upload.num_bytes
        if upload.client not in self._shares:
            self._shares[upload.client] = self._remembered.pop(upload.client, _Share(now_s))
        share = self._shares[upload.client]
        share.count(now_s)
        share.num_bytes += upload.num_bytes

    def remove(self, upload: Upload, now_s: float) -> None:
        """Do nothing where it is not here: it was never put, or was given up."""
        if upload not in self._uploads:
            return
        del self._uploads[upload]
        self.num_bytes -= upload.num_bytes
        share = self._shares[upload.client]
        share.count(now_s)
        share.num_bytes -= upload.num_bytes
        share.idle_byte_s += upload.idle_byte_s(now_s)
        if not share.num_bytes:
            self._remembered[upload.client] = self._shares.pop(upload.client)
            if len(self._remembered) > MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]

    def check(self, upload: Upload, now_s: float) -> None:
        """Raise Overloaded where an upload that was put here is too much, and nobody can make room."""
        if not upload.num_bytes:
            return
        if upload.num_bytes < self._shares[upload.client].num_bytes > self._max_of_one:
            raise Overloaded(
                f"this client's uploads are more than {self._max_of_one} bytes at once; retry later", 1
            )
        if upload.num_bytes < self.num_bytes > self._max_bytes:
            chosen = self._who_makes_room(upload, now_s)
            if not chosen:
                raise Overloaded("the server is receiving too many uploads at once; retry later", 1)
            for one in chosen:
                self.remove(one, now_s)
                one.is_given_up = True
                assert one.give_up is not None, "only what comes is chosen"
                one.give_up()

    def _who_makes_room(self, upload: Upload, now_s: float) -> list[Upload]:
        """Return what is given up to let an upload in, or nothing where that is not enough.

        First what is late; then of other clients what has not begun, who has held most by such uploads first;
        then of clients that hold more than that of this upload, or have held more of late by a part of what
        they hold, who holds most first, of equal ones who has held most of late: what is beyond as much as
        it holds, and, of those that have held more of late, all that has not come by half. Of each that of
        which the least part has come.
        """
        own = self._shares[upload.client]
        have_more = self._have_more(own, now_s)
        order: list[tuple[int, float, float, float, int, Upload]] = []
        for age, one in enumerate(self._uploads):  # the oldest is the first of equal ones
            if one.give_up is None or one is upload:
                continue
            share, part_come = self._shares[one.client], one.part_come()
            if one.due_s <= now_s:
                order.append((0, 0, 0, part_come, age, one))
            elif one.client == upload.client:
                continue
            elif not one.has_begun():
                idle_byte_s = share.idle_byte_s + one.idle_byte_s(now_s)
                order.append((1, -idle_byte_s, 0, part_come, age, one))
            elif one.client in have_more:
                more, more_of_late = have_more[one.client]
                order.append((2, -more, -more_of_late, part_come, age, one))
        heapify(order)
        excess = self.num_bytes - self._max_bytes
        num_given_up: Counter[str] = Counter()  # bytes, by client
        chosen: list[Upload] = []
        while order and excess > 0:
            kind, _, of_late, part_come, _, one = heappop(order)
            num_kept = self._shares[one.client].num_bytes - num_given_up[one.client]
            if kind == 2 and num_kept <= own.num_bytes and not (of_late and part_come < PART_OF_KEPT):
                continue
            chosen.append(one)
            excess -= one.num_bytes
            num_given_up[one.client] += one.num_bytes
        return chosen if excess <= 0 else []

    def _have_more(self, own: _Share, now_s: float) -> dict[str, tuple[float, float]]:
        """Return who holds or, by more than a turn makes, has held more bytes: how many, and on average."""
        own.count(now_s)
        have_more: dict[str, tuple[float, float]] = {}
        for client, share in self._shares.items():
            share.count(now_s)
            more, more_of_late = share.num_bytes - own.num_bytes, share.average_bytes - own.average_bytes
            if more_of_late <= PART_OF_TURN * share.num_bytes:
                more_of_late = 0
            if more > 0 or more_of_late:
                have_more[client] = (max(0, more), more_of_late)
        return have_more
