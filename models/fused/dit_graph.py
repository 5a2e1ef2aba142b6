"""The estimator of CosyVoice 3 as a graph; its inputs and outputs: `models.fused.estimator`.

All that the time decides is `times` (parts, C): of each block the shift, scale and gate of its attention
and of its feed-forward, at the end the last norm's shift and scale; a scale has its 1 added.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, cat

from models.flow.blocks import GeluFeedForward
from models.flow.dit import NORM_EPS, POSITION_KERNEL_SIZE, DiT, DiTBlock, RotaryAttention
from models.fused.activations import mish
from models.fused.children import each
from models.fused.estimator import EstimatorGraph
from models.fused.graph import CONTRIB, GraphWriter, Product
from models.fused.places import Places
from models.fused.products import float32

_BLOCK_PARTS = 6
_LAST_PARTS = 2


def dit_estimator(dit: DiT, block_product: Product) -> EstimatorGraph:
    """block_product: of the blocks, whose inputs are normed; what is before and behind them is float32."""
    writer = _DiTWriter(dit, block_product)
    return EstimatorGraph(
        model=writer.model(),
        inputs=("x", "cond", "mu", "spks"),
        kept=writer.places.kept,
        out_channels=dit.out.out_features,
        times=_time_parts(dit),
        has_positions=True,
    )


def _time_parts(dit: DiT) -> Callable[[float], Tensor]:
    @torch.inference_mode()
    def parts(t: float) -> Tensor:
        time = F.silu(dit.time(torch.tensor([t])))
        rows = [block.modulation(time).view(_BLOCK_PARTS, -1) for block in each(DiTBlock, dit.blocks)]
        for block in rows:
            block[1::3] += 1
        scale, shift = dit.modulation(time).view(_LAST_PARTS, -1)
        return cat([*rows, torch.stack([shift, scale + 1])])

    return parts


class _DiTWriter:
    def __init__(self, dit: DiT, block_product: Product):
        self._dit, self._writer = dit, GraphWriter("dit", float32)
        self._block_product = block_product
        self.places = Places(self._writer, dit.config.num_heads, dit.config.head_dim)

    def model(self) -> bytes:
        dit, writer = self._dit, self._writer
        blocks = each(DiTBlock, dit.blocks)
        width = dit.config.dim
        x = writer.input("h", ["rows", "length", dit.input.linear.in_features])
        count = _BLOCK_PARTS * len(blocks) + _LAST_PARTS
        times = writer.nodes("Split", count, writer.input("times", [count, width]), axis=0)  # (1, C) each
        times = [writer.node("Reshape", part, writer.integers(width)) for part in times]
        half = dit.config.head_dim // 2
        self._rotation = [writer.input(name, ["length", half]) for name in ("cos", "sin")]
        x = writer.linear(x, dit.input.linear.weight, dit.input.linear.bias)
        x = writer.node("Add", x, self._position(x))
        for index, block in enumerate(blocks):
            x = self._block(block, x, times[_BLOCK_PARTS * index :][:_BLOCK_PARTS])
        shift, scale = times[-_LAST_PARTS:]
        velocity = writer.linear(self._norm(x, shift, scale), dit.out.weight, dit.out.bias)
        writer.output("velocity", velocity, ["rows", "length", dit.out.out_features])
        return writer.model()

    def _position(self, x: str) -> str:
        writer = self._writer
        for conv in (self._dit.input.position.conv1, self._dit.input.position.conv2):
            assert conv.bias is not None
            extended = self.places.extend_left(x, POSITION_KERNEL_SIZE - 1, conv.in_channels)
            y = writer.node(
                "Conv",
                writer.node("Transpose", extended, perm=[0, 2, 1]),
                writer.constant(conv.weight),
                writer.constant(conv.bias),
                kernel_shape=[POSITION_KERNEL_SIZE],
                group=conv.groups,
            )
            x = mish(writer, writer.node("Transpose", y, perm=[0, 2, 1]))
        return x

    def _block(self, block: DiTBlock, x: str, times: list[str]) -> str:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = times
        y = self._attention(block.attention, self._norm(x, shift_a, scale_a))
        x = self._writer.node("Add", x, self._writer.node("Mul", y, gate_a))
        y = self._feedforward(block.feedforward, self._norm(x, shift_m, scale_m))
        return self._writer.node("Add", x, self._writer.node("Mul", y, gate_m))

    def _attention(self, attention: RotaryAttention, x: str) -> str:
        """Head 0 alone is turned: of query and key together it comes first out of the product."""
        writer, config = self._writer, self._dit.config
        size, rest = config.head_dim, (config.num_heads - 1) * config.head_dim
        parts = (attention.query, attention.key, attention.value)
        order = [(0, slice(size)), (1, slice(size)), (0, slice(size, None)), (1, slice(size, None))]
        order.append((2, slice(None)))
        weight = cat([parts[part].weight[rows] for part, rows in order])
        bias = cat([parts[part].bias[rows] for part, rows in order])
        stacked = writer.linear(x, weight, bias, self._block_product)
        sizes = writer.integers(2 * size, rest, rest, rest + size)
        first, query, key, value = writer.nodes("Split", 4, stacked, sizes, axis=2)
        turned = writer.node(
            "RotaryEmbedding",
            first,
            writer.integers(0),
            *self._rotation,
            domain=CONTRIB,
            interleaved=1,
            num_heads=2,
            rotary_embedding_dim=0,
        )
        firsts = writer.nodes("Split", 2, turned, axis=2)
        query, key = (
            writer.node("Concat", one, other, axis=2) for one, other in zip(firsts, (query, key), strict=True)
        )
        y = self.places.attend(query, key, value)
        return writer.linear(y, attention.out.weight, attention.out.bias, self._block_product)

    def _feedforward(self, feedforward: GeluFeedForward, x: str) -> str:
        writer, (up, down), product = self._writer, (feedforward.up, feedforward.down), self._block_product
        hidden = writer.linear(x, up.weight, None, product)
        hidden = writer.node("FastGelu", hidden, writer.constant(up.bias), domain=CONTRIB)
        return writer.linear(hidden, down.weight, down.bias, product)

    def _norm(self, x: str, shift: str, scale: str) -> str:
        return self._writer.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=NORM_EPS)
