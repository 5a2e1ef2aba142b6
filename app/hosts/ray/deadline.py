"""A deadline that reads what has arrived before it passes. Free of torch and of Ray."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

READS_S: Final = 1.0  # in which a process that stood still and goes on reads what has come meanwhile
LATE_S: Final = 0.5  # of a timer: the process stood still


@asynccontextmanager
async def deadline(limit_s: float | None) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but not before a process that stood still (SIGSTOP) has run again for READS_S.

    An event loop that goes on runs its timers before what waits on its sockets has reached who waits for it.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def pass_unless_late(due_s: float) -> None:
        nonlocal timer
        now_s = loop.time()
        if now_s - due_s > LATE_S:
            timer = loop.call_at(now_s + READS_S, pass_unless_late, now_s + READS_S)
        else:
            timeout.reschedule(now_s)

    async with asyncio.timeout(None) as timeout:
        if limit_s is None:
            yield
            return
        # The last READS_S are a timer of their own: the process may have gone on just before.
        timer = loop.call_later(max(0.0, limit_s - READS_S), pass_unless_late, float("-inf"))
        try:
            yield
        finally:
            timer.cancel()
