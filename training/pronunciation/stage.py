"""Stage: the pronouncing dictionary, words that are read in two ways, Mandarin's phrases, and the network for
unknown words.
"""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.tokenizer.accents import accent_file
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE
from firstword.models.tokenizer.mandarin import MANDARIN_FILE
from firstword.models.tokenizer.pronunciation import (
    DICTIONARY_FILE,
    NETWORK_FILE,
    SOUNDS,
    Dictionary,
    collapse,
    letters_of,
    read_dictionary,
)
from training import corpus, trainer
from training.onnx_export import export_onnx
from training.pronunciation.british import readings
from training.pronunciation.dictionary import collect, write_dictionary
from training.pronunciation.heteronyms import write_table
from training.pronunciation.letters import SLOTS, LetterReader
from training.pronunciation.mandarin import write_phrases
from training.settings import Settings

STAGE = "pronunciation"
_HELD_EVERY = 40  # words kept from the training, to see how it goes
_MAX_HELD = 2000


def folder(settings: Settings) -> Path:
    return settings.path / STAGE


def run(settings: Settings) -> None:
    """Writes <folder>/pronunciation/{dictionary.gz,heteronyms.json,british.gz,letters.onnx}, and mandarin.gz
    where Chinese characters are read."""
    plan = settings.pronunciation
    folder(settings).mkdir(parents=True, exist_ok=True)
    path = folder(settings) / DICTIONARY_FILE
    if not path.exists():
        write_dictionary(path, collect())
    heteronyms = folder(settings) / HETERONYMS_FILE
    if not heteronyms.exists():
        write_table(heteronyms, (text for shard in corpus.plan(settings) for text in shard.texts))
    british = folder(settings) / accent_file("british")
    if not british.exists():
        write_dictionary(british, readings(read_dictionary(path)))
    mandarin = folder(settings) / MANDARIN_FILE
    if settings.reads_mandarin and not mandarin.exists():
        write_phrases(mandarin)
    model = build(settings)
    if trainer.is_trained(settings, STAGE, plan.train):
        trainer.load_average(settings, STAGE, model)
    else:
        _train(settings, model, read_dictionary(path))
    example = torch.tensor([letters_of("example")])
    lengths: dict[str, object] = {"letters": {1: torch.export.Dim("T", min=2, max=64)}}
    export_onnx(model, (example,), folder(settings) / NETWORK_FILE, ["letters"], "logits", lengths)


def build(settings: Settings) -> LetterReader:
    return LetterReader(settings.pronunciation.width, settings.pronunciation.layers)


def _train(settings: Settings, model: LetterReader, words: Dictionary) -> None:
    plan = settings.pronunciation
    dice = trainer.seeded(settings, STAGE)
    pairs = readable(words)
    random.Random(settings.seed).shuffle(pairs)
    held = pairs[::_HELD_EVERY][:_MAX_HELD]
    lengths = np.array([len(letters) for letters, _ in pairs])
    learned = np.flatnonzero(np.arange(len(pairs)) % _HELD_EVERY != 0)

    def losses_of(_: float) -> trainer.Losses:
        first = lengths[dice.numpy.choice(learned)]  # words about equally long
        near = learned[np.abs(lengths[learned] - first) <= 1]
        chosen = dice.numpy.choice(near, plan.train.batch)
        letters, marks, slots, counts = trainer.on_device(_batch([pairs[place] for place in chosen]))
        log_p = model(letters).float().log_softmax(-1)
        loss = F.ctc_loss(log_p.transpose(0, 1), marks, slots, counts, zero_infinity=True)
        return {"loss": loss}

    def after(_: int) -> dict[str, float]:
        wanted = [tuple(SOUNDS[place] for place in places) for _, places in held]
        read = [pronounce(model, letters) for letters, _ in held]
        right = [one == other for one, other in zip(read, wanted, strict=True)]
        return {"words right": float(np.mean(right))}

    trainer.train(settings, plan.train, model, dice, losses_of, after)


def readable(words: Dictionary) -> list[tuple[list[int], list[int]]]:
    """Letters and places of marks of the words that the network has slots for."""
    places = {mark: place for place, mark in enumerate(SOUNDS)}
    pairs = []
    for word, marks in words.items():
        letters = letters_of(word)
        repeats = sum(a == b for a, b in pairwise(marks))
        if len(letters) >= 2 and len(marks) + repeats <= SLOTS * len(letters):
            pairs.append((letters, [places[mark] for mark in marks]))
    return pairs


@torch.no_grad()
def pronounce(model: LetterReader, letters: list[int]) -> tuple[str, ...]:
    best: list[int] = model(torch.tensor([letters]))[0].argmax(-1).tolist()
    return collapse(best)


def _batch(pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """-> letters (B, T), marks (B, M) from 1, slots (B,), numbers of marks (B,)."""
    letters = _padded([letters for letters, _ in pairs])
    marks = _padded([[1 + mark for mark in marks] for _, marks in pairs])
    slots = torch.tensor([SLOTS * len(letters) for letters, _ in pairs])
    return torch.from_numpy(letters), torch.from_numpy(marks), slots, torch.tensor([len(m) for _, m in pairs])


def _padded(rows: list[list[int]]) -> NDArray[np.int64]:
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
