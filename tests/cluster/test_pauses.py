"""Parts of Ray Serve that stand still (SIGSTOP): what a listener notices, and when all is back."""

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")

from tests.cluster.deaths import Held, front, held, two_engines
from tests.cluster.pauses import paused, processes_of, stands_still, under_streams, whole_after_s

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)

PAUSE_S = 3.0
GIVEN_UP_S = 60.0  # in which a listener hears of an engine that stands still; 15 on a quiet machine
PARTS = {"controller": "ray::ServeController", "GCS": "gcs_server", "raylet": "/raylet/raylet"}


def counted(one: Held) -> Held:
    """Without what pytest's log records keep, and Ray's own connections."""
    return replace(one, responses=0, files=0)


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_of_ray_that_stands_still_stops_no_stream(engines: Any, store: str, part: str) -> None:
    async with front(engines, store) as there:
        own, others = (await two_engines(engines)).values()
        await whole_after_s(there.url, own[0])
        before = await held(engines, there.engine)
        async with under_streams(there.url, [own[0], others[0]], 60) as heard:
            (process,) = processes_of(PARTS[part])
            with paused(process):
                paused_at = time.monotonic()
                new_s = [await whole_after_s(there.url, name) for name in (own[1], others[1])]
                await asyncio.sleep(paused_at + PAUSE_S - time.monotonic())
                status = there.engine.status
                assert stands_still(process)
        assert all(one.is_whole for one in heard)
        after = await held(engines, there.engine)
    gaps_s = [one.longest_gap_s for one in heard]
    logger.warning("%s paused: %s, new ones after %s s, gaps of %s s", part, status, new_s, gaps_s)
    assert counted(after) == counted(before)


async def test_streams_of_an_engine_that_stands_still_go_on_when_it_does(engines: Any, store: str) -> None:
    async with front(engines, store) as there:
        (victim, own), (_, others) = (await two_engines(engines)).items()
        await whole_after_s(there.url, own[0])
        before = await held(engines, there.engine)
        async with under_streams(there.url, [*own[:2], *others[:2]], 100) as heard:
            with paused(victim):
                new = asyncio.create_task(whole_after_s(there.url, own[0]))
                await asyncio.sleep(PAUSE_S)
            new_s = await new
        assert all(one.is_whole for one in heard)
        after = await held(engines, there.engine)
    gaps_s = [one.longest_gap_s for one in heard]
    logger.warning("an engine paused: its speaker spoke again after %.1f s, gaps of %s s", new_s, gaps_s)
    assert min(new_s, *gaps_s[:2]) >= PAUSE_S - 0.5
    assert max(gaps_s[2:]) < 2
    assert counted(after) == counted(before)


async def test_an_engine_that_stands_still_for_good_is_given_up_and_replaced(
    engines: Any, store: str
) -> None:
    async with front(engines, store) as there:
        (victim, own), (_, others) = (await two_engines(engines)).items()
        await whole_after_s(there.url, own[0])
        before = await held(engines, there.engine)
        new_s = []
        async with under_streams(there.url, [*own[:2], *others[:2]], 300) as heard:
            with paused(victim):
                paused_at = time.monotonic()
                while not all(one.ended_at for one in heard[:2]) or len(new_s) < 2:
                    assert time.monotonic() - paused_at < GIVEN_UP_S
                    new_s.append(await whole_after_s(there.url, own[2]))
                    assert there.engine.status.is_ready
                while victim in await two_engines(engines):
                    pass
                replaced_s = time.monotonic() - paused_at
        assert [one.is_whole for one in heard] == [False, False, True, True]
        after = await held(engines, there.engine)
    ended_s = [one.ended_at - paused_at for one in heard[:2]]
    logger.warning(
        "an engine stood still: cut after %s s, new ones whole after %.1f and then at most %.1f s, replaced "
        "after %.0f s, gaps of the others of %s s",
        *(ended_s, new_s[0], max(new_s[1:]), replaced_s, [one.longest_gap_s for one in heard[2:]]),
    )
    assert max(new_s[1:]) < 2  # the other engine is asked first
    assert counted(after) == counted(before)
