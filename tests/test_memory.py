"""Memory that goes back to the system."""

import asyncio

import pytest

from firstword.app import memory
from firstword.app.http.connection_limits import Bounds

pytestmark = pytest.mark.anyio

MIB = 1 << 20


async def test_memory_goes_back_once_for_all_large_uploads_that_end_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back = asyncio.Queue[int]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(memory, "GIVE_BACK_AFTER_S", 0.01)
    monkeypatch.setattr(
        memory, "give_back", lambda: loop.call_soon_threadsafe(given_back.put_nowait, held.num_bytes)
    )
    held = Bounds(10 * MIB).held
    async with asyncio.timeout(5):
        for num_uploads in (2, 1):
            for _ in range(num_uploads):
                with held.held("ann", MIB):
                    pass
            assert await given_back.get() == 0
            assert given_back.empty()


async def test_small_bodies_leave_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[None] = []
    monkeypatch.setattr(memory.Freed, "note", lambda freed: noted.append(None))
    held = Bounds(10 * MIB).held
    with held.held("ann", 1024):
        pass
    assert not noted
    with held.held("ann", MIB):
        pass
    assert noted
