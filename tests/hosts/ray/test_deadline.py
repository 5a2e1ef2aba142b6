"""Deadlines of a process that stood still: its clock leaps, and what has come is read first."""

import asyncio
import socket

import pytest

from firstword.app.hosts.ray.deadline import deadline

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("leaps_s", [[60.0], [60.0, 60.0], [4.05, 1.4]])
async def test_what_came_while_the_process_stood_still_is_read(
    monkeypatch: pytest.MonkeyPatch, leaps_s: list[float]
) -> None:
    """The second leap is in the time in which it reads."""
    loop = asyncio.get_running_loop()
    leapt_s, time_s = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: time_s() + leapt_s)
    here, there = socket.socketpair()
    with there:
        reader, writer = await asyncio.open_connection(sock=here)
        reading = asyncio.create_task(read_within(reader, 5.0))
        for leap_s in leaps_s:
            for _ in range(10):
                await asyncio.sleep(0)
            leapt_s += leap_s
        there.send(b"x")
        assert await reading == b"x"
        writer.close()


async def read_within(reader: asyncio.StreamReader, limit_s: float) -> bytes:
    """By way of another task, as what comes over Ray does."""

    async def passed_on() -> bytes:
        read = await reader.read(1)
        for _ in range(5):
            await asyncio.sleep(0)
        return read

    async with deadline(limit_s):
        return await asyncio.create_task(passed_on())


async def test_it_passes_where_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        async with deadline(0.1):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() - began_s >= 0.1
    async with deadline(0.0):
        await asyncio.sleep(0)


async def test_it_passes_where_the_loop_is_always_late(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    leapt_s, time_s = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: time_s() + leapt_s)

    async def be_late() -> None:
        nonlocal leapt_s
        async with deadline(5.0):
            while leapt_s < 60.0:
                leapt_s += 0.9
                await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await be_late()
