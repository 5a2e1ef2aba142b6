"""Memory that goes back to the system."""

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from firstword.app import memory
from firstword.app.http.connection_limits import Bounds

pytestmark = pytest.mark.anyio

MIB = 1 << 20


async def test_memory_goes_back_once_for_all_that_is_freed_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduled: list[Callable[[], object]] = []
    given_back = asyncio.Queue[None]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda delay_s, callback: scheduled.append(callback) or callback)
    monkeypatch.setattr(memory, "give_back", lambda: loop.call_soon_threadsafe(given_back.put_nowait, None))
    held = Bounds(64 * MIB).held
    async with asyncio.timeout(5):
        for _ in range(2):
            for num_scheduled in (0, 0, 1, 1):  # once 4 MiB are free
                with held.held("ann", 2 * MIB):
                    assert len(scheduled) == num_scheduled
            scheduled.pop()()
            await given_back.get()


def test_a_loop_that_is_closed_meanwhile_gives_nothing_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "GIVE_BACK_AFTER_S", 0.01)
    has_passed = threading.Event()

    async def end() -> None:
        loop = asyncio.get_running_loop()
        memory.Freed().note(memory.MUCH_BYTES)
        loop.call_later(0.1, has_passed.set)
        loop.run_in_executor(None, has_passed.wait)  # for which the loop's end waits

    asyncio.run(end())
    assert has_passed.is_set()
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_small_bodies_leave_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    monkeypatch.setattr(memory.Freed, "note", lambda freed, num_bytes: noted.append(num_bytes))
    held = Bounds(10 * MIB).held
    for num_bytes in (1024, MIB):
        with held.held("ann", num_bytes):
            pass
    assert noted == [MIB]
