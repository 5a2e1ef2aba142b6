"""The flow of CosyVoice 1: full-context encoder, length regulator, multi-resolution U-Net.

A stream keeps the noise and mean of the prompt and of the last frames between calls, so that
neighboring calls agree where they overlap.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import COSYVOICE1_FRAME_RATE_HZ, NUM_MELS, CosyVoice1FlowConfig, UNetConfig
from firstword.models.flow.solver import solve
from firstword.models.flow.unet import TransformerBlock
from firstword.models.layers import Conformer, FullContext, SpeakerProjection, TimeEmbedding

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
            TransformerBlock(out_channels, config.num_heads, config.head_dim, layer)
            for layer in range(config.num_blocks)
        )
        self.conv = conv

    def forward(self, x: Tensor, time: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, C_in, T), mask (B, 1, T) -> (B, C, T) before the convolution, and after it (its own rate)."""
        x = self.resnet(x, time, mask).mT
        context = FullContext(mask[:, :, None, :] > 0)
        for block in self.blocks:
            x = block(x, context)
        x = x.mT
        return x, x if self.conv is None else self.conv(x * mask)


class MultiResolutionUNet(nn.Module):
    """The estimator. Its inner levels run at half the frame rate; it sees all frames."""

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


OVERLAP_TOKENS = 20  # also the ends that the regulator resizes on their own
CACHED_FRAMES = 34  # int(20 / 50 * 22050 / 256), fixed in the published code whatever the token rate


def frames_of(num_tokens: int, token_rate_hz: int) -> int:
    return int(num_tokens / token_rate_hz * COSYVOICE1_FRAME_RATE_HZ)


class LengthRegulator(nn.Sequential):
    """Resizes tokens to mel frames by interpolation, then smooths."""

    def __init__(self, channels: int, num_layers: int):
        layers: list[nn.Module] = []
        for _ in range(num_layers):
            layers += [nn.Conv1d(channels, channels, 3, padding=1), nn.GroupNorm(1, channels), nn.Mish()]
        super().__init__(*layers, nn.Conv1d(channels, NUM_MELS, 1))

    def regulate(self, prompt: Tensor, new: Tensor, prompt_frames: int, new_frames: int, end: int) -> Tensor:
        """prompt (B, C, P), new (B, C, N) -> mu (B, M, prompt_frames + new_frames).

        The first and last 20 of more than 40 new tokens take `end` frames each.
        """
        parts = [_resized(prompt, prompt_frames)] if prompt.shape[-1] else []
        if new.shape[-1] > 2 * OVERLAP_TOKENS:
            head, middle, tail = (
                new[:, :, :OVERLAP_TOKENS],
                new[:, :, OVERLAP_TOKENS:-OVERLAP_TOKENS],
                new[:, :, -OVERLAP_TOKENS:],
            )
            parts += [_resized(head, end), _resized(middle, new_frames - 2 * end), _resized(tail, end)]
        else:
            parts.append(_resized(new, new_frames))
        return self(torch.cat(parts, dim=-1))


def _resized(x: Tensor, frames: int) -> Tensor:
    return F.interpolate(x, size=frames, mode="linear")


class CosyVoice1Flow(nn.Module):
    def __init__(self, config: CosyVoice1FlowConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.encoder.input_size)
        self.speaker_projection = SpeakerProjection(config.speaker_embedding_size, NUM_MELS)
        self.encoder = Conformer(config.encoder)
        self.projection = nn.Linear(config.encoder.width, NUM_MELS)
        self.regulator = LengthRegulator(config.regulator_channels, config.num_regulator_layers)
        self.estimator = MultiResolutionUNet(config.estimator)

    def empty_cache(self) -> Tensor:
        return torch.zeros(1, NUM_MELS, 0, 2, device=self.projection.weight.device)

    def num_frames(self, num_tokens: int) -> int:
        return frames_of(num_tokens, self.config.token_rate_hz)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        prompt_tokens: Tensor,
        prompt_mel: Tensor,
        embedding: Tensor,
        noise: Tensor,
        cache: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One solve over prompt and tokens.

        tokens (1, N), prompt_tokens (1, P), prompt_mel (1, F, M), embedding (1, 192), noise (1, M, at
        least F + frames of N), cache (1, M, C, 2) of the call before -> mel (1, M, frames of N) float32,
        the next cache (1, M, F + 34, 2).
        """
        prompt_frames, new_frames = prompt_mel.shape[1], self.num_frames(tokens.shape[1])
        x = self.embedding(torch.cat([prompt_tokens, tokens], dim=1).clamp(min=0))
        x = self.projection(self.encoder(x, FullContext())).mT  # (1, M, P + N)
        prompt, new = x.split([prompt_tokens.shape[1], tokens.shape[1]], dim=-1)
        end = self.num_frames(OVERLAP_TOKENS)
        mu = self.regulator.regulate(prompt, new, prompt_frames, new_frames, end)
        z = noise[:, :, : mu.shape[-1]].float().clone()
        if cache is not None and cache.shape[2]:
            z[:, :, : cache.shape[2]] = cache[..., 0]
            mu[:, :, : cache.shape[2]] = cache[..., 1].to(mu.dtype)
        next_cache = [
            torch.cat([x[:, :, :prompt_frames], x[:, :, -CACHED_FRAMES:]], dim=-1) for x in (z, mu.float())
        ]
        cond = F.pad(prompt_mel.mT, (0, new_frames))
        mask = mu.new_ones(1, 1, mu.shape[-1])

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            return self.estimator(x, mu, t, spks, cond, mask)

        mel = solve(velocity, self.config.cfm, z, mu, self.speaker_projection(embedding), cond)
        return mel[:, :, prompt_frames:], torch.stack(next_cache, dim=-1)
