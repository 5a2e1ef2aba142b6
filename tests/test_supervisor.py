"""Workers that fail and are started again."""

import asyncio

import pytest

from firstword.app import supervisor
from firstword.app.supervisor import Supervisor

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_worker_that_ends_soon_after_it_failed_fails_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    workers, has_ended = Supervisor(), asyncio.Event()

    async def work() -> None:
        if not workers.failing:
            raise RuntimeError("the first time")
        has_ended.set()

    workers.start("capacity", work)
    await has_ended.wait()
    await asyncio.sleep(0)
    assert workers.failing == ()
