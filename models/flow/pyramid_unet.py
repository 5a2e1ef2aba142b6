"""The estimator of CosyVoice 1: a U-Net whose inner levels run at half the frame rate; it sees all frames."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import UNetConfig
from models.flow.blocks import TimeEmbedding, TransformerBlock
from models.memory import WholeMemory

NUM_NORM_GROUPS = 8


class Block(nn.Module):
    """Convolution, group norm, Mish; padding is zero before and after."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.GroupNorm(NUM_NORM_GROUPS, out_channels)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, C_in, T), mask (B, 1, T) -> (B, C_out, T)."""
        return F.mish(self.norm(self.conv(x * mask))) * mask


class Resnet(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, time_width: int):
        super().__init__()
        self.time = nn.Linear(time_width, out_channels)
        self.block1 = Block(in_channels, out_channels)
        self.block2 = Block(out_channels, out_channels)
        self.residual = nn.Conv1d(in_channels, out_channels, 1)

    def forward(self, x: Tensor, time: Tensor, mask: Tensor) -> Tensor:
        """x (B, C_in, T), time (B, C_time) after its activation, mask (B, 1, T) -> (B, C_out, T)."""
        h = self.block1(x, mask) + self.time(time)[:, :, None]
        return self.block2(h, mask) + self.residual(x * mask)


class Stage(nn.Module):
    """A resnet, transformer blocks, and the convolution that leaves the level, if any."""

    def __init__(self, config: UNetConfig, in_channels: int, out_channels: int, conv: nn.Module | None):
        super().__init__()
        self.resnet = Resnet(in_channels, out_channels, 4 * config.channels[0])
        self.blocks = nn.ModuleList(
            TransformerBlock(out_channels, config.num_heads, config.head_dim)
            for _ in range(config.num_blocks)
        )
        self.conv = conv

    def forward(self, x: Tensor, time: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, C_in, T), mask (B, 1, T) -> (B, C, T) before the convolution, and after it (its own rate)."""
        x = self.resnet(x, time, mask).mT
        memory = WholeMemory(mask[:, :, None, :] > 0)
        for block in self.blocks:
            x = block(x, memory)
        x = x.mT
        return x, x if self.conv is None else self.conv(x * mask)


class PyramidUNet(nn.Module):
    def __init__(self, config: UNetConfig):
        super().__init__()
        outer, inner = config.channels
        self.time = TimeEmbedding(config.in_channels, 4 * outer)
        self.down = nn.ModuleList(
            [
                Stage(config, config.in_channels, outer, nn.Conv1d(outer, outer, 3, stride=2, padding=1)),
                Stage(config, outer, inner, nn.Conv1d(inner, inner, 3, padding=1)),
            ]
        )
        self.mid = nn.ModuleList(Stage(config, inner, inner, None) for _ in range(config.num_mid_blocks))
        self.up = nn.ModuleList(
            [
                Stage(config, 2 * inner, outer, nn.ConvTranspose1d(outer, outer, 4, stride=2, padding=1)),
                Stage(config, 2 * outer, outer, nn.Conv1d(outer, outer, 3, padding=1)),
            ]
        )
        self.final = Block(outer, outer)
        self.out = nn.Conv1d(outer, config.out_channels, 1)

    def forward(self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, mask: Tensor) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M), mask (B, 1, T) -> velocity (B, M, T)."""
        time = F.mish(self.time(t))
        h = torch.cat([x, mu, spks[:, :, None].expand_as(x), cond], dim=1)  # (B, 4 M, T)
        half_mask = mask[:, :, ::2]
        skip_outer, h = self.down[0](h, time, mask)  # (B, C, T), (B, C, ceil(T / 2))
        skip_inner, h = self.down[1](h, time, half_mask)
        for stage in self.mid:
            _, h = stage(h, time, half_mask)
        _, h = self.up[0](torch.cat([h, skip_inner], dim=1), time, half_mask)
        h = h[:, :, : skip_outer.shape[-1]]  # one frame too many for odd T
        _, h = self.up[1](torch.cat([h, skip_outer], dim=1), time, mask)
        return self.out(self.final(h, mask)) * mask
