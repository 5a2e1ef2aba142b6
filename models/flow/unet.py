"""The estimator of CosyVoice 2: a causal U-Net of one resolution (arXiv 2412.10117, section 2.4)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import UNetConfig
from models.flow.blocks import (
    CacheSizes,
    CausalConv1d,
    PointwiseConv1d,
    TimeEmbedding,
    TransformerBlock,
    left_values,
)
from models.memory import Memory

KERNEL_SIZE = 3


class CausalBlock(nn.Module):
    """Convolution, layer norm over channels, Mish."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = CausalConv1d(in_channels, out_channels, KERNEL_SIZE)
        self.norm = nn.LayerNorm(out_channels)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C_in) -> (B, T, C_out)."""
        return F.mish(self.norm(self.conv(x, memory)))


class CausalResnet(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, time_width: int):
        super().__init__()
        self.time = nn.Linear(time_width, out_channels)
        self.block1 = CausalBlock(in_channels, out_channels)
        self.block2 = CausalBlock(out_channels, out_channels)
        self.residual = PointwiseConv1d(in_channels, out_channels)

    def forward(self, x: Tensor, time: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C_in), time (B, C_time) after its activation -> (B, T, C_out)."""
        h = self.block1(x, memory) + self.time(time)[:, None]
        return self.block2(h, memory) + self.residual(x)


class CausalStage(nn.Module):
    """A resnet, transformer blocks and, at the ends of the U-Net, a convolution."""

    def __init__(self, config: UNetConfig, in_channels: int, has_conv: bool):
        super().__init__()
        width = config.channels[0]
        self.resnet = CausalResnet(in_channels, width, 4 * width)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, config.num_heads, config.head_dim) for _ in range(config.num_blocks)
        )
        self.conv = CausalConv1d(width, width, KERNEL_SIZE) if has_conv else None

    def forward(self, x: Tensor, time: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """x (B, T, C_in) -> the same after the blocks, and after the convolution (B, T, C)."""
        x = self.resnet(x, time, memory)
        for block in self.blocks:
            x = block(x, memory)
        return x, x if self.conv is None else self.conv(x, memory)


class CausalUNet(nn.Module):
    def __init__(self, config: UNetConfig):
        super().__init__()
        width = config.channels[0]
        self.config = config
        self.num_layers = config.num_blocks * (config.num_mid_blocks + 2)
        self.time = TimeEmbedding(config.in_channels, 4 * width)
        self.down = nn.ModuleList([CausalStage(config, config.in_channels, has_conv=True)])
        self.mid = nn.ModuleList(
            CausalStage(config, width, has_conv=False) for _ in range(config.num_mid_blocks)
        )
        self.up = nn.ModuleList([CausalStage(config, 2 * width, has_conv=True)])
        self.final = CausalBlock(width, width)
        self.out = PointwiseConv1d(width, config.out_channels)

    def cache_sizes(self) -> CacheSizes:
        inner = self.config.num_heads * self.config.head_dim
        return CacheSizes(values_per_frame=2 * inner * self.num_layers, left_values=left_values(self))

    def forward(self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, memory: Memory) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        time = F.mish(self.time(t))
        h = torch.cat([x.mT, mu.mT, spks[:, None].expand_as(x.mT), cond.mT], dim=2)  # (B, T, 4 M)
        skip, h = self.down[0](h, time, memory)
        for stage in self.mid:
            _, h = stage(h, time, memory)
        _, h = self.up[0](torch.cat([h, skip], dim=2), time, memory)
        return self.out(self.final(h, memory)).mT
