"""The flow's solver: Euler steps with guidance from fixed noise (arXiv 2412.10117, section 2.4)."""

from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from firstword.models.config import NOISE_FRAMES, NUM_MELS, CFMConfig


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


@cache
def time_steps(num_steps: int) -> tuple[tuple[float, float], ...]:
    """(t, dt) of each Euler step on the cosine schedule; t is accumulated in float32 as published."""
    span = 1 - torch.cos(
        torch.linspace(0, 1, num_steps + 1, dtype=torch.float32, device="cpu") * 0.5 * torch.pi
    )
    t, steps = span[0], list[tuple[float, float]]()
    for next_t in span[1:]:
        dt = next_t - t
        steps.append((float(t), float(dt)))
        t = t + dt
    return tuple(steps)


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
