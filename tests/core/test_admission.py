"""Who runs, who waits, who is refused."""

import asyncio

import pytest

from firstword.app.core.admission import Admission
from firstword.app.errors import Draining, Overloaded
from firstword.app.options import QueueOptions
from tests.support.clock import Clock
from tests.support.pace import until_idle

pytestmark = pytest.mark.anyio


def admission(max_streams: int = 1, max_queued: int = 2, queue_timeout_s: float = 60.0) -> Admission:
    return Admission(max_streams, QueueOptions(max_queued, queue_timeout_s), Clock())


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


async def test_it_is_quiet_when_no_stream_has_run_for_a_while() -> None:
    door = admission()
    quiet = asyncio.create_task(door.wait_until_quiet(0.2))
    for _ in range(4):
        (await door.acquire()).release()
        await asyncio.sleep(0.1)
    assert not quiet.done()
    place = await door.acquire()
    await asyncio.sleep(0.4)
    assert not quiet.done()
    place.release()
    await quiet


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


def admission_with_files(max_streams: int, max_queued_files: int = 9, timeout_s: float = 60.0) -> Admission:
    return Admission(max_streams, QueueOptions(0, 60.0, max_queued_files, timeout_s), Clock())


async def test_a_file_takes_no_slot_from_streams_that_are_played() -> None:
    door = admission_with_files(max_streams=2)
    file = await door.acquire(is_file=True)
    second = asyncio.create_task(door.acquire(is_file=True))
    await until_idle()
    assert (door.num_running, door.num_files_queued) == (1, 1)  # one of them at once, though a slot is free
    played = [await door.acquire() for _ in range(2)]  # at once: no played stream may wait here
    file.release()
    await until_idle()
    assert not second.done()  # no slot is free
    for slot in played:
        slot.release()
    (await second).release()
    assert (door.num_running, door.num_files_queued) == (0, 0)


@pytest.mark.parametrize(("max_streams", "max_files"), [(1, 1), (15, 1), (16, 2), (80, 10)])
async def test_an_eighth_of_the_slots_is_for_files(max_streams: int, max_files: int) -> None:
    door = admission_with_files(max_streams, max_queued_files=0)
    for _ in range(max_files):
        await door.acquire(is_file=True)
    with pytest.raises(Overloaded, match=f"{max_files} files run and 0 wait"):
        await door.acquire(is_file=True)


async def test_a_freed_slot_goes_to_a_played_stream_before_a_file() -> None:
    door = Admission(1, QueueOptions(1, 60.0, 1, 60.0), Clock())
    slot = await door.acquire()
    file, played = (asyncio.create_task(door.acquire(is_file)) for is_file in (True, False))
    await until_idle()
    slot.release()
    await until_idle()
    assert (file.done(), played.done()) == (False, True)
    (await played).release()
    (await file).release()


async def test_a_file_has_a_deadline_of_its_own() -> None:
    door = admission_with_files(max_streams=1, timeout_s=0.0)
    slot = await door.acquire()
    with pytest.raises(Overloaded, match="within 0 s"):
        await door.acquire(is_file=True)
    slot.release()
    assert (door.num_running, door.num_files_queued) == (0, 0)


async def test_draining_refuses_files_that_wait() -> None:
    door = admission_with_files(max_streams=1)
    slot = await door.acquire()
    file = asyncio.create_task(door.acquire(is_file=True))
    await until_idle()
    door.drain()
    with pytest.raises(Draining):
        await file
    slot.release()
    await door.wait_until_idle()


async def test_what_is_in_the_background_has_free_slots_only_and_pauses_when_there_are_none() -> None:
    door = Admission(2, QueueOptions(2, 60.0, 4, 60.0), Clock())
    played, file = await door.acquire(), await door.acquire(is_file=True)
    waiting = [asyncio.create_task(door.acquire(is_background=True)) for _ in range(2)]
    next_file = asyncio.create_task(door.acquire(is_file=True))
    await until_idle()
    assert not any(task.done() for task in waiting)
    file.release()
    await until_idle()
    assert [next_file.done(), waiting[0].done()] == [True, False]  # files go before
    (await next_file).release()
    background = await waiting[0]
    await door.wait_for_free_slot()
    others = [await door.acquire()]  # as if the one in the background were not there
    pausing = asyncio.create_task(door.wait_for_free_slot())
    await until_idle()
    assert not pausing.done()
    others.pop().release()
    await pausing
    background.release()
    played.release()
    (await waiting[1]).release()
    assert door.num_running == 0
