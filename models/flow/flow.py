"""The flows of CosyVoice 2 and 3 and their solver: a front makes `mu`, an estimator moves noise to mel.

The solver takes Euler steps with classifier-free guidance (arXiv 2412.10117, section 2.4) from fixed noise.
`firstword.models.flow.incremental` runs the same parts chunk by chunk.
"""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import (
    FRAMES_PER_TOKEN,
    NOISE_FRAMES,
    NUM_MELS,
    CFMConfig,
    DiTFlowConfig,
    UNetFlowConfig,
)
from firstword.models.flow.dit import DiT
from firstword.models.flow.encoder import ConformerFront, EmbeddingFront, without_lookahead
from firstword.models.flow.unet import CausalUNet, SpeakerProjection
from firstword.models.layers.attention import FullContext, chunk_mask, visibility


class Velocity(Protocol):
    """An estimator with its context given."""

    def __call__(self, step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
        """step: the solver's. x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        ...


def fixed_noise() -> Tensor:
    """The noise every CosyVoice 2 and 3 solve starts from: (M, NOISE_FRAMES), float32, drawn with seed 0."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, NUM_MELS, NOISE_FRAMES, generator=generator, device="cpu")[0]


def noise_between(noise: Tensor, start: int, stop: int) -> Tensor:
    """Frames [start, stop) of `noise` (M, N) -> (M, stop - start).

    The published code fails past N frames; here the table starts again, a whole number of chunks later.
    """
    if stop <= noise.shape[-1]:
        return noise[:, start:stop]
    return noise[:, torch.arange(start, stop, device=noise.device) % noise.shape[-1]]


def time_steps(num_steps: int) -> list[tuple[float, float]]:
    """(t, dt) of each Euler step on the cosine schedule; t is accumulated in float32 as published."""
    span = 1 - torch.cos(torch.linspace(0, 1, num_steps + 1) * 0.5 * torch.pi)
    t, steps = span[0], []
    for next_t in span[1:]:
        dt = next_t - t
        steps.append((float(t), float(dt)))
        t = t + dt
    return steps


def duplicate_for_cfg(batch: Tensor) -> Tensor:
    """(B, ...) -> (2B, ...): each row followed by its unconditional row, which is zero."""
    return torch.stack([batch, torch.zeros_like(batch)], dim=1).flatten(0, 1)


def solve(
    velocity: Velocity, config: CFMConfig, noise: Tensor, mu: Tensor, spks: Tensor, cond: Tensor
) -> Tensor:
    """noise, mu, cond (B, M, T), spks (B, M) -> mel (B, M, T) float32.

    Runs the estimator `num_steps` times in the dtype of `mu`; the state of the equation stays float32. With
    guidance it runs on 2B rows, a conditional and an unconditional one a stream; at rate 0 on B rows.
    """
    x, rows, rate = noise.float(), config.rows_per_stream, config.inference_cfg_rate
    given = {"mu": mu, "spks": spks.to(mu.dtype), "cond": cond.to(mu.dtype)}
    if rows == 2:
        given = {name: duplicate_for_cfg(part) for name, part in given.items()}
    for step, (t, dt) in enumerate(time_steps(config.num_steps)):
        times = torch.full((rows * len(x),), t, device=x.device)
        v = velocity(step, x.to(mu.dtype).repeat_interleave(rows, dim=0), t=times, **given).float()
        x = x + dt * (v if rows == 1 else (1 + rate) * v[0::2] - rate * v[1::2])
    return x


class Flow(nn.Module):
    """Token ids and a speaker to mel frames. Weights, and the noise every solve starts from."""

    def __init__(self, config: UNetFlowConfig | DiTFlowConfig):
        super().__init__()
        self.config = config
        self.chunk_tokens = config.estimator.chunk // FRAMES_PER_TOKEN
        self.speaker_projection = SpeakerProjection(config.speaker_embedding_size, NUM_MELS)
        self.front: ConformerFront | EmbeddingFront
        self.estimator: CausalUNet | DiT
        if isinstance(config, UNetFlowConfig):
            self.front = ConformerFront(config, NUM_MELS)
            self.estimator = CausalUNet(config.estimator)
        else:
            self.front = EmbeddingFront(
                config.vocab_size, NUM_MELS, config.lookahead_channels, config.lookahead_tokens
            )
            self.estimator = DiT(config.estimator)
        self.noise = fixed_noise()  # (M, 15000), float32 whatever the weights are

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Flow":
        super()._apply(fn, recurse)
        self.noise = self.noise.to(self.speaker_projection.weight.device)
        return self

    def mu(self, tokens: Tensor, is_streaming: bool, num_tokens: Tensor | None = None) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> (B, M, 2 T); chunk-causal if streaming.

        num_tokens (B,): what of each row is no padding; None: there is none.
        """
        length = tokens.shape[1] - self.config.lookahead_tokens
        chunk = self.chunk_tokens if is_streaming else 0
        token_mask = visibility(length, chunk, num_tokens, tokens.device)
        num_frames = None if num_tokens is None else FRAMES_PER_TOKEN * num_tokens
        frame_mask = visibility(
            FRAMES_PER_TOKEN * length, FRAMES_PER_TOKEN * chunk, num_frames, tokens.device
        )
        return self.front(tokens, FullContext(token_mask), FullContext(frame_mask))

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        prompt_tokens: Tensor,
        prompt_mel: Tensor,
        embedding: Tensor,
        is_streaming: bool = False,
        is_last: bool = True,
    ) -> Tensor:
        """One solve over prompt and tokens, from nothing.

        tokens (B, N), prompt_tokens (B, P), prompt_mel (B, F, M), embedding (B, 192) -> mel (B, M, T)
        float32, the prompt's F frames cut off. Not last: the last three tokens are lookahead only.
        """
        ids = torch.cat([prompt_tokens, tokens], dim=1)
        lookahead = self.config.lookahead_tokens
        mu = self.mu(without_lookahead(ids, lookahead) if is_last else ids, is_streaming)
        num_frames, prompt_frames = mu.shape[-1], prompt_mel.shape[1]
        cond = F.pad(prompt_mel.mT, (0, num_frames - prompt_frames))
        mask = chunk_mask(num_frames, self.config.estimator.chunk if is_streaming else 0, mu.device)
        noise = noise_between(self.noise, 0, num_frames).expand(len(mu), -1, -1)
        spks = self.speaker_projection(embedding)
        context = FullContext(mask)

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            return self.estimator(x, mu, t, spks, cond, context)

        mel = solve(velocity, self.config.cfm, noise, mu, spks, cond)
        return mel[:, :, prompt_frames:]
