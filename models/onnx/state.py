"""State inputs and outputs of ONNX graphs.

What a graph keeps from one chunk to the next: how it is written into the graph, and bound at a run.

Inputs and outputs, each name with a prefix of its own: for each convolution left_i and next_left_i
(G, frames, C); for each attention keys_i and values_i (G, H, room, D), which the graph writes in place:
next_keys_i and next_values_i are to be bound to the same memory; places (G, H, T, 3), int64, where the
chunk goes in a room; mask (1, 1, T, room), added to the scores. `models.flow.rooms` is what they lie in.
"""

from dataclasses import dataclass

import torch
from onnx import TensorProto
from torch import Tensor

from firstword.models.flow.batch_memory import StreamPass
from firstword.models.onnx.graph import CONTRIB, GraphWriter, Shape


@dataclass(frozen=True, slots=True)
class Kept:
    """lefts: frames and channels of each convolution."""

    prefix: str
    lefts: tuple[tuple[int, int], ...]
    num_attentions: int
    num_heads: int
    head_dim: int

    def bind(
        self, stream: StreamPass, rows: int, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> list[Tensor]:
        """Adds what the graph needs of the stream; -> the lefts it will write, to be kept after the run."""
        lefts = [torch.empty(rows, frames, channels) for frames, channels in self.lefts]
        for index, left in enumerate(lefts):
            inputs[f"{self.prefix}left_{index}"] = stream.left(index, left)
            outputs[f"{self.prefix}next_left_{index}"] = left
        for index in range(self.num_attentions):
            room = stream.room(index, (rows, self.num_heads, self.head_dim))
            for name, kept in (("keys", room.keys), ("values", room.values)):
                inputs[f"{self.prefix}{name}_{index}"] = kept
                outputs[f"{self.prefix}next_{name}_{index}"] = kept
        inputs[f"{self.prefix}places"] = stream.places(rows, self.num_heads)
        inputs[f"{self.prefix}mask"] = stream.room_mask()
        return lefts


class Places:
    """Writes the convolutions and attentions of a graph, numbered as they come."""

    def __init__(self, writer: GraphWriter, num_heads: int, head_dim: int, prefix: str = ""):
        self._writer, self._prefix = writer, prefix
        self._num_heads, self._head_dim = num_heads, head_dim
        self._lefts: list[tuple[int, int]] = []
        self._num_attentions = 0
        shape: Shape = ["rows", num_heads, self._size("length"), 3]
        self._places = writer.input(f"{prefix}places", shape, TensorProto.INT64)
        self._mask = writer.input(f"{prefix}mask", [1, 1, self._size("length"), self._size("room")])

    @property
    def kept(self) -> Kept:
        return Kept(self._prefix, tuple(self._lefts), self._num_attentions, self._num_heads, self._head_dim)

    def extend_left(self, x: str, frames: int, channels: int) -> str:
        """x (G, T, C) -> (G, frames + T, C)."""
        writer, index = self._writer, len(self._lefts)
        self._lefts.append((frames, channels))
        shape: Shape = ["rows", frames, channels]
        extended = writer.node("Concat", writer.input(f"{self._prefix}left_{index}", shape), x, axis=1)
        writer.output(f"{self._prefix}next_left_{index}", writer.sliced(extended, -frames, None), shape)
        return extended

    def attend(self, query: str, key: str, value: str, bias: str | None = None) -> str:
        """query, key, value (G, T, H D) -> (G, T, H D). bias (1, H, T, room): added to the scores as well."""
        writer, index = self._writer, self._num_attentions
        self._num_attentions += 1
        shape: Shape = ["rows", self._num_heads, self._size("room"), self._head_dim]
        seen = []
        for what, made in (("keys", key), ("values", value)):
            heads = writer.node("Reshape", made, writer.integers(0, 0, self._num_heads, self._head_dim))
            heads = writer.node("Transpose", heads, perm=[0, 2, 1, 3])  # (G, H, T, D)
            room = writer.input(f"{self._prefix}{what}_{index}", shape)
            seen.append(writer.node("ScatterND", room, self._places, heads))
            writer.output(f"{self._prefix}next_{what}_{index}", seen[-1], shape)
        mask = self._mask if bias is None else writer.node("Add", bias, self._mask)
        return writer.node(
            "MultiHeadAttention", query, *seen, "", "", mask, domain=CONTRIB, num_heads=self._num_heads
        )

    def _size(self, name: str) -> str:
        return f"{self._prefix}{name}"
