"""Teach a flow to solve in a few steps without guidance what it solves in many with it.

The student keeps the published network, which is told a time and no interval. On a fixed grid of few times
that is enough: at each it learns the mean velocity of the teacher's guided solution up to the next
(piecewise rectified flow, arXiv 2405.07510; the mean velocity of arXiv 2505.13447 on a grid). It starts each
interval where its own step before ended, so that it learns to make good what that missed. The estimator
alone is trained.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from firstword.finetune.dataset import Dataset
from firstword.finetune.flow import DrawnBatch, FlowTask
from firstword.finetune.flow_matching import FlowBatch, FlowDraws
from firstword.finetune.task import TaskLoss
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.encoder import without_lookahead
from firstword.models.flow.flow import Flow
from firstword.models.flow.solver import duplicate_for_cfg, noise_between, time_steps
from firstword.models.layers import FullContext, visibility

FIXED_NOISE_RATE = 0.5  # of the rows start from the noise of every solve, the others from noise of their own


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """steps: of the student. teacher_steps: at least so many over the whole time; 0: those of its config."""

    steps: int
    teacher_steps: int = 0


class DistilTask(FlowTask):
    """The loss is that of `Distillation`."""

    def __init__(
        self,
        network: Flow,
        dataset: Dataset,
        settings: DistilSettings,
        speakers: Mapping[str, Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(network, dataset, speakers, seed)
        self._distillation = Distillation(network, settings)

    def collate(self, rows: Sequence[int], step: int) -> DrawnBatch:
        drawn = super().collate(rows, step)
        own = [np.random.default_rng((self._seed, step, row, 1)).random() for row in rows]
        give_fixed_noise(self.network, drawn.draws, own)
        return drawn

    def forward(self, batch: DrawnBatch) -> TaskLoss:
        loss, end = self._distillation(self.network, batch.batch, batch.draws)
        return TaskLoss(loss, {"end": end})


def give_fixed_noise(flow: Flow, draws: FlowDraws, chances: Sequence[float]) -> None:
    """Let rows whose chance (0..1) is below FIXED_NOISE_RATE start with the noise of all solves; in place."""
    fixed = noise_between(flow.noise.cpu(), 0, draws.noise.shape[-1])
    for row, chance in enumerate(chances):
        if chance < FIXED_NOISE_RATE:
            draws.noise[row] = fixed


class Distillation(nn.Module):
    """The mean squared distance of mels between a student's steps and those of a teacher.

    It lets the estimator of the flow alone be trained.
    """

    def __init__(self, flow: Flow, settings: DistilSettings, teacher: Flow | None = None) -> None:
        """teacher: another flow that knows the tokens; by default what the flow is now."""
        super().__init__()
        flow.requires_grad_(False)
        self._teacher = deepcopy(flow.estimator) if teacher is None else teacher.estimator
        self._other = None if teacher is None else teacher.requires_grad_(False)
        flow.estimator.requires_grad_(True)
        self._cfm = (teacher or flow).config.cfm
        self._grid = time_steps(settings.steps)
        wanted = settings.teacher_steps or self._cfm.num_steps
        self._substeps = -(-max(wanted, settings.steps) // settings.steps)

    def forward(self, flow: Flow, given: FlowBatch, draws: FlowDraws) -> tuple[Tensor, Tensor]:
        """Return the mean over the steps, and the last step's alone; scalars."""
        num_frames = FRAMES_PER_TOKEN * given.num_tokens
        frame = torch.arange(given.mel.shape[1], device=given.mel.device)
        is_frame = (frame < num_frames[:, None])[:, None]  # (B, 1, 2 T)
        mu, spks, cond = conditions = _conditions(flow, given, draws)
        if self._other is not None:
            conditions = _conditions(self._other, given, draws)
        chunk = flow.config.estimator.chunk if draws.is_streaming else 0
        mask = visibility(len(frame), chunk, num_frames, mu.device)  # (B, 1, 1 or 2 T, 2 T)
        assert mask is not None, "there is padding"
        context = FullContext(mask)
        guided = FullContext(mask.repeat_interleave(self._cfm.rows_per_stream, dim=0))
        num_values = num_frames.sum() * given.mel.shape[2]
        wanted = own = draws.noise
        loss = error = torch.zeros((), device=mu.device)
        for t, dt in self._grid:
            wanted = self._solve(wanted, (t, dt), conditions, guided)
            time = torch.full((len(own),), t, device=mu.device)
            velocity = flow.estimator(own.to(mu.dtype), mu, time, spks, cond, context).float()
            reached = own + dt * velocity
            error = ((reached - wanted) * is_frame).square().sum() / num_values
            loss = loss + error
            own = reached.detach()
        return loss / len(self._grid), error

    @torch.no_grad()
    def _solve(
        self, x: Tensor, span: tuple[float, float], given: tuple[Tensor, Tensor, Tensor], context: FullContext
    ) -> Tensor:
        """The teacher's guided solution over an interval (t, dt), in equal substeps."""
        (t, dt), rate = span, self._cfm.inference_cfg_rate
        mu, spks, cond = (duplicate_for_cfg(part) for part in given) if rate else given
        step = dt / self._substeps
        for number in range(self._substeps):
            rows = x.to(mu.dtype).repeat_interleave(2, dim=0) if rate else x.to(mu.dtype)
            time = torch.full((len(rows),), t + number * step, device=x.device)
            v = self._teacher(rows, mu, time, spks, cond, context).float()
            x = x + step * ((1 + rate) * v[0::2] - rate * v[1::2] if rate else v)
        return x


@torch.no_grad()
def _conditions(flow: Flow, given: FlowBatch, draws: FlowDraws) -> tuple[Tensor, Tensor, Tensor]:
    """-> mu (B, M, 2 T), spks (B, M) and cond (B, M, 2 T)."""
    frame = torch.arange(given.mel.shape[1], device=given.mel.device)
    ids = without_lookahead(given.tokens, flow.config.lookahead_tokens)
    mu = flow.mu(ids, draws.is_streaming, given.num_tokens)
    cond = (given.mel.mT * (frame < draws.prompt_frames[:, None])[:, None]).to(mu.dtype)
    return mu, flow.speaker_projection(given.embedding).to(mu.dtype), cond
