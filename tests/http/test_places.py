"""Places that clients share, and bytes that all of them hold."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from firstword.app.errors import Overloaded
from firstword.app.http.connection_limits import HeldBytes, Places

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
    held = HeldBytes(100)
    with held.held(200), pytest.raises(Overloaded), held.held(1):
        pass
    with held.held(60), held.held(40):
        pass
