"""A deadline that reads what has arrived before it passes. Free of torch and of Ray."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

TICK_S: Final = 0.1
TICKS: Final = 10  # in a row, none late: a process that stood still has read what came meanwhile
LATE_S: Final = 0.5  # of a tick: the process stood still
MAX_STOPS: Final = 5  # that are waited for: where the loop is always late, the deadline has to pass too


@asynccontextmanager
async def deadline(limit_s: float | None) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but not before a process that stood still (SIGSTOP) has run again for a second.

    An event loop that goes on runs its timers before what waits on its sockets has reached who waits for it.
    A stop of up to LATE_S + TICK_S is not noticed: at the very end, what came in it is lost.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def tick(due_s: float, num_left: int, stops_left: int) -> None:
        nonlocal timer
        now_s = loop.time()
        if now_s - due_s > LATE_S:
            num_left, stops_left = TICKS if stops_left else 0, stops_left - 1
        if num_left:
            next_s = now_s + TICK_S
            timer = loop.call_at(next_s, tick, next_s, num_left - 1, stops_left)
        else:
            timeout.reschedule(now_s)

    async with asyncio.timeout(None) as timeout:
        if limit_s is None:
            yield
            return
        # The first one is never late: all others follow it.
        until_ticks_s = max(0.0, limit_s - TICKS * TICK_S)
        timer = loop.call_later(until_ticks_s, tick, float("inf"), TICKS, MAX_STOPS)
        try:
            yield
        finally:
            timer.cancel()
