"""How many streams this machine speaks in real time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeGuard

import torch

from firstword.app.core.admission import Admission
from firstword.app.options import EngineOptions, NetworkOptions
from firstword.models.runtimes.measurement import MeasurementFile, measurement_key

FIRST_STREAMS = 4  # of a measurement; twice as many while the machine could run them twice over
MAX_STREAMS = 256
USED_SHARE = 0.8  # of the capacity; the rest keeps chunks that come at the same time from being late
_log = logging.getLogger(__name__)


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


def open_admission(
    options: EngineOptions, path: Path, key: str, clock: Callable[[], float]
) -> tuple[Admission, Callable[[int], None] | None]:
    """Return the admission, and what keeps the capacity once it is measured; None: it is known already.

    path, key: of the file of what an earlier start measured.
    """
    file, max_streams = MeasurementFile(path, key), options.max_streams
    if not max_streams and not options.remeasure and is_capacity(known := file.read()):
        max_streams = known
        _log.info("%d streams run at once, as an earlier start measured", max_streams)
    admission = Admission(
        max_streams or 1,
        options.max_queued,
        options.queue_timeout_s,
        clock,
        options.max_queued_files,
        options.file_queue_timeout_s,
    )
    return admission, None if max_streams else file.write


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
