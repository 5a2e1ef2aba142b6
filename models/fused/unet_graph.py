"""The estimator of CosyVoice 2 as one graph: a pass over one chunk of one stream.

Inputs: h (G, T, 4 M), the estimator's stacked inputs; times (resnets, C), the time's part of each resnet; for
each convolution left_i (G, 2, C); for each attention past_keys_i and past_values_i (G, H, past, D), what is
seen before the chunk. Outputs: velocity (G, T, M), next_left_i, and keys_i and values_i (G, H, T, D) of the
chunk. Convolutions and attentions are numbered as the network's own `forward` asks for them.
"""

import numpy as np
from torch import Tensor, cat, nn

from models.flow.blocks import Attention, CausalConv1d, GeluFeedForward, PointwiseConv1d, TransformerBlock
from models.flow.unet import KERNEL_SIZE, CausalBlock, CausalResnet, CausalStage, CausalUNet
from models.fused.children import each
from models.fused.graph import CONTRIB, GraphWriter, Product, Shape
from models.fused.products import float32

LEFT_FRAMES = KERNEL_SIZE - 1
_MISH_LIMIT = 20.0  # where mish(x) is x in float32, and exp(x) squared still a number


def unet_graph(unet: CausalUNet, block_product: Product) -> bytes:
    """block_product: of the transformer blocks, whose inputs are normed; convolutions stay float32."""
    return _UNetWriter(unet, block_product).model()


class _UNetWriter:
    def __init__(self, unet: CausalUNet, block_product: Product):
        self._unet, self._writer = unet, GraphWriter("unet", float32)
        self._block_product = block_product
        self._num_convs = self._num_attentions = self._num_resnets = 0

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
        for block in each(TransformerBlock, stage.blocks):
            x = self._writer.node(
                "Add", x, self._attention(block.attention, self._norm(block.attention_norm, x))
            )
            x = self._writer.node(
                "Add", x, self._feedforward(block.feedforward, self._norm(block.feedforward_norm, x))
            )
        return x, x if stage.conv is None else self._conv(stage.conv, x)

    def _resnet(self, resnet: CausalResnet, x: str) -> str:
        writer = self._writer
        time = writer.node("Gather", self._times, writer.integers(self._num_resnets), axis=0)  # (1, C)
        self._num_resnets += 1
        h = self._block(resnet.block2, writer.node("Add", self._block(resnet.block1, x), time))
        return writer.node("Add", h, self._pointwise(resnet.residual, x))

    def _block(self, block: CausalBlock, x: str) -> str:
        return self._mish(self._norm(block.norm, self._conv(block.conv, x)))

    def _conv(self, conv: CausalConv1d, x: str) -> str:
        """As one product of windows; the weights are ordered as those lie, by place and then by channel."""
        writer, index = self._writer, self._num_convs
        self._num_convs += 1
        shape: Shape = ["rows", LEFT_FRAMES, conv.in_channels]
        extended = writer.node("Concat", writer.input(f"left_{index}", shape), x, axis=1)
        places = [self._frames(extended, start, start - LEFT_FRAMES) for start in range(KERNEL_SIZE)]
        writer.output(f"next_left_{index}", self._frames(extended, -LEFT_FRAMES, 0), shape)
        weight = conv.weight.transpose(1, 2).flatten(1)
        return writer.linear(writer.node("Concat", *places, axis=2), weight, conv.bias)

    def _frames(self, x: str, start: int, stop: int) -> str:
        """Frames [start, stop) of x (G, T, C); stop is counted from the end."""
        writer = self._writer
        end = stop if stop < 0 else np.iinfo(np.int64).max
        return writer.node("Slice", x, *map(writer.integers, (start, end, 1)))

    def _attention(self, attention: Attention, x: str) -> str:
        writer, index, num_heads = self._writer, self._num_attentions, attention.num_heads
        self._num_attentions += 1
        parts = (attention.query, attention.key, attention.value)
        bias = None if attention.query.bias is None else cat([part.bias for part in parts])
        stacked = writer.linear(x, cat([part.weight for part in parts]), bias, self._block_product)
        query, *made = writer.nodes("Split", 3, stacked, axis=2)
        seen = []
        for what, value in zip(("keys", "values"), made, strict=True):
            heads = writer.node("Reshape", value, writer.integers(0, 0, num_heads, -1))
            heads = writer.node("Transpose", heads, perm=[0, 2, 1, 3])  # (G, H, T, D)
            size = attention.query.out_features // num_heads
            writer.output(f"{what}_{index}", heads, ["rows", num_heads, "length", size])
            past_shape: Shape = ["rows", num_heads, "past", size]
            past = writer.input(f"past_{what}_{index}", past_shape)
            seen.append(writer.node("Concat", past, heads, axis=2))
        y = writer.node("MultiHeadAttention", query, *seen, domain=CONTRIB, num_heads=num_heads)
        return writer.linear(y, attention.out.weight, attention.out.bias, self._block_product)

    def _feedforward(self, feedforward: GeluFeedForward, x: str) -> str:
        writer, (up, down), product = self._writer, (feedforward.up, feedforward.down), self._block_product
        hidden = writer.node("Gelu", writer.linear(x, up.weight, up.bias, product), domain=CONTRIB)
        return writer.linear(hidden, down.weight, down.bias, product)

    def _pointwise(self, conv: PointwiseConv1d, x: str) -> str:
        weight: Tensor = conv.weight
        return self._writer.linear(x, weight[:, :, 0], conv.bias)

    def _norm(self, norm: nn.LayerNorm, x: str) -> str:
        writer = self._writer
        weights = writer.constant(norm.weight), writer.constant(norm.bias)
        return writer.node("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)

    def _mish(self, x: str) -> str:
        """x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2)."""
        writer, two = self._writer, self._writer.constant(np.array(2, np.float32))
        limit = writer.constant(np.array(_MISH_LIMIT, np.float32))
        exponential = writer.node("Exp", writer.node("Min", x, limit))
        n = writer.node("Mul", exponential, writer.node("Add", exponential, two))
        return writer.node("Mul", x, writer.node("Div", n, writer.node("Add", n, two)))
