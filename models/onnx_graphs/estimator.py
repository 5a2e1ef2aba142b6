"""Writes the estimators of CosyVoice 2 (U-Net) and 3 (DiT) into ONNX graphs.

What depends on the solver's time alone is computed once and given as the input `times`. The U-Net's: what
each resnet adds (resnets, C). The DiT's: of each block the shift, scale and gate of its attention and of its
feed-forward, at the end the last norm's shift and scale (parts, C); a scale has its 1 added.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, cat, nn

from firstword.models.flow.dit import NORM_EPS, POSITION_KERNEL_SIZE, DiT, DiTBlock, RotaryAttention
from firstword.models.flow.unet import (
    KERNEL_SIZE,
    Attention,
    CausalBlock,
    CausalConv1d,
    CausalResnet,
    CausalStage,
    CausalUNet,
    PointwiseConv1d,
    TransformerBlock,
)
from firstword.models.layers import GeluFeedForward
from firstword.models.onnx_graphs.graph import GraphWriter, Product
from firstword.models.onnx_graphs.session import each

_LEFT_FRAMES = KERNEL_SIZE - 1

STACKED: dict[type[nn.Module], tuple[str, str, str, str]] = {
    CausalUNet: ("x", "mu", "spks", "cond"),
    DiT: ("x", "cond", "mu", "spks"),
}
"""What an estimator's h is stacked of, in this order."""

_BLOCK_PARTS = 6
_LAST_PARTS = 2


def resnets_of(unet: CausalUNet) -> list[CausalResnet]:
    """By their index."""
    resnets = [part for part in unet.modules() if isinstance(part, CausalResnet)]
    resnets.sort(key=lambda resnet: resnet.index)
    assert [resnet.index for resnet in resnets] == list(range(len(resnets))), "an index is taken twice"
    return resnets


def num_times(estimator: CausalUNet | DiT) -> int:
    """Rows of `times`."""
    if isinstance(estimator, CausalUNet):
        return len(resnets_of(estimator))
    return _BLOCK_PARTS * estimator.config.depth + _LAST_PARTS


@torch.inference_mode()
def estimator_times(estimator: CausalUNet | DiT, t: float) -> Tensor:
    """Return what depends on the time alone: (parts, C), on the estimator's device."""
    time = estimator.time(torch.tensor([t], device=estimator.out.weight.device))
    if isinstance(estimator, CausalUNet):
        return cat([resnet.time(F.mish(time)) for resnet in resnets_of(estimator)])
    time = F.silu(time)
    rows = [block.modulation(time).view(_BLOCK_PARTS, -1) for block in each(DiTBlock, estimator.blocks)]
    for block in rows:
        block[1::3] += 1
    scale, shift = estimator.modulation(time).view(_LAST_PARTS, -1)
    return cat([*rows, torch.stack([shift, scale + 1])])


class StateWriter(Protocol):
    """Writes what a network sees beside the frames it is given."""

    def extend(self, index: int, x: str, frames: int, channels: int) -> str:
        """x (G, T, C) -> (G, frames + T, C). index: of the convolution in its network."""
        ...

    def attend(self, layer: int, query: str, key: str, value: str) -> str:
        """query, key, value (G, T, H D) -> (G, T, H D). layer: the attention's index in its network."""
        ...


class _EstimatorWriter:
    """What both estimators' graphs have: a state, and transformer blocks in `block_product`."""

    def __init__(self, writer: GraphWriter, state: StateWriter, block_product: Product):
        self._writer, self._state, self._block_product = writer, state, block_product

    def _block_linear(self, x: str, weight: Tensor, bias: Tensor | None) -> str:
        return self._writer.linear(x, weight, bias, self._block_product)

    def _attended(self, attention: Attention | RotaryAttention, query: str, key: str, value: str) -> str:
        """query, key, value (G, T, H D) -> (G, T, C)."""
        y = self._state.attend(attention.layer, query, key, value)
        return self._block_linear(y, attention.out.weight, attention.out.bias)

    def _feedforward(self, feedforward: GeluFeedForward, x: str) -> str:
        writer, up, down = self._writer, feedforward.up, feedforward.down
        if feedforward.has_tanh_gelu:
            hidden = writer.tanh_gelu(self._block_linear(x, up.weight, None), up.bias)
        else:
            hidden = writer.gelu(self._block_linear(x, up.weight, up.bias))
        return self._block_linear(hidden, down.weight, down.bias)


class UNetWriter(_EstimatorWriter):
    def __init__(self, unet: CausalUNet, writer: GraphWriter, state: StateWriter, block_product: Product):
        super().__init__(writer, state, block_product)
        self._unet = unet

    def velocity(self, h: str, times: Sequence[str]) -> str:
        """h (G, T, 4 M), what each resnet adds (..., C) -> (G, T, M)."""
        unet = self._unet
        (down,), mid, (up,) = (each(CausalStage, part) for part in (unet.down, unet.mid, unet.up))
        skip, h = self._stage(down, h, times)
        for stage in mid:
            _, h = self._stage(stage, h, times)
        _, h = self._stage(up, self._writer.node("Concat", h, skip, axis=2), times)
        return self._pointwise(unet.out, self._block(unet.final, h))

    def _stage(self, stage: CausalStage, x: str, times: Sequence[str]) -> tuple[str, str]:
        writer, resnet = self._writer, stage.resnet
        h = writer.node("Add", self._block(resnet.block1, x), times[resnet.index])
        h = self._block(resnet.block2, h)
        x = writer.node("Add", h, self._pointwise(resnet.residual, x))
        for block in each(TransformerBlock, stage.blocks):
            y = self._attention(block.attention, writer.layer_norm(block.attention_norm, x))
            x = writer.node("Add", x, y)
            y = self._feedforward(block.feedforward, writer.layer_norm(block.feedforward_norm, x))
            x = writer.node("Add", x, y)
        return x, x if stage.conv is None else self._conv(stage.conv, x)

    def _block(self, block: CausalBlock, x: str) -> str:
        return self._writer.mish(self._writer.layer_norm(block.norm, self._conv(block.conv, x)))

    def _conv(self, conv: CausalConv1d, x: str) -> str:
        extended = self._state.extend(conv.index, x, _LEFT_FRAMES, conv.in_channels)
        return self._writer.unfolded_conv(conv, extended)

    def _attention(self, attention: Attention, x: str) -> str:
        parts = (attention.query, attention.key, attention.value)
        bias = None if attention.query.bias is None else cat([part.bias for part in parts])
        stacked = self._block_linear(x, cat([part.weight for part in parts]), bias)
        return self._attended(attention, *self._writer.nodes("Split", 3, stacked, axis=2))

    def _pointwise(self, conv: PointwiseConv1d, x: str) -> str:
        weight: Tensor = conv.weight
        return self._writer.linear(x, weight[:, :, 0], conv.bias)


class DiTWriter(_EstimatorWriter):
    """rotation: cosines and sines (T, D / 2) of where the frames stand."""

    def __init__(
        self,
        dit: DiT,
        writer: GraphWriter,
        state: StateWriter,
        block_product: Product,
        rotation: tuple[str, str],
    ):
        super().__init__(writer, state, block_product)
        self._dit, self._rotation = dit, rotation

    def velocity(self, h: str, times: Sequence[str]) -> str:
        """h (G, T, 4 M), the parts of `estimator_times` (..., C) each -> (G, T, M)."""
        dit, writer = self._dit, self._writer
        x = writer.linear(h, dit.input.linear.weight, dit.input.linear.bias)
        x = writer.node("Add", x, self._position(x))
        for index, block in enumerate(each(DiTBlock, dit.blocks)):
            x = self._block(block, x, times[_BLOCK_PARTS * index :][:_BLOCK_PARTS])
        shift, scale = times[-_LAST_PARTS:]
        return writer.linear(self._norm(x, shift, scale), dit.out.weight, dit.out.bias)

    def _position(self, x: str) -> str:
        writer = self._writer
        position = self._dit.input.position
        for index, conv in enumerate((position.conv1, position.conv2)):
            assert conv.bias is not None
            extended = self._state.extend(index, x, POSITION_KERNEL_SIZE - 1, conv.in_channels)
            y = writer.node(
                "Conv",
                writer.node("Transpose", extended, perm=[0, 2, 1]),
                writer.constant(conv.weight),
                writer.constant(conv.bias),
                kernel_shape=[POSITION_KERNEL_SIZE],
                group=conv.groups,
            )
            x = writer.mish(writer.node("Transpose", y, perm=[0, 2, 1]))
        return x

    def _block(self, block: DiTBlock, x: str, times: Sequence[str]) -> str:
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
        stacked = self._block_linear(x, weight, bias)
        sizes = writer.integers(2 * size, rest, rest, rest + size)
        first, query, key, value = writer.nodes("Split", 4, stacked, sizes, axis=2)
        firsts = writer.nodes("Split", 2, writer.turned(first, *self._rotation), axis=2)
        query, key = (
            writer.node("Concat", one, other, axis=2) for one, other in zip(firsts, (query, key), strict=True)
        )
        return self._attended(attention, query, key, value)

    def _norm(self, x: str, shift: str, scale: str) -> str:
        return self._writer.scaled_norm(x, scale, shift, self._dit.config.dim, NORM_EPS)
