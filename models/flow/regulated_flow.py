"""The flow of CosyVoice 1: full-context encoder, length regulator, two-level U-Net.

A stream keeps the noise and mean of the prompt and of the last frames between calls, so that
neighbouring calls agree where they overlap.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import NUM_MELS, REGULATED_FRAME_RATE_HZ, RegulatedFlowConfig
from models.conformer import Conformer
from models.flow.blocks import SpeakerProjection
from models.flow.pyramid_unet import PyramidUNet
from models.flow.solver import solve
from models.memory import WholeMemory

OVERLAP_TOKENS = 20  # also the ends that the regulator stretches on their own
CACHED_FRAMES = 34  # int(20 / 50 * 22050 / 256), fixed in the published code whatever the token rate


def frames_of(num_tokens: int, token_rate_hz: int) -> int:
    return int(num_tokens / token_rate_hz * REGULATED_FRAME_RATE_HZ)


class LengthRegulator(nn.Sequential):
    """Stretches tokens to mel frames by interpolation, then smooths."""

    def __init__(self, channels: int, num_layers: int):
        layers: list[nn.Module] = []
        for _ in range(num_layers):
            layers += [nn.Conv1d(channels, channels, 3, padding=1), nn.GroupNorm(1, channels), nn.Mish()]
        super().__init__(*layers, nn.Conv1d(channels, NUM_MELS, 1))

    def stretch(self, prompt: Tensor, new: Tensor, prompt_frames: int, new_frames: int, end: int) -> Tensor:
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


class RegulatedFlow(nn.Module):
    def __init__(self, config: RegulatedFlowConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.encoder.input_size)
        self.speaker_projection = SpeakerProjection(config.speaker_embedding_size, NUM_MELS)
        self.encoder = Conformer(config.encoder)
        self.projection = nn.Linear(config.encoder.width, NUM_MELS)
        self.regulator = LengthRegulator(config.regulator_channels, config.num_regulator_layers)
        self.estimator = PyramidUNet(config.estimator)

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
        mu = self._mu(tokens, prompt_tokens, prompt_frames, new_frames)
        z = noise[:, :, : mu.shape[-1]].float().clone()
        if cache is not None and cache.shape[2]:
            z[:, :, : cache.shape[2]] = cache[..., 0]
            mu[:, :, : cache.shape[2]] = cache[..., 1].to(mu.dtype)
        kept = [
            torch.cat([x[:, :, :prompt_frames], x[:, :, -CACHED_FRAMES:]], dim=-1) for x in (z, mu.float())
        ]
        cond = F.pad(prompt_mel.mT, (0, new_frames))
        mask = mu.new_ones(1, 1, mu.shape[-1])
        velocity = partial(self.estimator, mask=mask)
        mel = solve(velocity, self.config.cfm, z, mu, self.speaker_projection(embedding), cond)
        return mel[:, :, prompt_frames:], torch.stack(kept, dim=-1)

    def _mu(self, tokens: Tensor, prompt_tokens: Tensor, prompt_frames: int, new_frames: int) -> Tensor:
        x = self.embedding(torch.cat([prompt_tokens, tokens], dim=1).clamp(min=0))
        x = self.projection(self.encoder(x, WholeMemory())).mT  # (1, M, P + N)
        prompt, new = x.split([prompt_tokens.shape[1], tokens.shape[1]], dim=-1)
        return self.regulator.stretch(prompt, new, prompt_frames, new_frames, self.num_frames(OVERLAP_TOKENS))
