"""Places that clients share, and bytes that all of them hold."""

import asyncio
import math
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.errors import Overloaded
from firstword.app.http.connection_limits import Places, Readers
from firstword.app.http.held_bytes import MAX_REMEMBERED, TURN_S, HeldBytes, Upload, _Share

pytestmark = pytest.mark.anyio


async def test_a_client_has_its_part_and_no_more() -> None:
    places = Places(3, 2 / 3)
    async with AsyncExitStack() as held:
        for client in ("ann", "ann", "bob"):
            await held.enter_async_context(places.place_now(client, "calls"))
        with pytest.raises(Overloaded, match="this client has 2 calls already"):
            await held.enter_async_context(places.place_now("ann", "calls"))
        with pytest.raises(Overloaded, match="too many calls"):
            await held.enter_async_context(places.place_now("eve", "calls"))
    async with places.place_now("ann", "calls"), places.place_now("ann", "calls"):
        pass


async def test_who_waits_for_its_own_places_keeps_nobody_else_waiting() -> None:
    places = Places(2, 1 / 2)
    entered: list[str] = []

    async def come(client: str) -> None:
        async with places.place(client):
            entered.append(client)
            await asyncio.sleep(0.01)

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for client in ("ann", "ann", "ann", "bob"):
            tasks.create_task(come(client))
    assert entered == ["ann", "bob", "ann", "ann"]


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    places = Places(1, 1)
    async with places.place("ann"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), places.place("bob"):
                pass
    async with asyncio.timeout(5), places.place("bob"):
        pass
    assert not places._own


def test_bytes_are_refused_beside_others_and_never_alone() -> None:
    held = HeldBytes(100, small_bytes=0)
    with held.held("ann", 200), pytest.raises(Overloaded, match="the server"), held.held("bob", 1):
        pass
    with held.held("ann", 60), held.held("bob", 37) as upload:
        upload.hold(3)
        with pytest.raises(Overloaded, match="the server"):
            upload.hold(1)
    assert not held.num_bytes


def test_a_client_holds_its_part_and_leaves_the_rest_to_others() -> None:
    held = HeldBytes(80, small_bytes=0)
    with held.held("ann", 29):
        with (
            pytest.raises(Overloaded, match="this client's uploads are more than 30 bytes"),
            held.held("ann", 2),
        ):
            pass
        with held.held("ann", 1), held.held("bob", 50):
            pass


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_of_clients_that_hold_more_the_latest_upload_makes_room() -> None:
    given_up: list[str] = []
    clock = Clock()
    held = HeldBytes(80, small_bytes=0, clock=clock)
    with ExitStack() as stack:

        def come(name: str, client: str, num_bytes: int) -> None:
            upload = stack.enter_context(held.held(client, num_bytes))
            stack.enter_context(upload.coming(lambda: given_up.append(name)))
            clock.now_s += 0.1

        for name in ("first", "second"):
            come(name, "ann", 15)
            come(f"his {name}", "bob", 12)
        come("third", "eve", 24)
        assert held.num_bytes == 78
        come("fourth", "cid", 20)
        assert given_up == ["first", "his first"]  # of who holds 30, then of who holds 24
        assert held.num_bytes == 71
        come("fifth", "dan", 20)
        assert given_up[2:] == ["third"]
        with pytest.raises(Overloaded, match="the server"):
            come("sixth", "fay", 20)  # nobody has more
        assert len(given_up) == 3


def test_an_upload_that_keeps_its_pace_is_never_late() -> None:
    given_up: list[str] = []
    clock = Clock()
    held = HeldBytes(100, small_bytes=0, clock=clock)
    with held.held("ann", 40) as steady, held.held("bob", 40) as slow, ExitStack() as stack:
        for name, upload in (("steady", steady), ("slow", slow)):
            stack.enter_context(upload.coming(partial(given_up.append, name), s_per_byte=1.0))
        for _ in range(10):
            clock.now_s += 1
            steady.came(1)
        with held.held("eve", 40):
            assert given_up == ["slow"]
            with pytest.raises(Overloaded, match="gave up this one"):
                slow.hold(1)
        clock.now_s += 3
        with held.held("eve", 90):
            assert given_up == ["slow", "steady"]
    assert held.num_bytes == 0


def test_an_upload_far_ahead_of_its_pace_is_not_late_where_it_stops() -> None:
    """Nine tenths in 2 s and then nothing for 2 s, as where a phone changes its network."""
    given_up: list[str] = []
    clock = Clock()
    held = HeldBytes(64, small_bytes=0, clock=clock)
    with ExitStack() as stack:

        def come(client: str) -> Upload:
            upload = stack.enter_context(held.held(client, 10))
            stack.enter_context(upload.coming(partial(given_up.append, client), s_per_byte=3.0))
            return upload

        phone = come("phone")
        for _ in range(9):
            clock.now_s += 0.2
            phone.came(1)
        clock.now_s += 2.1
        for number in range(6):
            come(f"head {number}")
    assert given_up == ["head 0"]


def test_of_late_uploads_that_of_which_least_has_come_makes_room() -> None:
    given_up: list[str] = []
    clock = Clock()
    held = HeldBytes(30, small_bytes=0, clock=clock)
    with ExitStack() as stack:
        for client, num_come in (("ann", 5), ("bob", 1), ("cid", 3)):
            upload = stack.enter_context(held.held(client, 10))
            stack.enter_context(upload.coming(partial(given_up.append, client), s_per_byte=1.0))
            upload.came(num_come)
        clock.now_s = 10
        stack.enter_context(held.held("eve", 15))
    assert given_up == ["bob", "cid"]


def test_heads_sent_again_and_again_keep_no_upload_out() -> None:
    given_up: list[str] = []
    held = HeldBytes(64, small_bytes=0, clock=Clock())
    with ExitStack() as stack:

        def come(client: str, num_bytes: int) -> Upload:
            upload = stack.enter_context(held.held(client, num_bytes))
            stack.enter_context(upload.coming(partial(given_up.append, client), s_per_byte=3.0))
            return upload

        for number in range(7):
            come(f"head {number}", 9)
        come("ann", 10).came(1)  # more than each of theirs
        for number in range(7, 20):
            come(f"head {number}", 9)
    assert given_up == [f"head {number}" for number in range(14)]


class Uploader:
    """A client that sends one upload after the other."""

    def __init__(self, held: HeldBytes, name: str, s_per_byte: float, num_bytes: int = 10) -> None:
        """s_per_byte: 0 as of a message of gRPC."""
        self._held = held
        self._num_bytes = num_bytes
        self._name = name
        self._s_per_byte = s_per_byte
        self._sending = ExitStack()
        self._upload: Upload | None = None
        self.num_given_up = 0

    def come(self) -> bool:
        """Begin an upload instead of the one before; return whether it is let in."""
        self.leave()
        with ExitStack() as stack:
            try:
                upload = stack.enter_context(self._held.held(self._name, self._num_bytes))
            except Overloaded:
                return False
            grace_s = None if self._s_per_byte else 10.0
            stack.enter_context(upload.coming(self._be_given_up, self._s_per_byte, grace_s))
            upload.came(1)
            self._upload, self._sending = upload, stack.pop_all()
        return True

    def send(self) -> None:
        """Send some more of the upload."""
        if self._upload is not None and self._s_per_byte:
            self._upload.came(1)

    def leave(self) -> None:
        self._sending.close()
        self._upload = None

    @property
    def is_sending(self) -> bool:
        return self._upload is not None and not self._upload.is_given_up

    def _be_given_up(self) -> None:
        self.num_given_up += 1

    def be_busy(self, clock: Clock, seconds: float) -> None:
        """Send one upload after the other, each in 9 s."""
        end_s = clock.now_s + seconds
        while clock.now_s < end_s:
            self.come()
            clock.now_s += 9
            self.leave()
            clock.now_s += 1


def longest_wait_s(
    held: HeldBytes, clock: Clock, ann: Uploader, others: list[Uploader], every_s: int, minutes: int
) -> float:
    """Return for how long Ann waits at most, who has a recording of 9 s each minute.

    Each of the others holds an upload for so many seconds, and asks for room each second, before she does.
    """
    began_s = dict.fromkeys(others, -math.inf)
    waits: list[float] = []
    asked_s: float | None = None
    stays_until_s = 0.0
    for second in range(60 * minutes):
        clock.now_s += 1
        for other in others:
            if not other.is_sending or clock.now_s - began_s[other] >= every_s:
                began_s[other] = clock.now_s if other.come() else -math.inf
        if second % 60 == 0 and asked_s is None:
            asked_s = clock.now_s
        if asked_s is not None and ann.come():
            waits.append(clock.now_s - asked_s)
            asked_s, stays_until_s = None, clock.now_s + 9
        ann.send()
        if clock.now_s == stays_until_s:
            ann.leave()
    assert asked_s is None
    return max(waits)


@pytest.mark.parametrize(
    ("num_others", "busy_s", "most_s"),
    [(6, 0, 20), (6, 60, 55), (6, 300, 75), (6, 3600, 75), (12, 0, 40), (30, 0, 100)],
)
@pytest.mark.parametrize(("s_per_byte", "every_s"), [(0.0, 9), (3.0, 4)], ids=["messages", "bodies"])
def test_uploads_sent_again_and_again_keep_those_of_others_out_for_a_while(
    s_per_byte: float, every_s: int, num_others: int, busy_s: int, most_s: int
) -> None:
    """Each is ended before it is late. busy_s: for so long Ann has sent uploads before."""
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    ann = Uploader(held, "ann", s_per_byte)
    ann.be_busy(clock, busy_s)
    others = [Uploader(held, f"other {number}", s_per_byte) for number in range(num_others)]
    assert longest_wait_s(held, clock, ann, others, every_s, minutes=5) <= most_s
    assert ann.num_given_up == 0


def test_the_first_upload_of_a_client_stays_for_a_turn() -> None:
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    uploaders = [Uploader(held, f"uploader {number}", 100.0) for number in range(6)]
    assert all(uploader.come() for uploader in uploaders)
    clock.now_s = TURN_S - 0.1
    assert not Uploader(held, "eve", 100.0).come()
    clock.now_s = TURN_S + 0.1
    assert Uploader(held, "eve", 100.0).come()
    assert sum(uploader.num_given_up for uploader in uploaders) == 1


def test_several_uploads_of_a_client_stay_for_a_turn_too() -> None:
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    with ExitStack() as stack:
        for number in range(4):
            stack.enter_context(held.held(f"answered {number}", 10))
        ann = [Uploader(held, "ann", 1000.0, num_bytes=4) for _ in range(5)]
        assert all(uploader.come() for uploader in ann)
        clock.now_s = TURN_S - 0.1
        assert not Uploader(held, "eve", 100.0, num_bytes=20).come()
        clock.now_s = TURN_S + 0.1
        assert Uploader(held, "eve", 100.0, num_bytes=20).come()
        assert sum(uploader.num_given_up for uploader in ann) == 5


@pytest.mark.parametrize(("num_come", "makes_room"), [(4, True), (5, False), (10, False)])
def test_what_has_come_by_half_stays_however_much_its_client_has_held(
    num_come: int, makes_room: bool
) -> None:
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    ann = Uploader(held, "ann", 3.0)
    ann.be_busy(clock, 300)
    others = [Uploader(held, f"other {number}", 3.0) for number in range(5)]
    assert all(uploader.come() for uploader in [ann, *others])
    for _ in range(num_come - 1):
        ann.send()
    assert Uploader(held, "eve", 3.0).come() is makes_room
    assert ann.num_given_up == makes_room


def test_a_client_that_holds_more_makes_room_by_what_it_has_held_for_the_rest() -> None:
    """Two uploads of 10 bytes for one of 15: with one of them it holds no more than who asks."""
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    with ExitStack() as stack:
        for number in range(4):
            stack.enter_context(held.held(f"answered {number}", 10))
        heavy = [Uploader(held, "heavy", 100.0) for _ in range(2)]
        assert all(uploader.come() for uploader in heavy)
        assert not Uploader(held, "eve", 100.0, num_bytes=15).come()
        clock.now_s = TURN_S + 0.1
        assert Uploader(held, "eve", 100.0, num_bytes=15).come()
    assert [uploader.num_given_up for uploader in heavy] == [1, 1]


def test_who_has_held_more_of_late_too_makes_all_its_room_before_another_who_holds_as_much() -> None:
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    with ExitStack() as stack:
        for number in range(2):
            stack.enter_context(held.held(f"answered {number}", 10))
        heavy = [Uploader(held, "heavy", 100.0) for _ in range(2)]
        assert all(uploader.come() for uploader in heavy)
        clock.now_s = TURN_S + 0.1
        bob = [Uploader(held, "bob", 100.0) for _ in range(2)]
        assert all(uploader.come() for uploader in bob)
        assert Uploader(held, "eve", 100.0, num_bytes=15).come()
    assert [uploader.num_given_up for uploader in (*heavy, *bob)] == [1, 1, 0, 0]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_what_a_client_has_held_does_not_depend_on_how_often_it_is_counted(times_s: list[float]) -> None:
    once = _Share(0.0, num_bytes=10, average_bytes=3.0, idle_byte_s=7.0)
    often = replace(once)
    for now_s in sorted(times_s):
        often.count(now_s)
    once.count(max(times_s))
    assert often.average_bytes == pytest.approx(once.average_bytes)
    assert often.idle_byte_s == pytest.approx(once.idle_byte_s)


def test_clients_that_left_are_remembered_to_a_number() -> None:
    held = HeldBytes(60, small_bytes=0, clock=Clock())
    for number in range(MAX_REMEMBERED + 10):
        with held.held(f"uploader {number}", 10):
            pass
    assert len(held._large._remembered) == MAX_REMEMBERED
    assert not held._large._shares


@pytest.mark.parametrize(("num_clients", "heads_per_s"), [(12, 20), (30, 20), (300, 20), (12, 1000)])
@pytest.mark.parametrize("busy_s", [0, 300])
def test_heads_of_others_do_not_take_the_place_of_a_body(
    num_clients: int, heads_per_s: int, busy_s: int
) -> None:
    """The first byte of a body comes 0.1 s after its head; others' heads come all the time."""
    clock = Clock()
    held = HeldBytes(60, small_bytes=0, clock=clock)
    given_up: list[str] = []
    with ExitStack() as stack:

        def come(client: str) -> Upload:
            upload = stack.enter_context(held.held(client, 10))
            stack.enter_context(upload.coming(partial(given_up.append, client), s_per_byte=3.0))
            return upload

        def flood(seconds: float) -> None:
            for number in range(round(seconds * heads_per_s)):
                with suppress(Overloaded):
                    come(f"other {number % num_clients}")
                clock.now_s += 1 / heads_per_s

        Uploader(held, "ann", 3.0).be_busy(clock, busy_s)
        flood(3)
        upload = come("ann")
        flood(0.1)
        upload.came(1)
        flood(3)
    assert len(given_up) > heads_per_s * 5
    assert "ann" not in given_up


def test_what_holds_nothing_is_not_ended_for_others() -> None:
    given_up: list[str] = []
    held = HeldBytes(8, small_bytes=1)
    with ExitStack() as stack:
        silent = stack.enter_context(held.held("bob", 0))
        stack.enter_context(silent.coming(partial(given_up.append, "bob")))
        for client in ("bob", "bob", "bob", "dan", "dan"):
            stack.enter_context(held.held(client, 1))
        for _ in range(3):
            upload = stack.enter_context(held.held("cid", 1))
            stack.enter_context(upload.coming(partial(given_up.append, "cid")))
        stack.enter_context(held.held("ann", 1))
    assert given_up == ["cid"]


def test_small_bodies_have_room_of_their_own_and_make_it_among_themselves() -> None:
    given_up: list[str] = []
    held = HeldBytes(8, small_bytes=1)
    with ExitStack() as stack:
        stack.enter_context(held.held("ann", 8))
        for _ in range(3):
            for client in ("bob", "cid", "dan"):
                with suppress(Overloaded):
                    upload = stack.enter_context(held.held(client, 1))
                    stack.enter_context(upload.coming(partial(given_up.append, client)))
        assert not given_up
        with pytest.raises(Overloaded, match="this client's"):
            stack.enter_context(held.held("bob", 1))
        stack.enter_context(held.held("eve", 1))
    assert len(given_up) == 1
    assert held.num_bytes == 0


async def test_a_slow_message_makes_room_for_a_client_that_has_fewer() -> None:
    held = HeldBytes(60, small_bytes=0)
    readers = Readers(2, held, 10)

    async def slow() -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        receiving = [asyncio.create_task(readers.receive(slow, client)) for client in ("ann", "ann", "bob")]
        while held.num_bytes < 30:  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
        with held.held("eve", 13), held.held("dan", 18):
            done, _ = await asyncio.wait(receiving, return_when=asyncio.FIRST_COMPLETED)
            assert [isinstance(one.exception(), Overloaded) for one in done] == [True]
            assert not receiving[2].done()
        for one in receiving:
            one.cancel()
        await asyncio.wait(receiving)


async def test_a_slow_message_that_is_given_up_and_canceled_is_canceled() -> None:
    held = HeldBytes(60, small_bytes=0)
    readers = Readers(1, held, 10)

    async def slow() -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        receiving = [asyncio.create_task(readers.receive(slow, "ann")) for _ in range(2)]
        while held.num_bytes < 20:  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
        with held.held("eve", 19), held.held("dan", 10), held.held("bob", 15):
            for one in receiving:
                one.cancel()
            await asyncio.wait(receiving)
    assert [one.cancelled() for one in receiving] == [True, True]


async def test_a_slow_message_is_held_as_one_of_the_largest() -> None:
    held = HeldBytes(80, small_bytes=0)
    readers = Readers(1, held, 30)
    come = asyncio.Event()

    async def slow() -> None:
        await come.wait()

    async def quick() -> str:
        return "come"

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(readers.receive(slow, "ann"))
        while not held.num_bytes:  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
        assert await readers.receive(quick, "ann") == "come"
        with pytest.raises(Overloaded):
            await readers.receive(slow, "ann")
        with pytest.raises(Overloaded), held.held("ann", 1):  # over HTTP too
            pass
        come.set()
    assert not held.num_bytes
