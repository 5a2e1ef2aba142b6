"""What the graphs of both estimators share: their inputs and outputs, and attention over what is kept.

A graph is a pass over one chunk of one stream. Inputs: h (G, T, 4 M), the estimator's stacked inputs;
times (parts, C), what depends on the time alone; for each convolution left_i (G, frames, C); for each
attention past_keys_i and past_values_i (G, H, past, D), what is seen before the chunk. Outputs: velocity
(G, T, M), next_left_i, and keys_i and values_i (G, H, T, D) of the chunk. Convolutions and attentions are
numbered as the network's own `forward` asks for them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from models.fused.graph import CONTRIB, GraphWriter, Shape


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorGraph:
    """inputs: what h is stacked of, in this order. lefts: frames and channels kept of each convolution.

    times: t -> the graph's input of that name. has_positions: it takes cos and sin (T, D / 2) of where its
    frames stand, too.
    """

    model: bytes
    inputs: tuple[str, str, str, str]
    lefts: tuple[tuple[int, int], ...]
    num_attentions: int
    num_heads: int
    head_dim: int
    out_channels: int
    times: Callable[[float], Tensor]
    has_positions: bool


class Places:
    """Numbers the convolutions and attentions of a graph, and writes what each keeps."""

    def __init__(self, writer: GraphWriter):
        self._writer = writer
        self._lefts: list[tuple[int, int]] = []
        self.num_attentions = 0

    @property
    def lefts(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._lefts)

    def extend_left(self, x: str, frames: int, channels: int) -> str:
        """x (G, T, C) -> (G, frames + T, C)."""
        writer, index = self._writer, len(self._lefts)
        self._lefts.append((frames, channels))
        shape: Shape = ["rows", frames, channels]
        extended = writer.node("Concat", writer.input(f"left_{index}", shape), x, axis=1)
        writer.output(f"next_left_{index}", sliced(writer, extended, -frames, None), shape)
        return extended

    def attend(self, query: str, key: str, value: str, num_heads: int, head_dim: int) -> str:
        """query, key, value (G, T, H D) -> (G, T, H D)."""
        writer, index = self._writer, self.num_attentions
        self.num_attentions += 1
        seen = []
        for what, made in (("keys", key), ("values", value)):
            heads = writer.node("Reshape", made, writer.integers(0, 0, num_heads, head_dim))
            heads = writer.node("Transpose", heads, perm=[0, 2, 1, 3])  # (G, H, T, D)
            writer.output(f"{what}_{index}", heads, ["rows", num_heads, "length", head_dim])
            past = writer.input(f"past_{what}_{index}", ["rows", num_heads, "past", head_dim])
            seen.append(writer.node("Concat", past, heads, axis=2))
        return writer.node("MultiHeadAttention", query, *seen, domain=CONTRIB, num_heads=num_heads)


def sliced(writer: GraphWriter, x: str, start: int, stop: int | None) -> str:
    """Frames [start, stop) of x (G, T, C), counted from the end where negative."""
    end = np.iinfo(np.int64).max if stop is None else stop
    return writer.node("Slice", x, *map(writer.integers, (start, end, 1)))
