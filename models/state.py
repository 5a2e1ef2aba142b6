"""What a network keeps of a stream: named tensors, whose layout the network itself reports.

A network's `forward` says everything that it keeps to its context (`firstword.models.layers`), so one run
without numbers finds its layout. A runtime binds the names to memory: a buffer of each stream, rows of a
recorded graph's memory, or pages that streams share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn

from firstword.models.layers import FullContext

NetworkState = dict[str, Tensor]
"""By the names of a `StateLayout`, each (rows, ...)."""


@dataclass(frozen=True, slots=True)
class StateTensor:
    """One tensor of a network's state.

    index: of the attention or convolution, as its network counts them. shape: of one row. time_dim: the
    dimension of time, the rows being dimension 0. grows: it takes a frame for each frame that the network is
    given, in a ring, in pages or without end, and its size in `shape` is 0; else it holds the last frames.
    """

    kind: Literal["keys", "values", "positions", "left"]
    index: int
    shape: tuple[int, ...]
    time_dim: int
    grows: bool
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.kind}_{self.index}")

    @property
    def num_values(self) -> int:
        """Of a row: in all, or for each frame of a tensor that grows."""
        return prod(self.sized(1, 1))

    def sized(self, rows: int, frames: int) -> tuple[int, ...]:
        """The shape of `rows` rows; frames: of a tensor that grows."""
        shape = [rows, *self.shape]
        if self.grows:
            shape[self.time_dim] = frames
        return tuple(shape)


@dataclass(frozen=True)
class StateLayout:
    """Every tensor of a network's state, in the order in which a run uses them."""

    tensors: tuple[StateTensor, ...]

    @cached_property
    def by_name(self) -> Mapping[str, StateTensor]:
        return {one.name: one for one in self.tensors}

    @cached_property
    def left(self) -> tuple[StateTensor, ...]:
        """The left contexts of the convolutions."""
        return tuple(one for one in self.tensors if one.kind == "left")

    @cached_property
    def attentions(self) -> Mapping[int, tuple[int, int]]:
        """Heads and their size, by layer."""
        return {one.index: (one.shape[0], one.shape[2]) for one in self.tensors if one.kind == "keys"}

    @property
    def values_per_frame(self) -> int:
        return sum(one.num_values for one in self.tensors if one.grows)

    @property
    def vectors_per_frame(self) -> int:
        """Keys and values of one head in a frame."""
        return 2 * sum(heads for heads, _ in self.attentions.values())

    @property
    def fixed_values(self) -> int:
        return sum(one.num_values for one in self.tensors if not one.grows)

    def zeros(self, rows: int, frames: int, like: Tensor) -> NetworkState:
        """A state of zeros in the dtype and on the device of `like`; frames: of what grows."""
        return {one.name: like.new_zeros(one.sized(rows, frames)) for one in self.tensors}


class LayoutContext(FullContext):
    """Notes what a network asks of its context."""

    def __init__(self) -> None:
        super().__init__()
        self._tensors: list[StateTensor] = []

    @property
    def layout(self) -> StateLayout:
        names = [one.name for one in self._tensors]
        assert len(set(names)) == len(names), f"an index is taken twice: {names}"
        return StateLayout(tuple(self._tensors))

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        shape = list(x.shape[1:])
        shape[dim - 1] = frames
        self._tensors.append(StateTensor("left", index, tuple(shape), dim, grows=False))
        return super().extend(index, x, frames, dim)

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        shape = (k.shape[1], 0, k.shape[3])
        self._tensors.append(StateTensor("keys", layer, shape, 2, grows=True))
        self._tensors.append(StateTensor("values", layer, shape, 2, grows=True))
        if distance_query is not None and not any(one.kind == "positions" for one in self._tensors):
            self._tensors.append(StateTensor("positions", 0, (0, distance_query.shape[-1]), 1, grows=True))
        return super().attend(layer, q, k, v, distance_query)


@torch.no_grad()
def run_without_numbers(network: nn.Module, *given: Any) -> None:
    """Run a network whose weights and inputs have shapes only. given: tensors on any device, contexts."""
    weights = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    shapes = {name: tensor.to("meta") for name, tensor in weights.items()}
    dtype = next(tensor.dtype for tensor in weights.values() if tensor.is_floating_point())
    inputs = [_shape_of(one, dtype) if isinstance(one, Tensor) else one for one in given]
    torch.func.functional_call(network, shapes, tuple(inputs))


def _shape_of(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to("meta", dtype if tensor.is_floating_point() else tensor.dtype)


def layout_of(network: nn.Module, inputs: Callable[[LayoutContext], tuple[Any, ...]]) -> StateLayout:
    """inputs: of the network, with the context that it is given in their midst."""
    context = LayoutContext()
    run_without_numbers(network, *inputs(context))
    return context.layout
