"""State inputs and outputs of ONNX graphs: how they are written into a graph, and bound for a run.

Each name begins with a prefix of its own. For each causal convolution `conv_left_i` and `next_conv_left_i`
(G, frames, C); for each attention `keys_i` and `values_i` (G, H, buffer, D), which the graph writes in place:
`next_keys_i` and `next_values_i` are bound to the same memory; `scatter` (G, H, T, 3), int64, the indices of
the chunk in such a buffer; `mask` (1, 1, T, buffer), added to the scores. i is the index that the network
gave its layer. The buffers are those of `firstword.models.flow.kv_cache.RingKVCache`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from onnx import TensorProto
from torch import Tensor

from firstword.models.flow.batched_cache import StreamChunk
from firstword.models.onnx.graph import CONTRIB, GraphWriter, Shape


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The state of a graph. conv_shapes: frames and channels left of each convolution, by index."""

    prefix: str
    conv_shapes: Mapping[int, tuple[int, int]]
    layers: tuple[int, ...]
    num_heads: int
    head_dim: int

    def bind(
        self, stream: StreamChunk, rows: int, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> dict[int, Tensor]:
        """Add the stream's state to the graph's inputs and outputs.

        Returns what the graph will leave of each convolution, for `commit` after the run.
        """
        cache, step = stream.cache, stream.step
        next_left = {
            index: torch.empty(rows, frames, channels)
            for index, (frames, channels) in self.conv_shapes.items()
        }
        for index, left in next_left.items():
            inputs[f"{self.prefix}conv_left_{index}"] = cache.conv_state.left_of(
                (step, index), left, left.shape[1], dim=1
            )
            outputs[f"{self.prefix}next_conv_left_{index}"] = left
        num_frames = 0
        for layer in self.layers:
            (buffer,) = cache.buffers((step, layer), (rows, self.num_heads, self.head_dim))
            num_frames = buffer.num_frames
            for name, values in (("keys", buffer.keys), ("values", buffer.values)):
                inputs[f"{self.prefix}{name}_{layer}"] = values
                outputs[f"{self.prefix}next_{name}_{layer}"] = values
        _, start = cache.current
        frames = torch.arange(start, start + stream.length)
        grid = torch.meshgrid(torch.arange(rows), torch.arange(self.num_heads), frames, indexing="ij")
        inputs[f"{self.prefix}scatter"] = torch.stack(grid, dim=-1).contiguous()
        mask = torch.full((num_frames,), -torch.inf)
        for _, first, stop in cache.visible(stream.length):
            mask[first:stop] = 0
        inputs[f"{self.prefix}mask"] = mask.repeat(stream.length, 1)[None, None]
        return next_left

    def commit(self, stream: StreamChunk, next_left: Mapping[int, Tensor]) -> None:
        """Keep what a run wrote."""
        for index, left in next_left.items():
            stream.cache.conv_state.keep((stream.step, index), left)
        for layer in self.layers:
            stream.cache.commit_layer((stream.step, layer))


class StateInputs:
    """Writes the causal convolutions' left contexts and the attentions of a graph."""

    def __init__(self, writer: GraphWriter, num_heads: int, head_dim: int, prefix: str = ""):
        self._writer, self._prefix = writer, prefix
        self._num_heads, self._head_dim = num_heads, head_dim
        self._conv_shapes: dict[int, tuple[int, int]] = {}
        self._layers: list[int] = []
        shape: Shape = ["rows", num_heads, f"{prefix}length", 3]
        self._scatter = writer.input(f"{prefix}scatter", shape, TensorProto.INT64)
        self._mask = writer.input(f"{prefix}mask", [1, 1, f"{prefix}length", f"{prefix}buffer"])

    @property
    def spec(self) -> StateSpec:
        return StateSpec(
            self._prefix, self._conv_shapes, tuple(self._layers), self._num_heads, self._head_dim
        )

    def extend(self, index: int, x: str, frames: int, channels: int) -> str:
        """x (G, T, C) -> (G, frames + T, C). index: of the convolution in its network."""
        assert index not in self._conv_shapes, f"two convolutions have the index {index}"
        self._conv_shapes[index] = (frames, channels)
        writer = self._writer
        shape: Shape = ["rows", frames, channels]
        left = writer.input(f"{self._prefix}conv_left_{index}", shape)
        extended = writer.node("Concat", left, x, axis=1)
        writer.output(f"{self._prefix}next_conv_left_{index}", writer.sliced(extended, -frames, None), shape)
        return extended

    def attend(self, layer: int, query: str, key: str, value: str, bias: str | None = None) -> str:
        """query, key, value (G, T, H D) -> (G, T, H D). layer: the attention's index in its network.

        bias (1, H, T, buffer): added to the scores as well.
        """
        assert layer not in self._layers, f"two attentions have the index {layer}"
        self._layers.append(layer)
        writer = self._writer
        shape: Shape = ["rows", self._num_heads, f"{self._prefix}buffer", self._head_dim]
        seen = []
        for what, made in (("keys", key), ("values", value)):
            heads = writer.node("Reshape", made, writer.integers(0, 0, self._num_heads, self._head_dim))
            heads = writer.node("Transpose", heads, perm=[0, 2, 1, 3])  # (G, H, T, D)
            buffer = writer.input(f"{self._prefix}{what}_{layer}", shape)
            seen.append(writer.node("ScatterND", buffer, self._scatter, heads))
            writer.output(f"{self._prefix}next_{what}_{layer}", seen[-1], shape)
        mask = self._mask if bias is None else writer.node("Add", bias, self._mask)
        return writer.node(
            "MultiHeadAttention", query, *seen, "", "", mask, domain=CONTRIB, num_heads=self._num_heads
        )
