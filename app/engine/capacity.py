"""How many streams this machine speaks in real time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeGuard

import torch

from firstword.app.engine.measurement import measurement_key
from firstword.app.options import NetworkOptions

FIRST_STREAMS = 4  # of a measurement; twice as many while the machine could run them twice over
MAX_STREAMS = 256
USED_SHARE = 0.8  # of the capacity; the rest keeps chunks that come at the same time from being late


async def measured_capacity(
    speak: Callable[[], Coroutine[Any, Any, float]], clock: Callable[[], float], num_at_once: int
) -> int:
    """Return how many streams the machine speaks in real time.

    speak: one stream from its start to its end, as fast as it goes; returns its seconds of audio.
    num_at_once: chunks that are computed at the same time; twice as many streams keep it busy.
    """
    count = FIRST_STREAMS
    while True:
        began_s = clock()
        async with asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(speak()) for _ in range(count)]
        speed = sum(stream.result() for stream in streams) / (clock() - began_s)
        if speed < 2 * count or count >= min(2 * num_at_once, MAX_STREAMS):
            return max(1, round(USED_SHARE * speed))
        count *= 2


def capacity_key(fingerprint: str, options: NetworkOptions, lm_options: object, backend: str) -> str:
    """Return a digest of all that the capacity depends on.

    fingerprint: of the checkpoint. lm_options: of the engines that may run the language model, as they are
    shown.
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return measurement_key(fingerprint, options, lm_options, backend, gpu)


def is_capacity(stored: object) -> TypeGuard[int]:
    """Whether a file holds what `measured_capacity` found."""
    return type(stored) is int and stored >= 1
