"""State inputs and outputs of ONNX graphs: how they are written into a graph, and bound for a run.

Each name begins with a prefix of its own. For each causal convolution `left_i` and `next_left_i`
(G, frames, C); for each attention `keys_i` and `values_i` (G, H, buffer, D), which the graph writes in place:
`next_keys_i` and `next_values_i` are bound to the same memory; `scatter` (G, H, T, 3), int64, the indices of
the chunk in such a buffer; `mask` (1, 1, T, buffer), added to the scores. i is the index that the network
gave its layer. The buffers are those of `firstword.models.flow.kv_cache.RingKVCache`. In 8 bits there are
`key_scales_i` and `value_scales_i` (G, H, buffer, 1) too, and `mask` is (buffer,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from firstword.models.flow.batched_cache import StreamChunk
from firstword.models.flow.kv_cache import Int8RingKVCache, RingKVCache
from firstword.models.flow.state import ChunkState
from firstword.models.onnx_graphs.graph import CONTRIB, GraphWriter, Shape
from firstword.models.state import StateLayout, StateTensor

StatePrecision = Literal["float32", "int8"]
_FLOAT32 = torch.empty(0)  # left contexts are
_LEAST = 1e-30  # of what is divided by
_MOST_KEY_STEPS = 63  # without VNNI two products with a query of up to 255 are added in 16 bits, signed


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The state of a graph. prefix: of its names. precision: of keys and values."""

    prefix: str
    layout: StateLayout
    precision: StatePrecision

    @property
    def cache_class(self) -> type[RingKVCache]:
        return Int8RingKVCache if self.precision == "int8" else RingKVCache

    def bind(
        self, stream: StreamChunk, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> Callable[[], None]:
        """Add the stream's state to the graph's inputs and outputs; -> what keeps it after the run."""
        state = ChunkState(stream, self.layout, _FLOAT32)
        rows, length = state.rows.stop - state.rows.start, state.length
        next_left = {one.name: torch.empty(rows, *one.shape) for one in self.layout.left}
        for name, tensor in state.tensors.items():
            inputs[f"{self.prefix}{name}"] = tensor
            outputs[f"{self.prefix}next_{name}"] = next_left.get(name, tensor)
        num_heads = next(iter(self.layout.attentions.values()))[0]
        frames = torch.arange(state.start, state.start + length)
        grid = torch.meshgrid(torch.arange(rows), torch.arange(num_heads), frames, indexing="ij")
        inputs[f"{self.prefix}scatter"] = torch.stack(grid, dim=-1).contiguous()
        mask = torch.full((state.num_frames,), -torch.inf)
        for first, stop in state.visible:
            mask[first:stop] = 0
        is_row = self.precision == "int8"
        inputs[f"{self.prefix}mask"] = mask if is_row else mask.repeat(length, 1)[None, None]
        return partial(state.commit, next_left)


class StateInputs:
    """Writes the causal convolutions' left contexts and the attentions of a graph."""

    def __init__(
        self,
        writer: GraphWriter,
        num_heads: int,
        head_dim: int,
        prefix: str = "",
        precision: StatePrecision = "float32",
    ):
        self._writer, self._prefix, self._precision = writer, prefix, precision
        self._num_heads, self._head_dim = num_heads, head_dim
        self._tensors: dict[str, StateTensor] = {}
        shape: Shape = ["rows", num_heads, f"{prefix}length", 3]
        self._scatter = writer.input(f"{prefix}scatter", shape, TensorProto.INT64)
        row: Shape = [f"{prefix}buffer"]
        shape = row if precision == "int8" else [1, 1, f"{prefix}length", *row]
        self._mask = writer.input(f"{prefix}mask", shape)

    @property
    def spec(self) -> StateSpec:
        return StateSpec(self._prefix, StateLayout(tuple(self._tensors.values())), self._precision)

    def extend(self, index: int, x: str, frames: int, channels: int) -> str:
        """x (G, T, C) -> (G, frames + T, C). index: of the convolution in its network."""
        name = self._added(StateTensor("left", index, (frames, channels), time_dim=1, grows=False))
        writer = self._writer
        shape: Shape = ["rows", frames, channels]
        left = writer.input(f"{self._prefix}{name}", shape)
        extended = writer.node("Concat", left, x, axis=1)
        writer.output(f"{self._prefix}next_{name}", writer.sliced(extended, -frames, None), shape)
        return extended

    def attend(self, layer: int, query: str, key: str, value: str, bias: str | None = None) -> str:
        """query, key, value (G, T, H D) -> (G, T, H D). layer: the attention's index in its network.

        bias (1, H, T, buffer): added to the scores as well.
        """
        shape = self._num_heads, 0, self._head_dim
        self._added(StateTensor("keys", layer, shape, time_dim=2, grows=True))
        self._added(StateTensor("values", layer, shape, time_dim=2, grows=True))
        writer = self._writer
        if self._precision == "int8":
            assert bias is None, "no scores are added in 8 bits"
            return self._attend_in_8_bits(layer, query, key, value)
        seen = [
            self._written(name, layer, self._heads(made), TensorProto.FLOAT, self._head_dim)
            for name, made in (("keys", key), ("values", value))
        ]
        mask = self._mask if bias is None else writer.node("Add", bias, self._mask)
        return writer.node(
            "MultiHeadAttention", query, *seen, "", "", mask, domain=CONTRIB, num_heads=self._num_heads
        )

    def _added(self, one: StateTensor) -> str:
        assert one.name not in self._tensors, f"an index is taken twice: {one.name}"
        self._tensors[one.name] = one
        return one.name

    def _attend_in_8_bits(self, layer: int, query: str, key: str, value: str) -> str:
        """Queries times keys in 8 bits. The weights stay float32: most are far smaller than the largest."""
        writer = self._writer
        queries, scale, zero = writer.nodes("DynamicQuantizeLinear", 3, self._heads(query))
        scale = writer.node("Mul", scale, writer.constant(np.array(self._head_dim**-0.5, np.float32)))
        keys, key_scales = self._written_in_8_bits("keys", "key_scales", layer, key, _MOST_KEY_STEPS)
        scores = writer.node(
            "MatMulIntegerToFloat",
            queries,
            writer.node("Transpose", keys, perm=[0, 1, 3, 2]),
            scale,
            key_scales,
            zero,
            "",
            self._mask,
            domain=CONTRIB,
        )
        values, value_scales = self._written_in_8_bits("values", "value_scales", layer, value, 127)
        weights = writer.node("Mul", writer.node("Softmax", scores, axis=-1), value_scales)
        y = writer.node("MatMul", weights, writer.node("Cast", values, to=TensorProto.FLOAT))
        y = writer.node("Transpose", y, perm=[0, 2, 1, 3])
        return writer.node("Reshape", y, writer.integers(0, 0, self._num_heads * self._head_dim))

    def _heads(self, x: str) -> str:
        """(G, T, H D) -> (G, H, T, D)."""
        writer = self._writer
        heads = writer.node("Reshape", x, writer.integers(0, 0, self._num_heads, self._head_dim))
        return writer.node("Transpose", heads, perm=[0, 2, 1, 3])

    def _written_in_8_bits(
        self, name: str, scales_name: str, layer: int, made: str, most_steps: int
    ) -> tuple[str, str]:
        """made (G, T, H D) -> steps (G, H, buffer, D), and how large they are (G, H, 1, buffer).

        most_steps: how many of them the largest element of a frame's head takes.
        """
        writer, heads = self._writer, self._heads(made)
        largest = writer.node("ReduceMax", writer.node("Abs", heads), axes=[3], keepdims=1)
        least, step = (writer.constant(np.array(each, np.float32)) for each in (_LEAST, 1 / most_steps))
        scales = writer.node("Mul", writer.node("Max", largest, least), step)
        steps = writer.node("Round", writer.node("Div", heads, scales))
        steps = writer.node("Cast", steps, to=TensorProto.INT8)
        steps = self._written(name, layer, steps, TensorProto.INT8, self._head_dim)
        scales = self._written(scales_name, layer, scales, TensorProto.FLOAT, 1)
        return steps, writer.node("Reshape", scales, writer.integers(0, 0, 1, -1))

    def _written(self, name: str, layer: int, made: str, element: int, size: int) -> str:
        """made (G, H, T, size), put where it belongs -> the buffer of that name (G, H, buffer, size)."""
        writer = self._writer
        shape: Shape = ["rows", self._num_heads, f"{self._prefix}buffer", size]
        buffer = writer.input(f"{self._prefix}{name}_{layer}", shape, element)
        written = writer.node("ScatterND", buffer, self._scatter, made)
        writer.output(f"{self._prefix}next_{name}_{layer}", written, shape, element)
        return written
