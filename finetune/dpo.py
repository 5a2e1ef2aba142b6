"""Direct preference optimization of a language model, from pairs of which one is to be preferred."""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio, decode_recording
from firstword.files import write_whole
from firstword.finetune import lora
from firstword.finetune.batches import BatchPlan, BatchSettings
from firstword.finetune.errors import FinetuneError
from firstword.finetune.language_model import BISTREAM_RATE, layout_of
from firstword.finetune.losses import DPO_BETA, LossConfig, preference_loss, sequence_scores, teacher_forced
from firstword.finetune.result import STATE_FOLDER
from firstword.finetune.sft import (
    FineTuning,
    check_out,
    finish,
    run_identity,
    train_settings,
    world_size,
)
from firstword.finetune.sources import read_lines
from firstword.finetune.task import Task, TaskLoss
from firstword.finetune.text import TextReader
from firstword.finetune.trainer import StepReport, Trainer
from firstword.finetune.utterance import Utterance
from firstword.models.config import NUM_MELS, SPEAKER_EMBEDDING_SIZE
from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.prompt_reader import MAX_RECORDING_S, PromptReader
from firstword.models.lm.plan import Layout
from firstword.models.lm.qwen2 import Qwen2LM

REFERENCE_FILE: Final = "reference.pt"
HELD_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    chosen: Utterance
    rejected: Utterance

    @property
    def length(self) -> int:
        """Positions of both rows, padded."""
        return 2 * (
            len(self.chosen.text_ids) + max(len(self.chosen.speech_ids), len(self.rejected.speech_ids))
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    chosen: list[Layout]
    rejected: list[Layout]
    reference: Tensor  # (2, B), scores of the network before training


def read_pairs(path: Path, text: TextReader, reader: PromptReader) -> tuple[list[Pair], list[str]]:
    """-> the pairs of a JSON Lines file, and why others were left out.

    A line: {"text", "chosen", "rejected"}, each of the two a recording's path or a list of speech tokens.
    Raises FinetuneError for a line that is none, and where no pair is left.
    """
    pairs, left_out = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            said = given["text"]
            both = [given["chosen"], given["rejected"]]
            if not isinstance(said, str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise FinetuneError(
                f'{path}:{number}: expected an object such as {{"text": "Hello.", "chosen": "a.wav", '
                '"rejected": "b.wav"}'
            ) from None
        try:
            ids = text.read(said)
            tokens = [_tokens(one, path.parent, reader) for one in both]
        except (FinetuneError, FrontendError, UndecodableAudio, RecordingTooLong, OSError) as error:
            left_out.append(f"{path}:{number}: {error}")
            continue
        chosen, rejected = (_utterance(f"{number}", ids, text.instruct_ids, one) for one in tokens)
        pairs.append(Pair(chosen, rejected))
    if not pairs:
        raise FinetuneError(f"{path}: no pair can be used; {left_out[0] if left_out else 'it is empty'}")
    return pairs, left_out


class PreferenceTask(Task):
    """The layout of a pair is its own in every epoch, so that its reference is computed once."""

    network: Qwen2LM

    def __init__(
        self, network: Qwen2LM, pairs: Sequence[Pair], beta: float = DPO_BETA, seed: int = 0
    ) -> None:
        """Raises FinetuneError for a token that the network does not have."""
        super().__init__()
        self.network = network
        self.loss_config = LossConfig.of(network.config)
        self._beta, self._pairs = beta, pairs
        coins = [np.random.default_rng((seed, row)).random() < BISTREAM_RATE for row in range(len(pairs))]
        self.layouts: list[tuple[Layout, Layout]] = []
        for pair, coin in zip(pairs, coins, strict=True):
            try:
                both = layout_of(network, pair.chosen, coin), layout_of(network, pair.rejected, coin)
            except ValueError as error:
                raise FinetuneError(f"line {pair.chosen.id} of the pairs: {error}") from None
            self.layouts.append(both)
        self.reference = torch.zeros(2, 0)  # (2, pairs)

    @torch.no_grad()
    def compute_reference(self) -> Tensor:
        """Scores of the network as it is, pair by pair: (2, pairs)."""
        self.network.eval()
        rows = [sequence_scores(*teacher_forced(self.network, both)).cpu() for both in self.layouts]
        return torch.stack(rows, dim=1)

    def collate(self, rows: Sequence[int], step: int) -> PairBatch:
        both = [self.layouts[row] for row in rows]
        return PairBatch([one for one, _ in both], [one for _, one in both], self.reference[:, list(rows)])

    def weigh(self, batch: PairBatch) -> float:
        return float(len(batch.chosen))

    def to_device(self, batch: PairBatch) -> PairBatch:
        return replace(batch, reference=batch.reference.to(self.network.head.weight.device))

    def forward(self, batch: PairBatch) -> TaskLoss:
        found = preference_loss(
            self.network,
            batch.chosen,
            batch.rejected,
            batch.reference[0],
            batch.reference[1],
            self._beta,
            config=self.loss_config,
        )
        metrics = {"preference": found.preference, "preferred": found.accuracy, "margin": found.margin}
        return TaskLoss(found.loss, metrics)


def prefer(asked: FineTuning, beta: float = DPO_BETA, seed: int = 0) -> Iterator[StepReport]:
    """Train by the pairs of the file `asked.data`, and write the result. Raises FinetuneError."""
    checkpoint, out = asked.checkpoint, asked.out
    check_out(checkpoint, out, goes_on=True)
    network = checkpoint.load_lm()
    if not isinstance(network, Qwen2LM):
        raise FinetuneError(f"{checkpoint.directory} is a CosyVoice 1; preferences are learned by 2 and 3")
    text, reader = TextReader(checkpoint), checkpoint.load_prompt_reader(num_threads=1)
    pairs, left_out = read_pairs(asked.data, text, reader)
    if left_out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "left-out.txt").write_text("".join(f"{line}\n" for line in left_out), encoding="utf-8")
    task = PreferenceTask(network.requires_grad_(True), pairs, beta, seed)
    task.reference = _reference(task, asked)
    if asked.lora.rank:
        lora.inject(task.network, asked.lora)
    num_held = round(HELD_SHARE * len(pairs))
    settings = BatchSettings(asked.recipe.batch_tokens, asked.recipe.accumulate, seed)
    lengths = [pair.length for pair in pairs]
    plan = BatchPlan(range(num_held, len(pairs)), lengths, [0] * len(pairs), settings, world_size())
    steps = plan.steps_in(asked.recipe.epochs) if asked.steps is None else asked.steps
    identity = {**run_identity(asked, task.layouts), "beta": beta}
    trainer = Trainer(task, out / STATE_FOLDER, train_settings(asked, steps, seed), identity)
    yield from trainer.fit(trainer.planned(plan), [[row] for row in range(num_held)])
    if trainer.is_main:
        finish(asked, trainer, {})
    trainer.accelerator.end_training()


def _reference(task: PreferenceTask, asked: FineTuning) -> Tensor:
    """Computed once, and read again where the run goes on; of other pairs, computed anew."""
    path = asked.out / STATE_FOLDER / REFERENCE_FILE
    digest = hashlib.sha256(repr(task.layouts).encode()).hexdigest()
    if path.exists():
        kept = torch.load(path, weights_only=True)
        if kept["digest"] == digest:
            return Tensor(kept["scores"])
    scores = task.compute_reference()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save({"digest": digest, "scores": scores}, content)
    try:
        write_whole(path, content.getvalue())  # each process its own: they are equal
    except OSError as error:
        raise FinetuneError(f"{path} cannot be written: {error}; run the same command again") from error
    return scores


def _tokens(given: Any, folder: Path, reader: PromptReader) -> list[int]:
    if isinstance(given, list) and all(type(one) is int for one in given) and given:
        return given
    if not isinstance(given, str):
        raise FinetuneError(f"{given!r:.60} is neither a recording's path nor a list of speech tokens")
    samples, rate_hz = decode_recording((folder / given).read_bytes(), MAX_RECORDING_S)
    return list(reader.read_speaker(samples, rate_hz).prompt_tokens.tolist())


def _utterance(id: str, text: tuple[int, ...], instruct: tuple[int, ...], tokens: list[int]) -> Utterance:
    nothing = torch.zeros(0, NUM_MELS), torch.zeros(SPEAKER_EMBEDDING_SIZE)
    return Utterance(id, "", text, instruct, tuple(tokens), *nothing)
