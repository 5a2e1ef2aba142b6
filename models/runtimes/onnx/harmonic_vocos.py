"""The networks of Harmonic Vocos as ONNX graphs, with what each convolution keeps as inputs and outputs.

Inputs: mel (B, M, T); drop (1,), how many frames at the start of the first convolution's result are of no
frame; `left_i` (B, C, frames) of each convolution; of the filters condition (B, T', C) too. Outputs: result
(B, T', outputs), `next_i` like `left_i`.
"""

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from firstword.models.harmonic_vocos.network import REACH, Backbone, ConvNeXtBlock, HarmonicVocos, cosines
from firstword.models.hift.streaming import BatchedConvState
from firstword.models.onnx_graphs.graph import GraphWriter, Product, Shape, float32, int8_per_tensor
from firstword.models.onnx_graphs.session import OrtSession, each


class BackboneWriter:
    def __init__(self, backbone: Backbone, product: Product):
        self._backbone = backbone
        self._writer = GraphWriter("backbone", product)

    def model(self, has_condition: bool) -> bytes:
        """Write the whole graph."""
        backbone, writer = self._backbone, self._writer
        conv, head = backbone.conv_pre, backbone.head
        mel = writer.input("mel", ["rows", conv.in_channels, "frames"])
        drop = writer.input("drop", [1], TensorProto.INT64)
        x = self._swapped(self._extended(backbone.index, mel, 2 * backbone.lookahead, conv.in_channels))
        end = writer.integers(np.iinfo(np.int64).max)
        x = writer.node("Slice", writer.unfolded_conv(conv, x), drop, end, writer.integers(1))
        if has_condition:
            x = writer.node("Add", x, writer.input("condition", ["rows", "made", conv.out_channels]))
        for block in each(ConvNeXtBlock, backbone.blocks):
            x = writer.node("Add", x, self._branch(block, self._swapped(x)))
        result = writer.linear(writer.layer_norm(backbone.norm, x), head.weight, head.bias, float32)
        writer.output("result", result, ["rows", "made", head.out_features])
        return writer.model()

    def _branch(self, block: ConvNeXtBlock, x: str) -> str:
        """x (B, C, T) -> (B, T, C)."""
        writer, conv = self._writer, block.depthwise
        assert conv.bias is not None
        extended = self._extended(block.index, x, REACH, conv.in_channels)
        weights = writer.constant(conv.weight), writer.constant(conv.bias)
        y = writer.node("Conv", extended, *weights, kernel_shape=[*conv.kernel_size], group=conv.groups)
        y = writer.layer_norm(block.norm, self._swapped(y))
        y = writer.gelu(writer.linear(y, block.up.weight, block.up.bias))
        return writer.linear(y, block.down.weight, block.down.bias)

    def _extended(self, index: int, x: str, frames: int, channels: int) -> str:
        """x (B, C, T) -> (B, C, frames + T), with what came before in front."""
        writer = self._writer
        shape: Shape = ["rows", channels, frames]
        extended = writer.node("Concat", writer.input(f"left_{index}", shape), x, axis=2)
        writer.output(f"next_{index}", writer.sliced(extended, -frames, None, axis=2), shape)
        return extended

    def _swapped(self, x: str) -> str:
        return self._writer.node("Transpose", x, perm=[0, 2, 1])


class OnnxBackbone:
    """Runs a backbone's graph."""

    def __init__(self, backbone: Backbone, has_condition: bool, has_int8: bool, num_threads: int):
        """has_int8: for the products within blocks."""
        product = int8_per_tensor if has_int8 else float32
        model = BackboneWriter(backbone, product).model(has_condition)
        self._session = OrtSession(model, num_threads)
        self._rows = 1 if has_int8 else None  # in a run: 8 bits have one scale for all
        self._outputs = backbone.head.out_features
        self._lookahead = backbone.lookahead
        self._left = {backbone.index: (backbone.conv_pre.in_channels, 2 * backbone.lookahead)}
        for block in each(ConvNeXtBlock, backbone.blocks):
            self._left[block.index] = (block.depthwise.in_channels, REACH)

    def __call__(
        self, mel: Tensor, context: BatchedConvState, is_start: bool, condition: Tensor | None = None
    ) -> Tensor:
        """As `Backbone.forward`; condition (B, T', C)."""
        drop = self._lookahead if is_start else 0
        contexts = {
            index: mel.new_zeros(len(mel), *shape) if is_start else context.left(index)
            for index, shape in self._left.items()
        }
        nexts = {index: torch.empty_like(left) for index, left in contexts.items()}
        result = torch.empty(len(mel), mel.shape[-1] - drop, self._outputs)
        rows = self._rows or len(mel)
        for start in range(0, len(mel), rows):
            part = slice(start, start + rows)
            inputs = {"mel": mel[part].contiguous(), "drop": torch.tensor([drop])}
            inputs |= {f"left_{index}": left[part] for index, left in contexts.items()}
            if condition is not None:
                inputs["condition"] = condition[part].contiguous()
            outputs = {f"next_{index}": following[part] for index, following in nexts.items()}
            self._session.run(inputs, {"result": result[part], **outputs})
        for index, following in nexts.items():
            context.keep(index, following)
        return result


class OnnxHarmonicNetworks:
    """Runs both networks, as `firstword.models.harmonic_vocos.streaming.HarmonicNetworks`.

    The network gives up the weights of its filters; enrolment asks it for F0 still.
    """

    def __init__(self, vocos: HarmonicVocos, has_int8: bool, num_threads: int):
        """has_int8: for the products within the blocks of the filters; F0 is integrated and stays float32."""
        self._f0 = OnnxBackbone(vocos.f0_net, False, False, num_threads)
        self._filters = OnnxBackbone(vocos.filters_net, True, has_int8, num_threads)
        self._projection = vocos.f0_projection
        vocos.filters_net.to("meta")

    def pitch(self, mel: Tensor, context: BatchedConvState, is_start: bool) -> Tensor:
        return self._f0(mel, context, is_start)[..., 0].sigmoid()

    def filters(self, mel: Tensor, pitch: Tensor, context: BatchedConvState, is_start: bool) -> Tensor:
        return self._filters(mel, context, is_start, self._projection(cosines(pitch)))
