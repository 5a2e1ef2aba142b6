"""The estimator of CosyVoice 2, a causal U-Net of one resolution (arXiv 2412.10117, section 2.4)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import UNetConfig
from firstword.models.flow.kv_cache import ChunkKVCache, PagedKVCache
from firstword.models.layers import (
    AttentionContext,
    ConvContext,
    GeluFeedForward,
    NetworkContext,
    TimeEmbedding,
)


class CausalConv1d(nn.Conv1d):
    """A convolution that never looks ahead; the context holds what came before the given frames.

    Time comes before channels, as the layers between the convolutions want it. A chunk is short, so one
    product of the unfolded input (im2col) is faster than a convolution, which first reorders its weights
    each time; the gradient of unfolding is slow, so training convolves.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, index: int):
        super().__init__(in_channels, out_channels, kernel)
        self.index = index

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:  # type: ignore[override]
        """x (B, T, C_in) -> (B, T, C_out)."""
        kernel = self.kernel_size[0]
        x = context.extend(self.index, x, kernel - 1, dim=1)
        if torch.is_grad_enabled():
            return super().forward(x.mT).mT
        unfolded = x.unfold(1, kernel, 1).flatten(2)  # (B, T, C_in K)
        return F.linear(unfolded, self.weight.flatten(1), self.bias)


class PointwiseConv1d(nn.Conv1d):
    """A convolution over one frame, time before channels."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C_in) -> (B, T, C_out)."""
        return F.linear(x, self.weight[:, :, 0], self.bias)


class Attention(nn.Module):
    """Multi-head attention without positions; `width` -> heads x head_dim -> `width`."""

    def __init__(self, width: int, num_heads: int, head_dim: int, has_bias: bool, layer: int):
        super().__init__()
        self.layer = layer
        self.num_heads = num_heads
        self.query = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.key = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.value = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.out = nn.Linear(num_heads * head_dim, width)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        parts = (part(x) for part in (self.query, self.key, self.value))
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)  # (B, H, T, D)
        return self.out(context.attend(self.layer, q, k, v).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Pre-norm attention and feed-forward of the U-Nets."""

    def __init__(self, width: int, num_heads: int, head_dim: int, layer: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, num_heads, head_dim, has_bias=False, layer=layer)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = GeluFeedForward(width, 4 * width, has_tanh_gelu=False)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        x = x + self.attention(self.attention_norm(x), context)
        return x + self.feedforward(self.feedforward_norm(x))


@dataclass(frozen=True, slots=True)
class SlotIndices:
    """Gives out the cache slots of a network while it is built, one to each attention and convolution."""

    layers: Iterator[int] = field(default_factory=count)
    convs: Iterator[int] = field(default_factory=count)


KERNEL_SIZE = 3


class CausalBlock(nn.Module):
    """Convolution, layer norm over channels, Mish."""

    def __init__(self, in_channels: int, out_channels: int, index: int):
        super().__init__()
        self.conv = CausalConv1d(in_channels, out_channels, KERNEL_SIZE, index)
        self.norm = nn.LayerNorm(out_channels)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, T, C_in) -> (B, T, C_out)."""
        return F.mish(self.norm(self.conv(x, context)))


class CausalResnet(nn.Module):
    def __init__(
        self, in_channels: int, out_channels: int, time_width: int, index: int, convs: Iterator[int]
    ):
        super().__init__()
        self.index = index
        self.time = nn.Linear(time_width, out_channels)
        self.block1 = CausalBlock(in_channels, out_channels, next(convs))
        self.block2 = CausalBlock(out_channels, out_channels, next(convs))
        self.residual = PointwiseConv1d(in_channels, out_channels)

    def forward(self, x: Tensor, time: Tensor, context: ConvContext) -> Tensor:
        """x (B, T, C_in), time (B, C_time) after its activation -> (B, T, C_out)."""
        h = self.block1(x, context) + self.time(time)[:, None]
        return self.block2(h, context) + self.residual(x)


class CausalStage(nn.Module):
    """A resnet, transformer blocks and, at the ends of the U-Net, a convolution."""

    def __init__(self, config: UNetConfig, index: int, in_channels: int, has_conv: bool, slots: SlotIndices):
        super().__init__()
        width = config.channels[0]
        self.resnet = CausalResnet(in_channels, width, 4 * width, index, slots.convs)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, config.num_heads, config.head_dim, next(slots.layers))
            for _ in range(config.num_blocks)
        )
        self.conv = CausalConv1d(width, width, KERNEL_SIZE, next(slots.convs)) if has_conv else None

    def forward(self, x: Tensor, time: Tensor, context: NetworkContext) -> tuple[Tensor, Tensor]:
        """x (B, T, C_in) -> the same after the blocks, and after the convolution (B, T, C)."""
        x = self.resnet(x, time, context)
        for block in self.blocks:
            x = block(x, context)
        return x, x if self.conv is None else self.conv(x, context)


class CausalUNet(nn.Module):
    cache_class: ClassVar[type[ChunkKVCache]] = PagedKVCache

    def __init__(self, config: UNetConfig):
        super().__init__()
        width, num_mid = config.channels[0], config.num_mid_blocks
        slots = SlotIndices()
        self.config = config
        self.num_layers = config.num_blocks * (config.num_mid_blocks + 2)
        self.time = TimeEmbedding(config.in_channels, 4 * width)
        self.down = nn.ModuleList([CausalStage(config, 0, config.in_channels, True, slots)])
        self.mid = nn.ModuleList(
            CausalStage(config, 1 + index, width, False, slots) for index in range(num_mid)
        )
        self.up = nn.ModuleList([CausalStage(config, 1 + num_mid, 2 * width, True, slots)])
        self.final = CausalBlock(width, width, next(slots.convs))
        self.out = PointwiseConv1d(width, config.out_channels)

    def forward(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: NetworkContext
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        time = F.mish(self.time(t))
        h = torch.cat([x.mT, mu.mT, spks[:, None].expand_as(x.mT), cond.mT], dim=2)  # (B, T, 4 M)
        skip, h = self.down[0](h, time, context)
        for stage in self.mid:
            _, h = stage(h, time, context)
        _, h = self.up[0](torch.cat([h, skip], dim=2), time, context)
        return self.out(self.final(h, context)).mT
