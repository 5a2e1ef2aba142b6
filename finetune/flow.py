"""The task of fine-tuning a flow of CosyVoice 2 or 3: conditional flow matching."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from firstword.finetune.dataset import Dataset
from firstword.finetune.flow_matching import (
    MAX_PROMPT_SHARE,
    NO_PROMPT_RATE,
    STREAMING_RATE,
    FlowBatch,
    FlowDraws,
    flow_losses,
)
from firstword.finetune.task import Task, TaskLoss
from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.flow.flow import Flow

Values = TypeVar("Values", FlowBatch, FlowDraws)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnBatch:
    """kept: what is to sound as before."""

    batch: FlowBatch
    draws: FlowDraws
    kept: "DrawnBatch | None" = None


class FlowTask(Task):
    """speakers: the embedding of each that counts instead of the utterance's own."""

    network: Flow

    def __init__(
        self, network: Flow, dataset: Dataset, speakers: Mapping[str, Tensor] | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.network = network
        self._dataset, self._speakers, self._seed = dataset, speakers or {}, seed

    def collate(self, rows: Sequence[int], step: int) -> DrawnBatch:
        """A row's draws do not depend on its neighbours; whether all are masked by chunks is the step's."""
        utterances = [self._dataset.read(row) for row in rows]
        batch = batch_of([
            (torch.tensor(one.speech_ids), one.mel, self._speakers.get(one.speaker, one.embedding))
            for one in utterances
        ])  # fmt: skip
        num_frames = batch.mel.shape[1]
        shares, unconditional, times, noises = [], [], [], []
        for row, count in zip(rows, batch.num_tokens.tolist(), strict=True):
            rng = np.random.default_rng((self._seed, step, row))
            share, has_none, drop, t = rng.random(4)
            shares.append(
                int(share * MAX_PROMPT_SHARE * (has_none >= NO_PROMPT_RATE) * FRAMES_PER_TOKEN * count)
            )
            unconditional.append(drop < self.network.config.cfm.training_cfg_rate)
            times.append(t)
            noise = torch.from_numpy(rng.standard_normal((FRAMES_PER_TOKEN * count, NUM_MELS), np.float32)).T
            noises.append(torch.nn.functional.pad(noise, (0, num_frames - noise.shape[1])))
        draws = FlowDraws(
            is_streaming=bool(np.random.default_rng((self._seed, step)).random() < STREAMING_RATE),
            prompt_frames=torch.tensor(shares),
            is_unconditional=torch.tensor(unconditional),
            t=torch.tensor(times, dtype=torch.float32),
            noise=torch.stack(noises),
        )
        return DrawnBatch(batch, draws)

    def weigh(self, batch: DrawnBatch) -> float:
        return float(batch.batch.num_tokens.sum())

    def to_device(self, batch: DrawnBatch) -> DrawnBatch:
        device = self.network.noise.device
        kept = None if batch.kept is None else self.to_device(batch.kept)
        return DrawnBatch(moved(batch.batch, device), moved(batch.draws, device), kept)

    def forward(self, batch: DrawnBatch) -> TaskLoss:
        found = flow_losses(self.network, batch.batch, batch.draws)
        return TaskLoss(found.matching, {"prior": found.prior})


def batch_of(utterances: Sequence[tuple[Tensor, Tensor, Tensor]]) -> FlowBatch:
    """Tokens (T,), mel (F, M) and embedding (192,) of each, padded; a mel's end is cut or filled to 2 T."""
    mels = []
    for tokens, mel, _ in utterances:
        wanted = FRAMES_PER_TOKEN * len(tokens)
        mels.append(torch.nn.functional.pad(mel[:wanted], (0, 0, 0, max(0, wanted - len(mel)))))
    return FlowBatch(
        tokens=pad_sequence([one[0] for one in utterances], batch_first=True, padding_value=-1),
        num_tokens=torch.tensor([len(one[0]) for one in utterances]),
        mel=pad_sequence(mels, batch_first=True),
        embedding=torch.stack([one[2] for one in utterances]),
    )


def moved(values: Values, device: torch.device) -> Values:
    fields: dict[str, Any] = {f.name: getattr(values, f.name) for f in dataclasses.fields(values)}
    tensors: dict[str, Any] = {
        name: value.to(device) for name, value in fields.items() if isinstance(value, Tensor)
    }
    return dataclasses.replace(values, **tensors)
