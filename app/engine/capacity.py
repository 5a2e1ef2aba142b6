"""How many streams the machine speaks in real time: measured before the first listener comes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_FIRST = 4  # streams spoken at once; twice as many while the machine could carry them twice over
MOST_STREAMS = 256
_SHARE = 0.8  # of what it speaks; the rest keeps chunks that come at the same time from being late


async def measured_capacity(
    speak: Callable[[], Coroutine[Any, Any, float]], clock: Callable[[], float]
) -> int:
    """speak: one stream from its start to its end, as fast as it goes; tells its seconds of audio."""
    count = _FIRST
    while True:
        began_s = clock()
        async with asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(speak()) for _ in range(count)]
        speed = sum(stream.result() for stream in streams) / (clock() - began_s)
        if speed < 2 * count or count >= MOST_STREAMS:
            return max(1, round(_SHARE * speed))
        count *= 2
