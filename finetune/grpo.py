"""Group-relative policy optimization (arXiv 2402.03300) of a language model, by rewards of what it says.

TRL's trainer wants a transformers model that generates text and a reward of text; here it is our decoder,
whose rows are sampled together, so the loop is this file. Each step samples a group of utterances for every
text, by the plain distribution at a temperature; an utterance's advantage is its reward within the group.
The policy is updated once by what it sampled, so there is no ratio to clip; a penalty keeps it near the
network before (the estimator k3 of the divergence, http://joschu.net/blog/kl-approx.html).
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from firstword.finetune import lora
from firstword.finetune.errors import FinetuneError
from firstword.finetune.losses import teacher_forced
from firstword.finetune.result import STATE_FOLDER
from firstword.finetune.reward.rewarder import RewardItem, Score, Scorer
from firstword.finetune.sft import FineTuning, check_out, finish, run_identity, train_settings
from firstword.finetune.sources import read_lines
from firstword.finetune.task import Task, TaskLoss
from firstword.finetune.text import TextReader
from firstword.finetune.trainer import StepReport, Trainer
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import SamplingConfig
from firstword.models.frontend.modes import ModelInput, choose_mode, cross_lingual, sft, zero_shot
from firstword.models.lm.decoder import RowRequest, SpeechDecoder, Stopped
from firstword.models.lm.plan import IGNORED, Layout, LengthRatios, OfflinePlan, offline_layout
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM

_LEAST_DEVIATION: Final = 0.1
"""Of a group's rewards. Utterances that differ in likeness alone would otherwise teach as much as errors."""


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """group: utterances of a text. texts: of a step and process. kl: weight of the penalty."""

    group: int = 8
    texts: int = 4
    kl: float = 0.02
    temperature: float = 1.0
    speaker: str | None = None  # None: the checkpoint's default


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What was sampled for a text, and the layout by which it is learned."""

    text: str
    tokens: tuple[int, ...]
    has_ended: bool
    layout: Layout


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    sampled: list[Sampled]
    advantages: Tensor  # (B,)


class GrpoTask(Task):
    network: Qwen2LM | TransformerLM

    def __init__(
        self, network: Qwen2LM | TransformerLM, settings: GrpoSettings, speaker: Tensor | None
    ) -> None:
        """speaker (192,): of CosyVoice 1's language model."""
        super().__init__()
        self.network = network
        self._settings, self._speaker = settings, speaker
        # In a tuple, so that it is no part of what is trained and saved.
        self._reference = (deepcopy(network).requires_grad_(False).eval(),)

    def collate(self, rows: Sequence[int], step: int) -> Any:
        raise AssertionError("utterances are sampled, not read")

    def weigh(self, batch: Rollouts) -> float:
        """Tokens: each counts alike, however long its utterance."""
        return float(sum(target != IGNORED for one in batch.sampled for target in one.layout.targets))

    def to_device(self, batch: Rollouts) -> Rollouts:
        device = self.network.head.weight.device
        self._reference[0].to(device)
        return replace(batch, advantages=batch.advantages.to(device))

    def forward(self, batch: Rollouts) -> TaskLoss:
        layouts = [one.layout for one in batch.sampled]
        speakers = [self._speaker] * len(layouts)
        logp, counts = self._log_probabilities(self.network, layouts, speakers)
        with torch.no_grad():
            before, _ = self._log_probabilities(self._reference[0], layouts, speakers)
        ratio = (logp - logp.detach()).exp()  # 1, whose gradient is that of logp
        gain = (ratio * batch.advantages[:, None])[counts].mean()
        moved = (before - logp)[counts]
        divergence = (moved.exp() - moved - 1).mean()
        return TaskLoss(self._settings.kl * divergence - gain, {"kl": divergence})

    def _log_probabilities(
        self,
        network: Qwen2LM | TransformerLM,
        layouts: Sequence[Layout],
        speakers: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        """-> of the targets (B, T), at the sampling's temperature, and which of them count."""
        logits, targets = teacher_forced(network, layouts, speakers)
        logp = (logits.float() / self._settings.temperature).log_softmax(-1)
        return logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0], targets != IGNORED


class Speaking:
    """Samples utterances of a speaker's voice by a language model, as the service prompts it."""

    def __init__(self, checkpoint: Checkpoint, settings: GrpoSettings) -> None:
        """Raises FinetuneError for a speaker that the checkpoint does not have."""
        speakers = checkpoint.load_speakers()
        name = settings.speaker or next(iter(speakers), None)
        if name is None or name not in speakers:
            raise FinetuneError(
                f"no speaker {name!r}; {checkpoint.directory} has {', '.join(speakers) or 'none'}"
            )
        self.speaker_name, self.speaker = name, speakers[name]
        self._checkpoint, self._settings = checkpoint, settings
        self._tokenizer = checkpoint.load_tokenizer()
        self._reader = TextReader(checkpoint)

    @property
    def lm_speaker(self) -> Tensor | None:
        """What CosyVoice 1's language model is told of the speaker."""
        return self.speaker.embedding if self._checkpoint.config.family == "cosyvoice1" else None

    def say(
        self, network: Qwen2LM | TransformerLM, texts: Sequence[str], seeds: Sequence[int]
    ) -> list[Sampled]:
        """Draw one utterance of each text and seed from the plain distribution at the temperature."""
        plain = SamplingConfig(
            top_p=1.0,
            top_k=network.vocabulary.num_classes,
            win_size=1,
            tau_r=2.0,  # never met: nothing is drawn again
            temperature=self._settings.temperature,
        )
        decoder = SpeechDecoder(network, plain)
        ratios = LengthRatios(0.0, self._checkpoint.ratios.maximum)
        given = [self._input(text) for text in texts]
        rows = [
            decoder.add(
                RowRequest(
                    OfflinePlan(
                        network.vocabulary,
                        one.text_ids,
                        one.prefix_text_ids + one.prompt_text_ids,
                        one.lm_prompt_tokens.tolist(),
                        ratios,
                    ),
                    seed,
                    speaker=self.lm_speaker,
                )
            )
            for one, seed in zip(given, seeds, strict=True)
        ]
        reasons: dict[int, str] = {}
        while decoder.rows:
            for event in decoder.step():
                if isinstance(event, Stopped):
                    reasons[id(event.row)] = event.reason
        return [
            self._sampled(network, text, one, tuple(row.plan.speech_ids), reasons[id(row)] == "eos")
            for text, one, row in zip(texts, given, rows, strict=True)
        ]

    def _input(self, text: str) -> ModelInput:
        checkpoint, speaker = self._checkpoint, self.speaker
        family, ids = checkpoint.config.family, self._reader.instruct_ids + self._reader.read(text)
        continues = checkpoint.traits.continues_prompts
        mode = choose_mode(family, speaker, has_instruction=False, continues_prompts=continues)
        if mode == "zero_shot":
            return zero_shot(family, speaker, self._reader.read(text), self._tokenizer)
        read = cross_lingual if mode == "cross_lingual" else sft
        return read(family, speaker, ids, self._tokenizer)

    @staticmethod
    def _sampled(
        network: Qwen2LM | TransformerLM,
        text: str,
        given: ModelInput,
        tokens: tuple[int, ...],
        has_ended: bool,
    ) -> Sampled:
        prompt = given.lm_prompt_tokens.tolist()
        text_ids = given.prefix_text_ids + given.prompt_text_ids + given.text_ids
        layout = offline_layout(network.vocabulary, text_ids, [*prompt, *tokens])
        first = len(layout.targets) - len(tokens) - 1
        targets = [IGNORED] * first + list(layout.targets[first:])
        if not has_ended:
            targets[-1] = IGNORED
        return Sampled(text, tokens, has_ended, Layout(layout.input_ids, tuple(targets)))


def advantages_of(rewards: Sequence[float], group: int) -> Tensor:
    """(B,): within each group of neighbors, less the mean, over the deviation or _LEAST_DEVIATION."""
    values = torch.tensor(rewards, dtype=torch.float32).view(-1, group)
    deviation = values.std(dim=1, correction=0, keepdim=True).clamp(min=_LEAST_DEVIATION)
    return ((values - values.mean(dim=1, keepdim=True)) / deviation).flatten()


def read_texts(path: Path) -> list[str]:
    """A text a line. Raises FinetuneError for an empty file."""
    texts = [line.strip() for line in read_lines(path) if line.strip()]
    if not texts:
        raise FinetuneError(f"{path}: no text; expected one a line")
    return texts


def reinforce(
    asked: FineTuning, settings: GrpoSettings, scorer: Scorer, seed: int = 0
) -> Iterator[StepReport]:
    """Train by the texts of the file `asked.data`, and write the result. Raises FinetuneError."""
    checkpoint, out = asked.checkpoint, asked.out
    check_out(checkpoint, out, goes_on=True)
    if asked.steps is None:
        raise FinetuneError("--steps is needed: there are no epochs of what is sampled")
    texts = read_texts(asked.data)
    speaking = Speaking(checkpoint, settings)
    network = checkpoint.load_lm().requires_grad_(True)
    task = GrpoTask(network, settings, speaking.lm_speaker)
    if asked.lora.rank:
        lora.inject(task.network, asked.lora)
    identity = {**run_identity(asked, texts), **asdict(settings)}
    trainer = Trainer(task, out / STATE_FOLDER, train_settings(asked, asked.steps, seed), identity)

    def batches_at(step: int) -> list[Rollouts]:
        rng = np.random.default_rng((seed, step, trainer.rank))
        chosen = [texts[one] for one in rng.choice(len(texts), settings.texts, len(texts) < settings.texts)]
        repeated = [text for text in chosen for _ in range(settings.group)]
        task.network.eval()
        sampled = speaking.say(task.network, repeated, rng.integers(1 << 31, size=len(repeated)).tolist())
        scores = scorer.score(reward_items(sampled, speaking.speaker_name))
        task.step_values = step_values(scores)
        advantages = advantages_of([score.reward for score in scores], settings.group)
        return in_batches(sampled, advantages, asked.recipe.batch_tokens)

    yield from trainer.fit(batches_at, reads_ahead=False)
    if trainer.is_main:
        finish(asked, trainer, {})
    trainer.accelerator.end_training()


def reward_items(sampled: Sequence[Sampled], speaker: str) -> list[RewardItem]:
    return [RewardItem(one.tokens, one.text, speaker, one.has_ended) for one in sampled]


def step_values(scores: Sequence[Score]) -> dict[str, float]:
    """Means over a step's utterances, for the log."""
    return {
        "reward": float(np.mean([score.reward for score in scores])),
        "errors": float(np.mean([min(1.0, score.error_rate) for score in scores])),
        "seconds": float(np.mean([score.duration_s for score in scores])),
    }


def in_batches(sampled: Sequence[Sampled], advantages: Tensor, size: int) -> list[Rollouts]:
    """Utterances by their lengths, in batches of so many padded positions."""
    order = sorted(range(len(sampled)), key=lambda row: len(sampled[row].layout.input_ids))
    batches: list[list[int]] = []
    for row in order:
        if batches and (len(batches[-1]) + 1) * len(sampled[row].layout.input_ids) <= size:
            batches[-1].append(row)
        else:
            batches.append([row])
    return [Rollouts([sampled[row] for row in rows], advantages[rows]) for rows in batches]
