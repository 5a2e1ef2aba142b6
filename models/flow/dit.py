"""The estimator of CosyVoice 3: a diffusion transformer with adaptive layer norms."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import DiTConfig
from firstword.models.flow.kv_cache import ChunkKVCache, PagedKVCache
from firstword.models.layers import (
    AttentionContext,
    ConvContext,
    GeluFeedForward,
    NetworkContext,
    TimeEmbedding,
)

POSITION_KERNEL_SIZE = 31
POSITION_GROUPS = 16
SINUSOID_WIDTH = 256
NORM_EPS = 1e-6
ROTARY_BASE = 10_000.0


def rotary_table(positions: Tensor, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """positions (B, T) -> cosines and sines (B, T, head_dim / 2)."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    angles = positions.float()[..., None] / ROTARY_BASE**exponents
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate_first_head(x: Tensor, table: tuple[Tensor, Tensor], head_dim: int) -> Tensor:
    """x (B, T, C): its first `head_dim` channels turned in interleaved pairs.

    Published checkpoints were trained with the rotation applied before the split into heads, so only
    head 0 has positions.
    """
    cos, sin = table
    a, b = x[..., 0:head_dim:2], x[..., 1:head_dim:2]
    turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    return torch.cat([turned, x[..., head_dim:]], dim=-1)


class PositionConv(nn.Module):
    """Two grouped causal convolutions that tell a frame where it stands."""

    def __init__(self, width: int):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, POSITION_KERNEL_SIZE, groups=POSITION_GROUPS)
        self.conv2 = nn.Conv1d(width, width, POSITION_KERNEL_SIZE, groups=POSITION_GROUPS)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        y = x.mT
        for index, conv in enumerate((self.conv1, self.conv2)):
            y = F.mish(conv(context.extend(index, y, POSITION_KERNEL_SIZE - 1)))
        return y.mT


class InputProjection(nn.Module):
    def __init__(self, config: DiTConfig):
        super().__init__()
        self.linear = nn.Linear(4 * config.num_mels, config.dim)
        self.position = PositionConv(config.dim)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, T, 4 M) -> (B, T, C)."""
        x = self.linear(x)
        return x + self.position(x, context)


class RotaryAttention(nn.Module):
    def __init__(self, config: DiTConfig, layer: int):
        super().__init__()
        self.layer = layer
        inner = config.num_heads * config.head_dim
        self._num_heads, self._head_dim = config.num_heads, config.head_dim
        self.query = nn.Linear(config.dim, inner)
        self.key = nn.Linear(config.dim, inner)
        self.value = nn.Linear(config.dim, inner)
        self.out = nn.Linear(inner, config.dim)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        q = rotate_first_head(self.query(x), table, self._head_dim)
        k = rotate_first_head(self.key(x), table, self._head_dim)
        y = context.attend(self.layer, self._heads(q), self._heads(k), self._heads(self.value(x)))
        return self.out(y.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self._num_heads, -1)).transpose(1, 2)  # (B, H, T, D)


class DiTBlock(nn.Module):
    def __init__(self, config: DiTConfig, layer: int):
        super().__init__()
        self.modulation = nn.Linear(config.dim, 6 * config.dim)
        self.attention = RotaryAttention(config, layer)
        self.feedforward = GeluFeedForward(
            config.dim, config.feedforward_mult * config.dim, has_tanh_gelu=True
        )

    def forward(
        self, x: Tensor, time: Tensor, table: tuple[Tensor, Tensor], context: AttentionContext
    ) -> Tensor:
        """x (B, T, C), time (B, C) after its activation -> (B, T, C)."""
        modulation = self.modulation(time)[:, None].chunk(6, dim=-1)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation  # (B, 1, C) each
        x = x + gate_a * self.attention(modulated_norm(x, shift_a, scale_a), table, context)
        return x + gate_m * self.feedforward(modulated_norm(x, shift_m, scale_m))


def modulated_norm(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS) * (1 + scale) + shift


class DiT(nn.Module):
    cache_class: ClassVar[type[ChunkKVCache]] = PagedKVCache

    def __init__(self, config: DiTConfig):
        super().__init__()
        self.config = config
        self.num_layers = config.depth
        self._head_dim = config.head_dim
        self.time = TimeEmbedding(SINUSOID_WIDTH, config.dim)
        self.input = InputProjection(config)
        self.blocks = nn.ModuleList(DiTBlock(config, layer) for layer in range(config.depth))
        self.modulation = nn.Linear(config.dim, 2 * config.dim)
        self.out = nn.Linear(config.dim, config.num_mels)

    def forward(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: NetworkContext
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        time = F.silu(self.time(t))
        h = torch.cat([x, cond, mu, spks[:, :, None].expand_as(x)], dim=1).mT  # (B, T, 4 M)
        h = self.input(h, context)
        table = rotary_table(context.positions(h.shape[1], h.device), self._head_dim, h.dtype)
        for block in self.blocks:
            h = block(h, time, table, context)
        scale, shift = self.modulation(time)[:, None].chunk(2, dim=-1)
        return self.out(modulated_norm(h, shift, scale)).mT
