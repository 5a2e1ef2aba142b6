"""The buffer ahead of one listener."""

import asyncio

import numpy as np
import pytest

from firstword.app.core.audio_queue import MAX_EVENTS, AudioQueue
from firstword.app.core.interface import Audio, Flushed
from firstword.app.errors import SynthesisFailed
from tests.support.clock import Clock
from tests.support.pace import until_idle

RATE_HZ = 1000
pytestmark = pytest.mark.anyio


def audio(seconds: float) -> Audio:
    return Audio(np.zeros(round(seconds * RATE_HZ), np.float32))


def buffer(max_ahead_s: float = 1.0, clock: Clock | None = None) -> AudioQueue:
    return AudioQueue(RATE_HZ, max_ahead_s, clock or Clock())


async def test_events_come_out_in_order_and_then_the_end() -> None:
    listener = buffer()
    first, second = audio(0.1), audio(0.2)
    for event in (first, Flushed(), second):
        await listener.put(event)
    listener.close()
    assert [await listener.take() for _ in range(4)] == [first, Flushed(), second, None]


async def test_a_listener_who_does_not_take_pauses_the_one_who_puts() -> None:
    listener = buffer(max_ahead_s=1.0)
    await listener.put(audio(1.5))
    putting = asyncio.create_task(listener.put(audio(0.1)))
    await until_idle()
    assert not putting.done()
    await listener.take()
    await putting


async def test_closing_releases_the_one_who_puts_and_drops_what_it_had() -> None:
    listener = buffer(max_ahead_s=1.0)
    await listener.put(audio(1.5))
    putting = asyncio.create_task(listener.put(audio(0.1)))
    await until_idle()
    listener.close()
    await putting
    assert await listener.take() is not None
    assert await listener.take() is None


async def test_an_error_comes_after_the_audio_before_it() -> None:
    listener = buffer()
    await listener.put(audio(0.1))
    listener.close(SynthesisFailed("broken"))
    listener.close()
    assert isinstance(await listener.take(), Audio)
    with pytest.raises(SynthesisFailed, match="broken"):
        await listener.take()


async def test_taking_waits_for_what_is_put() -> None:
    listener = buffer()
    taking = asyncio.create_task(listener.take())
    await until_idle()
    assert not taking.done()
    await listener.put(Flushed())
    assert await taking == Flushed()


async def test_the_deadline_is_when_the_listener_runs_dry() -> None:
    clock = Clock()
    listener = buffer(10, clock)
    assert listener.playout_deadline_s == 100.0
    await listener.put(audio(0.5))
    clock.now_s = 103.0
    assert listener.playout_deadline_s == 100.0  # nobody plays yet
    await listener.take()
    assert listener.playout_deadline_s == 103.5
    await listener.put(audio(2.0))
    assert listener.playout_deadline_s == 105.5
    clock.now_s = 200.0  # it ran dry, and waits since
    await listener.put(audio(1.0))
    assert listener.playout_deadline_s == 201.0


async def test_flushes_do_not_pile_up_before_a_listener_who_does_not_take() -> None:
    listener = buffer()
    for _ in range(MAX_EVENTS):
        await listener.put(Flushed())
    putting = asyncio.create_task(listener.put(Flushed()))
    await until_idle()
    assert not putting.done()
    await listener.take()
    await putting


async def test_a_file_is_less_urgent_than_what_is_played_however_much_is_ahead() -> None:
    clock = Clock()
    file, played = (AudioQueue(RATE_HZ, 60.0, clock, is_played) for is_played in (False, True))
    clock.pass_s(100.0)
    for queue in (file, played):
        for _ in range(50):
            await queue.put(audio(1.0))
            await queue.take()
    assert file.playout_deadline_s > played.playout_deadline_s + 3600
