"""Counts what a piece of work does: calls of networks, runs of graphs, operations, bytes that are copied."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from onnxruntime import InferenceSession
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from firstword.models.onnx_graphs.session import BoundRun

COPIES = ("copy_", "clone", "cat", "stack", "_to_copy", "index", "index_select", "repeat", "constant_pad_nd")


@dataclass(slots=True)
class Work:
    """operations: by name, those that compute or move values. copied_bytes: written by COPIES alone."""

    operations: Counter[str] = field(default_factory=Counter)
    copied_bytes: int = 0

    @property
    def num_operations(self) -> int:
        return self.operations.total()


class _Watch(TorchDispatchMode):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        name = func.overloadpacket.__name__
        self._work.operations[name] += 1
        if name in COPIES:
            tensors = result if isinstance(result, tuple | list) else [result]
            self._work.copied_bytes += sum(each.nbytes for each in tensors if isinstance(each, Tensor))
        return result


def work_of(run: Callable[[], object]) -> Work:
    """What a graph does inside counts as nothing here: it is one run of `graph_runs`."""
    work = Work()
    with torch.inference_mode(), _Watch(work):
        run()
    return work


@contextmanager
def calls_of(network: nn.Module) -> Iterator[list[torch.Size]]:
    """The shape of the first tensor that each call of the network was given."""
    shapes: list[torch.Size] = []

    def count(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        shapes.append(given[0].shape)

    handle = network.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield shapes
    finally:
        handle.remove()


@contextmanager
def graph_runs() -> Iterator[list[InferenceSession]]:
    """The graph of each run, in order."""
    runs: list[InferenceSession] = []
    run = BoundRun.run

    def counted(bound: BoundRun) -> None:
        runs.append(bound.session)
        run(bound)

    with patch.object(BoundRun, "run", counted):
        yield runs
