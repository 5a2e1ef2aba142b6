"""A run over fixed memory, recorded once as a CUDA graph and replayed; on a CPU it simply runs."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

Run = Callable[[], Tensor]
"""Reads its inputs from memory that stays, and may write there; -> its output."""

RECORDING = threading.Lock()
"""Held while a graph is recorded: a second recording, in any thread, would invalidate the first."""

Recorded = TypeVar("Recorded")
_log = logging.getLogger(__name__)

WARM_UPS = 3  # libraries choose their kernels and take their memory in the first runs


def graph_memory(device: torch.device) -> Any:
    """Return memory for what graphs compute in between, of those that never run at the same time."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


def captured(run: Run, device: torch.device, warm_ups: int | None = None, memory: Any = None) -> Run:
    """Return what replays `run`: of a GPU's its output always lies in the same memory.

    `run` is called a few times here, so it has to leave nothing behind that a later run would not overwrite.
    Other threads may use the GPU meanwhile; those that record wait. memory: shared with other graphs, whose
    outputs nobody reads any more when this one runs; None: of its own.
    """
    if device.type != "cuda":
        return run
    with RECORDING:
        return _recorded(run, device, WARM_UPS if warm_ups is None else warm_ups, memory)


def _recorded(run: Run, device: torch.device, warm_ups: int, memory: Any) -> Run:
    current = torch.cuda.current_stream(device)
    side = torch.cuda.Stream(device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(warm_ups):
            run()
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
            output = run()
    finally:
        torch.cuda.set_stream(current)  # a recording that fails leaves its own behind

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


def recorded_or_eager(record: Callable[[], Recorded], what: str) -> Recorded | None:
    """Return what was recorded; None, and a warning once, where it failed: it is to run eagerly instead.

    Memory may lack, or a library's call may be none that can be recorded.
    """
    try:
        return record()
    except RuntimeError as error:
        _log.warning("%s could not be recorded as a CUDA graph and runs eagerly: %s", what, error)
        return None


class Turns:
    """One run at a time over memory that threads share, each on a stream of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: torch.cuda.Event | None = None

    @contextmanager
    def taken(self, device: torch.device) -> Iterator[None]:
        """Work of the one before is done before this one's begins, on the device too."""
        with self._lock:
            if self._ended is not None:
                torch.cuda.current_stream(device).wait_event(self._ended)
            yield
            if device.type == "cuda":
                self._ended = torch.cuda.Event()
                self._ended.record()
