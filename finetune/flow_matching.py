"""The training loss of the flows of CosyVoice 2 and 3 (conditional flow matching, arXiv 2210.02747)."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.encoder import without_lookahead
from firstword.models.flow.flow import Flow
from firstword.models.layers import FullContext, visibility

STREAMING_RATE = 0.5  # of the batches are masked by chunks
NO_PROMPT_RATE = 0.5  # of the rows are given no mel of their own
MAX_PROMPT_SHARE = 0.3  # of a row's frames, where it is given some


@dataclass(frozen=True, slots=True, eq=False)
class FlowBatch:
    tokens: Tensor  # (B, T) int64, -1 where a row has no more
    num_tokens: Tensor  # (B,)
    mel: Tensor  # (B, 2 T, M) float32
    embedding: Tensor  # (B, 192)


@dataclass(frozen=True, slots=True, eq=False)
class FlowDraws:
    """Everything random of one training step."""

    is_streaming: bool
    prompt_frames: Tensor  # (B,): of its own mel, given as condition
    is_unconditional: Tensor  # (B,) bool: guidance dropped
    t: Tensor  # (B,) in 0..1
    noise: Tensor  # (B, M, 2 T)


def draw(flow: Flow, batch: FlowBatch, generator: torch.Generator) -> FlowDraws:
    """generator: on the batch's device."""
    uniform = partial(torch.rand, generator=generator, device=batch.mel.device)
    rows = len(batch.tokens)
    share = uniform(rows) * MAX_PROMPT_SHARE * (uniform(rows) >= NO_PROMPT_RATE)
    return FlowDraws(
        is_streaming=bool(uniform(()) < STREAMING_RATE),
        prompt_frames=(share * FRAMES_PER_TOKEN * batch.num_tokens).long(),
        is_unconditional=uniform(rows) < flow.config.cfm.training_cfg_rate,
        t=uniform(rows),
        noise=torch.randn(batch.mel.mT.shape, generator=generator, device=batch.mel.device),
    )


@dataclass(frozen=True, slots=True, eq=False)
class FlowLosses:
    matching: Tensor  # (), mean squared error of the velocity, what the published recipe minimises
    prior: Tensor  # (), mean absolute error of `mu` taken as a mel; the published recipe has none
    mu: Tensor  # (B, 2 T, M), as a mel
    guess: Tensor  # (B, 2 T, M), the mel that the velocity aims at
    velocity: Tensor  # (B, M, 2 T) float32


def flow_losses(flow: Flow, batch: FlowBatch, draws: FlowDraws) -> FlowLosses:
    """Both losses over the frames that are no padding, and what they are of; all differentiable."""
    num_frames = FRAMES_PER_TOKEN * batch.num_tokens
    frame = torch.arange(batch.mel.shape[1], device=batch.mel.device)
    is_frame = (frame < num_frames[:, None])[:, None]  # (B, 1, 2 T)
    mel = batch.mel.mT * is_frame  # (B, M, 2 T)
    ids = without_lookahead(batch.tokens, flow.config.lookahead_tokens)
    mu = flow.mu(ids, draws.is_streaming, batch.num_tokens)
    dtype = mu.dtype
    cond = (mel * (frame < draws.prompt_frames[:, None])[:, None]).to(dtype)
    keep = (~draws.is_unconditional)[:, None].to(dtype)
    spks = flow.speaker_projection(batch.embedding) * keep
    t, sigma = draws.t[:, None, None], flow.config.cfm.sigma_min
    x = (1 - (1 - sigma) * t) * draws.noise + t * mel
    target = mel - (1 - sigma) * draws.noise
    chunk = flow.config.estimator.chunk if draws.is_streaming else 0
    memory = FullContext(visibility(len(frame), chunk, num_frames, mel.device))
    velocity = flow.estimator(
        x.to(dtype), mu * keep[..., None], draws.t, spks, cond * keep[..., None], memory
    )
    velocity = velocity.float()
    error = (velocity - target) * is_frame
    num_values = num_frames.sum() * mel.shape[1]
    prior = ((mu.float() - mel) * is_frame).abs().sum() / num_values
    guess = x + (1 - t) * velocity
    return FlowLosses(error.square().sum() / num_values, prior, mu.float().mT, guess.mT, velocity)
