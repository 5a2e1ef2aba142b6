"""The estimator of CosyVoice 2: a causal U-Net of one resolution (arXiv 2412.10117, section 2.4)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import UNetConfig
from models.flow.blocks import CacheSizes, CausalConv1d, TimeEmbedding, TransformerBlock, left_values
from models.memory import Memory

KERNEL_SIZE = 3


class CausalBlock(nn.Module):
    """Convolution, layer norm over channels, Mish."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = CausalConv1d(in_channels, out_channels, KERNEL_SIZE)
        self.norm = nn.LayerNorm(out_channels)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, C_in, T) -> (B, C_out, T)."""
        return F.mish(self.norm(self.conv(x, memory).mT).mT)


class CausalResnet(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, time_width: int):
        super().__init__()
        self.time = nn.Linear(time_width, out_channels)
        self.block1 = CausalBlock(in_channels, out_channels)
        self.block2 = CausalBlock(out_channels, out_channels)
        self.residual = nn.Conv1d(in_channels, out_channels, 1)

    def forward(self, x: Tensor, time: Tensor, memory: Memory) -> Tensor:
        """x (B, C_in, T), time (B, C_time) after its activation -> (B, C_out, T)."""
        h = self.block1(x, memory) + self.time(time)[:, :, None]
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
        """x (B, C_in, T) -> the same after the blocks, and after the convolution (B, C, T)."""
        x = self.resnet(x, time, memory).mT
        for block in self.blocks:
            x = block(x, memory)
        x = x.mT
        return x, x if self.conv is None else self.conv(x, memory)


class CausalUNet(nn.Module):
    def __init__(self, config: UNetConfig):
        super().__init__()
        width = config.channels[0]
        self.num_layers = config.num_blocks * (config.num_mid_blocks + 2)
        self._inner = config.num_heads * config.head_dim
        self.time = TimeEmbedding(config.in_channels, 4 * width)
        self.down = nn.ModuleList([CausalStage(config, config.in_channels, has_conv=True)])
        self.mid = nn.ModuleList(
            CausalStage(config, width, has_conv=False) for _ in range(config.num_mid_blocks)
        )
        self.up = nn.ModuleList([CausalStage(config, 2 * width, has_conv=True)])
        self.final = CausalBlock(width, width)
        self.out = nn.Conv1d(width, config.out_channels, 1)

    def cache_sizes(self) -> CacheSizes:
        return CacheSizes(values_per_frame=2 * self._inner * self.num_layers, left_values=left_values(self))

    def forward(self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, memory: Memory) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        time = F.mish(self.time(t))
        h = torch.cat([x, mu, spks[:, :, None].expand_as(x), cond], dim=1)  # (B, 4 M, T)
        skip, h = self.down[0](h, time, memory)
        for stage in self.mid:
            _, h = stage(h, time, memory)
        _, h = self.up[0](torch.cat([h, skip], dim=1), time, memory)
        return self.out(self.final(h, memory))
