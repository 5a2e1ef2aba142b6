"""The task of fine-tuning a language model: next speech token, whole or interleaved with its text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from firstword.finetune.dataset import Dataset
from firstword.finetune.losses import LossConfig, token_loss
from firstword.finetune.task import Task, TaskLoss
from firstword.finetune.utterance import Utterance
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import IGNORED, Layout, Vocabulary, training_layout
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM

BISTREAM_RATE = 0.5  # of the utterances whose speech is long enough


@dataclass(frozen=True, slots=True, eq=False)
class LMBatch:
    """speakers: (192,) each, of CosyVoice 1; None of others, whose language models take none."""

    layouts: list[Layout]
    speakers: list[Tensor | None]


class LanguageModelTask(Task):
    """speakers: the embedding of each that counts instead of the utterance's own."""

    network: Qwen2LM | TransformerLM

    def __init__(
        self,
        network: Qwen2LM | TransformerLM,
        dataset: Dataset,
        speakers: Mapping[str, Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.network = network
        self.loss_config = LossConfig.of(network.config)
        self._dataset, self._speakers, self._seed = dataset, speakers or {}, seed

    def collate(self, rows: Sequence[int], step: int) -> LMBatch:
        layouts, speakers = [], []
        for row in rows:
            one = self._dataset.read(row)
            coin = np.random.default_rng((self._seed, step, row)).random()
            layouts.append(layout_of(self.network, one, coin < BISTREAM_RATE))
            embedding = self._speakers.get(one.speaker, one.embedding)
            speakers.append(embedding if isinstance(self.network, TransformerLM) else None)
        return LMBatch(layouts, speakers)

    def weigh(self, batch: LMBatch) -> float:
        return weight_of(batch.layouts, self.loss_config)

    def to_device(self, batch: LMBatch) -> LMBatch:
        return batch  # ids; the network moves them

    def forward(self, batch: LMBatch) -> TaskLoss:
        found = token_loss(self.network, batch.layouts, batch.speakers, config=self.loss_config)
        return TaskLoss(found.loss, {"accuracy": found.accuracy})


def weight_of(layouts: Sequence[Layout], config: LossConfig) -> float:
    """What the next-token loss is divided by."""
    if not config.is_length_normalized:
        return float(len(layouts))
    return float(sum(target != IGNORED for layout in layouts for target in layout.targets))


def layout_of(network: Qwen2LM | TransformerLM, one: Utterance, wants_bistream: bool) -> Layout:
    """How the language model is shown an utterance."""
    config = network.config
    mix_ratio = config.mix_ratio if isinstance(config, Qwen2LMConfig) else (5, 15)
    vocabulary: Vocabulary = network.vocabulary
    can = vocabulary.fill is not None and wants_bistream
    return training_layout(vocabulary, one.text_ids, one.speech_ids, one.instruct_ids, mix_ratio, can)


def positions(dataset: Dataset) -> list[int]:
    """Of each row in the language model: text and speech."""
    return [
        int(text) + int(speech) + 3 for text, speech in zip(dataset.num_text, dataset.num_speech, strict=True)
    ]
