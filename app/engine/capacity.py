"""How many streams this machine speaks in real time, measured at the first start and while nobody speaks."""

import asyncio
import logging
import statistics
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import torch

from firstword.app.core.admission import Admission, Made
from firstword.app.engine.unloading import LoadOnDemandAdmission, Unloading
from firstword.app.options import EngineOptions, NetworkOptions
from firstword.models.runtimes.measurement import MeasurementFile, measurement_key

CAPACITY_FILE = "capacity.json"
FIRST_STREAMS = 4  # of a measurement; twice as many while the machine could run them twice over
MAX_STREAMS = 256  # of a measurement, and to which live streams may raise what it found
KEPT = 3  # measurements
USED_SHARE = 0.8  # of the capacity; the rest keeps chunks that come at the same time from being late
NUM_FACTORS = 8  # streams, from whose median the live capacity is taken
MIN_AUDIO_S = 1.0  # of such a stream: the start of a shorter one is most of it
FULL_SHARE = 0.75  # of the slots, which were taken while it was made
MAX_GAIN = 4
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


class Capacity:
    """The most streams that this machine ran in real time in its last few measurements.

    Whatever else runs makes a measurement smaller and never larger; a machine that became slower for good is
    known after `KEPT` of them.
    """

    def __init__(self, file: MeasurementFile, measures_anew: bool = False) -> None:
        """file: of what earlier starts measured."""
        self._file = file
        self._found = [] if measures_anew else measured_before(file.read())

    @property
    def max_streams(self) -> int | None:
        """None: nothing was measured yet."""
        return max(self._found, default=None)

    def add(self, measured: int) -> int:
        """Keep a measurement; return how many streams may run from now on."""
        self._found = [*self._found, measured][-KEPT:]
        self._file.write(self._found)
        return max(self._found)


class LiveFactors:
    """Corrects how many streams run at once by how fast streams are made while the slots are taken.

    n streams at once that are each made in f of their length show that the machine speaks n / f in real time:
    what a measurement finds, found at work. It goes up and down by a quarter at most, each time after
    `NUM_FACTORS` streams, and stays between half and `MAX_GAIN` times what was measured: a few odd streams
    cannot starve the server, or drown it.
    """

    def __init__(self, measured: int) -> None:
        self.measured = measured
        self._found: list[float] = []

    def corrected(self, made: Made, max_streams: int) -> int:
        """Take note of a stream that was made; return how many may run at once from now on."""
        if made.audio_s < MIN_AUDIO_S or made.num_at_once < FULL_SHARE * max_streams:
            return max_streams
        self._found.append(USED_SHARE * made.num_at_once * made.audio_s / max(made.took_s, 1e-3))
        if len(self._found) < NUM_FACTORS:
            return max_streams
        wanted = int(statistics.median(self._found))
        self._found.clear()
        most = max(1, max_streams // 4)
        stepped = min(max(wanted, max_streams - most), max_streams + most)
        highest = min(MAX_GAIN * self.measured, max(MAX_STREAMS, self.measured))
        return min(max(stepped, 1, -(-self.measured // 2)), highest)


def open_admission(
    options: EngineOptions,
    file: MeasurementFile,
    clock: Callable[[], float],
    unloading: Unloading | None,
) -> tuple[Admission, Capacity | None]:
    """Return the admission, and the capacity that it goes by; None: its streams are set.

    file: of what earlier starts measured. unloading: loads the networks for those who are admitted.
    """
    max_streams = options.max_streams
    capacity = None
    if not max_streams:
        capacity = Capacity(file, options.remeasure)
        max_streams = capacity.max_streams or 0
        if max_streams:
            _log.info("%d streams run at once, as an earlier start measured", max_streams)
    make = Admission if unloading is None else partial(LoadOnDemandAdmission, unloading.ensure_loaded)
    admission = make(max_streams or 1, options.queue, clock)
    if capacity is not None:
        admission.known_from = "measurement"
    return admission, capacity


def capacity_file(
    data_dir: Path, fingerprint: str, options: NetworkOptions, lm_options: object, backend: str
) -> MeasurementFile:
    """Return the file of measurements; the others as `capacity_key` takes them."""
    key = capacity_key(fingerprint, options, lm_options, backend)
    return MeasurementFile(data_dir / CAPACITY_FILE, key)


def capacity_key(fingerprint: str, options: NetworkOptions, lm_options: object, backend: str) -> str:
    """Return a digest of all that the capacity depends on.

    fingerprint: of the checkpoint. lm_options: of the engines that may run the language model, as they are
    shown.
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return measurement_key(fingerprint, options, lm_options, backend, gpu)


def measured_before(stored: object) -> list[int]:
    """Return what a file holds of measurements; earlier versions kept a single one."""
    found = stored if isinstance(stored, list) else [stored]
    return [one for one in found if type(one) is int and one >= 1][-KEPT:]
