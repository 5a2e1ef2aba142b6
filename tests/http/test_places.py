"""Places that clients share, and bytes that all of them hold."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from firstword.app.errors import Overloaded
from firstword.app.http.connection_limits import HeldBytes, Places, Readers

pytestmark = pytest.mark.anyio


async def test_a_client_has_its_part_and_no_more() -> None:
    places = Places(3, 2 / 3)
    async with AsyncExitStack() as held:
        for client in ("ann", "ann", "bob"):
            await held.enter_async_context(places.place_now(client, "calls"))
        with pytest.raises(Overloaded, match="2 calls of this client"):
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
    with held.held("ann", 60), held.held("bob", 37) as hold:
        hold(3)
        with pytest.raises(Overloaded, match="the server"):
            hold(1)
    assert not held._num_of


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
        while not held._num_of:  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
        assert await readers.receive(quick, "ann") == "come"
        with pytest.raises(Overloaded):
            await readers.receive(slow, "ann")
        with pytest.raises(Overloaded), held.held("ann", 1):  # over HTTP too
            pass
        come.set()
    assert not held._num_of
