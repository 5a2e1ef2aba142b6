"""The task of fine-tuning a flow of few steps without guidance, as `train flow --distil` leaves one.

Such an estimator is right at the times of its few steps alone, and what it takes there is the way to its own
end, not the velocity that conditional flow matching teaches. So what is compared with the recording is the
end of the solve. A distance to it would teach the mean of all that could be said, a blur; the energy distance
(arXiv 2008.01160) compares two ends, from noise of their own, with the recording and with each other, and is
least where ends are spread as recordings are.

Speakers that the checkpoint has are kept: half as many rows are said by them, behind their prompts, and their
ends are to stay where the network before has them.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from firstword.finetune.dataset import Dataset
from firstword.finetune.flow import DrawnBatch, FlowTask, batch_of
from firstword.finetune.flow_matching import FlowBatch, FlowDraws
from firstword.finetune.task import TaskLoss
from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS, CFMConfig
from firstword.models.flow.encoder import without_lookahead
from firstword.models.flow.flow import Flow
from firstword.models.flow.solver import time_steps
from firstword.models.frontend.speaker import SpeakerFeatures, align_prompt
from firstword.models.layers import FullContext, visibility

MOST_STEPS: Final = 4  # the most that are unrolled for the gradient
KEPT_WEIGHT: Final = 0.5


def is_solved_whole(config: CFMConfig) -> bool:
    """Whether a flow was distilled."""
    return config.inference_cfg_rate == 0 and config.num_steps <= MOST_STEPS


class SolvedFlowTask(FlowTask):
    """`draws.noise` has two rows for each of the batch: (2 B, M, 2 T)."""

    def __init__(
        self,
        network: Flow,
        dataset: Dataset,
        speakers: Mapping[str, Tensor] | None = None,
        seed: int = 0,
        kept: Sequence[SpeakerFeatures] = (),
    ) -> None:
        super().__init__(network, dataset, speakers, seed)
        self._kept = kept
        # In a tuple, so that it is no part of what is trained and saved.
        self._before = (deepcopy(network).requires_grad_(False).eval(),)

    def collate(self, rows: Sequence[int], step: int) -> DrawnBatch:
        drawn = super().collate(rows, step)
        counts = drawn.batch.num_tokens.tolist()
        others = _noise([(self._seed, step, row, 1) for row in rows], counts)
        draws = replace(drawn.draws, noise=torch.cat([drawn.draws.noise, others]))
        kept = self._kept_of(rows[::2], step, draws.is_streaming) if self._kept else None
        return DrawnBatch(drawn.batch, draws, kept)

    def _kept_of(self, rows: Sequence[int], step: int, is_streaming: bool) -> DrawnBatch:
        """What rows say, said by speakers of the checkpoint behind their prompts; its mel is not known."""
        given, prompts = [], []
        for row in rows:
            drawn = np.random.default_rng((self._seed, step, row, 2)).integers(len(self._kept))
            one = self._kept[int(drawn)]
            tokens, mel = align_prompt(one.prompt_tokens, one.prompt_mel)
            said = torch.tensor(self._dataset.read(row).speech_ids)
            given.append((torch.cat([tokens, said]), mel, one.embedding))
            prompts.append(FRAMES_PER_TOKEN * len(tokens))
        batch = batch_of(given)
        draws = FlowDraws(
            is_streaming=is_streaming,
            prompt_frames=torch.tensor(prompts),
            is_unconditional=torch.zeros(len(rows), dtype=torch.bool),
            t=torch.zeros(len(rows)),
            noise=_noise([(self._seed, step, row, 3) for row in rows], batch.num_tokens.tolist()),
        )
        return DrawnBatch(batch, draws)

    def forward(self, batch: DrawnBatch) -> TaskLoss:
        """The energy distance a frame, over the frames behind the prompt that are no padding."""
        one, other = ends_of(self.network, batch.batch, batch.draws).chunk(2)
        weight = _said(batch)
        learned = (energy_distance(one, other, batch.batch.mel.mT) * weight).sum() / weight.sum()
        if batch.kept is None:
            return TaskLoss(learned)
        kept = self._moved(batch.kept)
        return TaskLoss(learned + KEPT_WEIGHT * kept, {"learned": learned, "kept": kept})

    def _moved(self, batch: DrawnBatch) -> Tensor:
        before = self._before[0].to(batch.batch.mel.device)
        with torch.no_grad():
            wanted = ends_of(before, batch.batch, batch.draws)
        weight = _said(batch)
        moved = distance(ends_of(self.network, batch.batch, batch.draws), wanted)
        return (moved * weight).sum() / weight.sum()


def ends_of(flow: Flow, given: FlowBatch, draws: FlowDraws) -> Tensor:
    """(R B, M, 2 T): the end of the solve from noise of R times as many rows; differentiable."""
    repeats = len(draws.noise) // len(given.tokens)
    num_frames = FRAMES_PER_TOKEN * given.num_tokens
    frame = torch.arange(given.mel.shape[1], device=given.mel.device)
    ids = without_lookahead(given.tokens, flow.config.lookahead_tokens)
    mu = flow.mu(ids, draws.is_streaming, given.num_tokens)
    cond = given.mel.mT * (frame < draws.prompt_frames[:, None])[:, None]
    conditions = mu, flow.speaker_projection(given.embedding), cond
    mu, spks, cond = (torch.cat([part] * repeats).to(mu.dtype) for part in conditions)
    mask = visibility(len(frame), flow.config.estimator.chunk * draws.is_streaming, num_frames, mu.device)
    assert mask is not None, "there is padding"
    context = FullContext(mask.repeat(repeats, 1, 1, 1))
    x = draws.noise
    for t, dt in time_steps(flow.config.cfm.num_steps):
        time = torch.full((len(x),), t, device=x.device)
        x = x + dt * flow.estimator(x.to(mu.dtype), mu, time, spks, cond, context).float()
    return x


def energy_distance(one: Tensor, other: Tensor, wanted: Tensor) -> Tensor:
    """Of two draws and what is wanted, (B, M, 2 T) each -> (B, 2 T), but for what no draw can change."""
    return (distance(one, wanted) + distance(other, wanted) - distance(one, other)) / 2


def distance(first: Tensor, second: Tensor) -> Tensor:
    """(B, M, 2 T) twice -> (B, 2 T); its gradient is finite where both are equal."""
    return ((first - second).square().sum(1) + 1e-8).sqrt()


def _said(batch: DrawnBatch) -> Tensor:
    """(B, 2 T) of 0 and 1: frames behind the prompt that are no padding."""
    frame = torch.arange(batch.batch.mel.shape[1], device=batch.batch.mel.device)
    is_whole = frame < FRAMES_PER_TOKEN * batch.batch.num_tokens[:, None]
    return (is_whole & (frame >= batch.draws.prompt_frames[:, None])).float()


def _noise(seeds: Sequence[tuple[int, ...]], num_tokens: Sequence[int]) -> Tensor:
    """(B, M, 2 T): a row's does not depend on its neighbours."""
    longest = FRAMES_PER_TOKEN * max(num_tokens)
    rows = []
    for seed, count in zip(seeds, num_tokens, strict=True):
        own = np.random.default_rng(seed).standard_normal((FRAMES_PER_TOKEN * count, NUM_MELS), np.float32)
        rows.append(torch.nn.functional.pad(torch.from_numpy(own).T, (0, longest - len(own))))
    return torch.stack(rows)
