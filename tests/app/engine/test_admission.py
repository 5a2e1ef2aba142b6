"""Who runs, who waits, who is refused."""

import asyncio

import pytest

from firstword.app.engine.admission import Admission
from firstword.app.errors import Draining, Overloaded
from tests.support.clock import Clock
from tests.support.pace import until_idle

pytestmark = pytest.mark.anyio


def admission(max_streams: int = 1, max_queued: int = 2, queue_timeout_s: float = 60.0) -> Admission:
    return Admission(max_streams, max_queued, queue_timeout_s, Clock())


async def test_a_freed_place_goes_to_the_one_who_waited_longest() -> None:
    door = admission()
    place = await door.acquire()
    waiting = [asyncio.create_task(door.acquire()) for _ in range(2)]
    await until_idle()
    assert door.num_queued == 2
    place.release()
    await until_idle()
    assert [task.done() for task in waiting] == [True, False]
    (await waiting[0]).release()
    (await waiting[1]).release()
    assert (door.num_running, door.num_queued) == (0, 0)


async def test_beyond_the_queue_is_refused_at_once_with_when_to_come_again() -> None:
    door = admission(max_queued=0)
    await door.acquire()
    with pytest.raises(Overloaded, match="full") as caught:
        await door.acquire()
    assert caught.value.retry_after_s >= 1


async def test_a_missed_queue_deadline_is_refused_and_leaves_no_trace() -> None:
    door = admission(queue_timeout_s=0.0)
    place = await door.acquire()
    with pytest.raises(Overloaded, match="within 0 s"):
        await door.acquire()
    assert door.num_queued == 0
    place.release()
    assert door.num_running == 0


async def test_one_who_leaves_the_queue_is_passed_over() -> None:
    door = admission()
    place = await door.acquire()
    leaving, staying = asyncio.create_task(door.acquire()), asyncio.create_task(door.acquire())
    await until_idle()
    leaving.cancel()
    await until_idle()
    place.release()
    (await staying).release()
    assert (door.num_running, door.num_queued) == (0, 0)


async def test_a_place_that_comes_as_its_taker_leaves_is_passed_on() -> None:
    door = admission()
    place = await door.acquire()
    leaving, staying = asyncio.create_task(door.acquire()), asyncio.create_task(door.acquire())
    await until_idle()
    place.release()
    leaving.cancel()
    await until_idle()
    (await staying).release()
    assert door.num_running == 0


async def test_releasing_twice_frees_one_place() -> None:
    door = admission(max_streams=2)
    first, second = await door.acquire(), await door.acquire()
    first.release()
    first.release()
    assert door.num_running == 1
    second.release()


async def test_draining_refuses_those_who_wait_and_those_who_come() -> None:
    door = admission()
    place = await door.acquire()
    waiting = asyncio.create_task(door.acquire())
    await until_idle()
    door.drain()
    with pytest.raises(Draining):
        await waiting
    with pytest.raises(Draining):
        await door.acquire()
    idle = asyncio.create_task(door.wait_until_idle())
    await until_idle()
    assert not idle.done()
    place.release()
    await idle


async def test_draining_passes_over_one_who_is_just_leaving() -> None:
    door = admission()
    place = await door.acquire()
    leaving = asyncio.create_task(door.acquire())
    await until_idle()
    leaving.cancel()
    door.drain()
    await until_idle()
    assert leaving.cancelled()
    place.release()
    await door.wait_until_idle()


async def test_it_is_full_when_the_queue_is_too() -> None:
    door = admission(max_queued=1)
    await door.acquire()
    assert not door.is_full
    waiting = asyncio.create_task(door.acquire())
    await until_idle()
    assert door.is_full
    waiting.cancel()
