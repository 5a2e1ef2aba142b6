"""Stage 1: what the teachers say, and how they say it."""

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from training import ragged
from training.flite import F0_RATE_HZ, SAMPLE_RATE_HZ, SAMPLES_PER_F0, SPEAKERS, Flite, Spoken
from training.progress import work_through
from training.settings import Settings
from training.text.corpus import make_texts

_SILENCE_BEFORE_S = 0.10
_SILENCE_AFTER_S = 0.16
_FIELDS = ("samples", "phones", "ends_s", "words", "f0_hz")


@dataclass(frozen=True, slots=True)
class Shard:
    """What one speaker says in one file of the corpus."""

    path: Path
    speaker: str
    texts: tuple[str, ...]


def run(settings: Settings) -> None:
    """Writes <folder>/corpus/<number>-<speaker>.npz; those already there are kept."""
    shards = plan(settings)
    jobs = [partial(speak_shard, shard) for shard in shards if not shard.path.exists()]
    work_through(settings, "corpus", jobs, len(shards))


def plan(settings: Settings) -> list[Shard]:
    """Which speaker says what: the same from one run to the next, the texts being kept in a file."""
    folder = settings.path / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    texts_path = folder / "texts.txt"
    if not texts_path.exists():
        texts_path.write_text("\n".join(make_texts(settings.corpus, random.Random(settings.seed))) + "\n")
    texts = texts_path.read_text().splitlines()
    size = settings.corpus.shard
    shards = []
    for number, start in enumerate(range(0, len(texts), size)):
        speaker = SPEAKERS[number % len(SPEAKERS)]
        shards.append(
            Shard(folder / f"{number:04d}-{speaker}.npz", speaker, tuple(texts[start : start + size]))
        )
    return shards


def speak_shard(shard: Shard) -> float:
    """Returns the hours spoken."""
    flite = Flite(shard.speaker)
    spoken = [trim(flite.speak(text)) for text in shard.texts]
    write_shard(shard, spoken)
    return sum(len(one.samples) for one in spoken) / SAMPLE_RATE_HZ / 3600


def write_shard(shard: Shard, spoken: list[Spoken]) -> None:
    """What its speaker said for each of its texts."""
    ragged.save(
        shard.path,
        {name: [getattr(one, name) for one in spoken] for name in _FIELDS},
        texts=np.array(shard.texts),
        num_words=np.array([one.num_words for one in spoken]),
    )


def read_shard(path: Path) -> list[tuple[str, Spoken]]:
    return [
        (str(row.pop("texts")), Spoken(num_words=int(row.pop("num_words")), **row))
        for row in ragged.load(path)
    ]


def trim(spoken: Spoken) -> Spoken:
    """Cuts the silence at both ends to what the voice shall keep."""
    first = float(spoken.ends_s[0]) - _SILENCE_BEFORE_S if spoken.phones[0] == 0 else 0.0
    last = float(spoken.ends_s[-2]) + _SILENCE_AFTER_S if spoken.phones[-1] == 0 else float(spoken.ends_s[-1])
    start = max(0, round(first * F0_RATE_HZ))  # steps of the F0 contour, so that both are cut alike
    stop = min(len(spoken.f0_hz), round(last * F0_RATE_HZ))
    return Spoken(
        spoken.samples[start * SAMPLES_PER_F0 : stop * SAMPLES_PER_F0],
        spoken.phones,
        np.clip(spoken.ends_s - start / F0_RATE_HZ, 0.0, (stop - start) / F0_RATE_HZ).astype(np.float32),
        spoken.words,
        spoken.num_words,
        spoken.f0_hz[start:stop],
    )
