"""The estimator of CosyVoice 2 as a graph; its inputs and outputs: `models.fused.estimator`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, cat

from models.flow.blocks import Attention, CausalConv1d, GeluFeedForward, PointwiseConv1d, TransformerBlock
from models.flow.unet import KERNEL_SIZE, CausalBlock, CausalResnet, CausalStage, CausalUNet
from models.fused.activations import mish
from models.fused.children import each
from models.fused.estimator import EstimatorGraph
from models.fused.graph import CONTRIB, GraphWriter, Product
from models.fused.places import Places
from models.fused.products import float32

_LEFT_FRAMES = KERNEL_SIZE - 1


def unet_estimator(unet: CausalUNet, block_product: Product) -> EstimatorGraph:
    """block_product: of the transformer blocks, whose inputs are normed; convolutions stay float32."""
    writer = _UNetWriter(unet, block_product)
    return EstimatorGraph(
        model=writer.model(),
        inputs=("x", "mu", "spks", "cond"),
        kept=writer.places.kept,
        out_channels=unet.out.out_channels,
        times=_time_parts(unet),
        has_positions=False,
    )


def _time_parts(unet: CausalUNet) -> Callable[[float], Tensor]:
    """What each resnet adds at a time: (resnets, C)."""

    @torch.inference_mode()
    def parts(t: float) -> Tensor:
        time = F.mish(unet.time(torch.tensor([t])))
        return cat([part.time(time) for part in unet.modules() if isinstance(part, CausalResnet)])

    return parts


class _UNetWriter:
    def __init__(self, unet: CausalUNet, block_product: Product):
        self._unet, self._writer = unet, GraphWriter("unet", float32)
        self._block_product = block_product
        self.places = Places(self._writer, unet.config.num_heads, unet.config.head_dim)
        self._num_resnets = 0

    def model(self) -> bytes:
        unet, writer = self._unet, self._writer
        h = writer.input("h", ["rows", "length", unet.config.in_channels])
        self._times = writer.input("times", ["resnets", "channels"])
        (down,), mid, (up,) = (each(CausalStage, part) for part in (unet.down, unet.mid, unet.up))
        skip, h = self._stage(down, h)
        for stage in mid:
            _, h = self._stage(stage, h)
        _, h = self._stage(up, writer.node("Concat", h, skip, axis=2))
        velocity = self._pointwise(unet.out, self._block(unet.final, h))
        writer.output("velocity", velocity, ["rows", "length", unet.out.out_channels])
        return writer.model()

    def _stage(self, stage: CausalStage, x: str) -> tuple[str, str]:
        x = self._resnet(stage.resnet, x)
        writer = self._writer
        for block in each(TransformerBlock, stage.blocks):
            y = self._attention(block.attention, writer.layer_norm(block.attention_norm, x))
            x = writer.node("Add", x, y)
            y = self._feedforward(block.feedforward, writer.layer_norm(block.feedforward_norm, x))
            x = writer.node("Add", x, y)
        return x, x if stage.conv is None else self._conv(stage.conv, x)

    def _resnet(self, resnet: CausalResnet, x: str) -> str:
        writer = self._writer
        time = writer.node("Gather", self._times, writer.integers(self._num_resnets), axis=0)  # (1, C)
        self._num_resnets += 1
        h = self._block(resnet.block2, writer.node("Add", self._block(resnet.block1, x), time))
        return writer.node("Add", h, self._pointwise(resnet.residual, x))

    def _block(self, block: CausalBlock, x: str) -> str:
        return mish(self._writer, self._writer.layer_norm(block.norm, self._conv(block.conv, x)))

    def _conv(self, conv: CausalConv1d, x: str) -> str:
        extended = self.places.extend_left(x, _LEFT_FRAMES, conv.in_channels)
        return self._writer.windowed(conv, extended)

    def _attention(self, attention: Attention, x: str) -> str:
        writer = self._writer
        parts = (attention.query, attention.key, attention.value)
        bias = None if attention.query.bias is None else cat([part.bias for part in parts])
        stacked = writer.linear(x, cat([part.weight for part in parts]), bias, self._block_product)
        query, key, value = writer.nodes("Split", 3, stacked, axis=2)
        y = self.places.attend(query, key, value)
        return writer.linear(y, attention.out.weight, attention.out.bias, self._block_product)

    def _feedforward(self, feedforward: GeluFeedForward, x: str) -> str:
        writer, (up, down), product = self._writer, (feedforward.up, feedforward.down), self._block_product
        hidden = writer.node("Gelu", writer.linear(x, up.weight, up.bias, product), domain=CONTRIB)
        return writer.linear(hidden, down.weight, down.bias, product)

    def _pointwise(self, conv: PointwiseConv1d, x: str) -> str:
        weight: Tensor = conv.weight
        return self._writer.linear(x, weight[:, :, 0], conv.bias)
