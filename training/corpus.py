"""Stage: what the teachers say, and how they say it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from firstword.models.config import SAMPLES_PER_TOKEN, TOKEN_RATE_HZ
from firstword.models.frontend.features import WHISPER_SAMPLE_RATE_HZ
from training import ragged
from training.progress import work_through
from training.settings import Settings, VoiceSettings
from training.teachers import open_teacher
from training.teachers.spoken import (
    SAMPLE_RATE_HZ,
    STEP_RATE_HZ,
    STEP_SAMPLES,
    Spoken,
    Teacher,
    TeacherError,
)
from training.text.corpus import make_texts, read_words

STEPS_PER_TOKEN = STEP_RATE_HZ // TOKEN_RATE_HZ  # 16
_SILENCE_BEFORE_S = 0.10
_SILENCE_AFTER_S = 0.16
MIN_TOKENS, MAX_TOKENS = 6, 750
_FIELDS = ("samples", "phones", "ends_s", "words", "f0_hz", "cycles")


@dataclass(frozen=True, slots=True)
class Shard:
    """What one voice says in one file of the corpus."""

    path: Path
    voice: VoiceSettings
    texts: tuple[str, ...]


def run(settings: Settings) -> None:
    """Writes <folder>/corpus/<number>-<voice>.npz; those already there are kept.

    The stages behind it take what is there, so they can begin before the slow teachers have ended.
    """
    shards = plan(settings)
    jobs = [partial(speak_shard, shard) for shard in shards if not shard.path.exists()]
    work_through(settings, "corpus", jobs, len(shards))


def plan(settings: Settings) -> list[Shard]:
    """Which voice says what: the same from one run to the next, the texts being kept in a file."""
    folder = settings.path / "corpus"
    make = partial(make_texts, settings.corpus, random.Random(settings.seed))
    return shared_out(folder, make, settings.voices, settings.corpus.shard)


def shared_out(
    folder: Path, make: Callable[[], list[str]], all_voices: Sequence[VoiceSettings], size: int
) -> list[Shard]:
    """Return the shards of the folder's texts, `size` in each; `make` makes them where none are kept.

    Voices take turns by their shares, so that the first shards have about the shares of all. What is spoken
    already keeps its voice: voices may be added to a corpus that has begun.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "texts.txt"
    if not path.exists():
        path.write_text("".join(f"{text}\n" for text in make()), encoding="utf-8")
    texts = path.read_text(encoding="utf-8").splitlines()
    spoken = {path.stem.split("-", 1)[0]: path.stem.split("-", 1)[1] for path in folder.glob("*-*.npz")}
    voices = {voice.name: voice for voice in all_voices}
    whole = sum(voice.share for voice in all_voices)
    taken = dict.fromkeys(voices, 0)
    shards = []
    for number, start in enumerate(range(0, len(texts), size)):
        voice = voices.get(spoken.get(f"{number:04d}", "")) or max(
            all_voices, key=lambda one: (number + 1) * one.share / whole - taken[one.name]
        )
        taken[voice.name] += 1
        path = folder / f"{number:04d}-{voice.name}.npz"
        shards.append(Shard(path, voice, tuple(texts[start : start + size])))
    return shards


def spoken_shards(settings: Settings) -> list[Shard]:
    """Those that are written, in their order."""
    return [shard for shard in plan(settings) if shard.path.exists()]


def speak_shard(shard: Shard) -> float:
    """Returns the hours spoken. What a teacher cannot say, or says in other words, is left out."""
    teacher = _teacher(shard.voice.teacher)
    kept = []
    for text in shard.texts:
        try:
            spoken = trim(teacher.speak(text))
        except TeacherError:
            continue
        num_tokens = len(spoken.samples) // SAMPLES_PER_TOKEN
        if MIN_TOKENS <= num_tokens <= MAX_TOKENS and spoken.num_words == len(read_words(text)):
            kept.append((text, spoken))
    write_shard(shard, kept, teacher.knows_phase)
    return sum(len(one.samples) for _, one in kept) / SAMPLE_RATE_HZ / 3600


@cache
def _teacher(call: str) -> Teacher:
    """One a process."""
    return open_teacher(call)


def write_shard(shard: Shard, kept: list[tuple[str, Spoken]], knows_phase: bool) -> None:
    """kept: texts and what the voice said for each."""
    ragged.save(
        shard.path,
        {name: [getattr(one, name) for _, one in kept] for name in _FIELDS},
        texts=np.array([text for text, _ in kept]),
        says=np.array([one.says for _, one in kept]),
        num_words=np.array([one.num_words for _, one in kept]),
        knows_phase=np.full(len(kept), knows_phase),
    )


def read_shard(path: Path) -> list[tuple[str, Spoken, bool]]:
    """Text, what was said, and whether its phase is known."""
    return [
        (
            str(row.pop("texts")),
            Spoken(
                num_words=int(row.pop("num_words")),
                says=str(row.pop("says")),
                **{name: row[name] for name in _FIELDS},
            ),
            bool(row["knows_phase"]),
        )
        for row in ragged.load(path)
    ]


def trim(spoken: Spoken) -> Spoken:
    """Cuts the silence at both ends to what the voice shall keep, and the end to whole speech tokens."""
    first = float(spoken.ends_s[0]) - _SILENCE_BEFORE_S if spoken.phones[0] == 0 else 0.0
    last = float(spoken.ends_s[-2]) + _SILENCE_AFTER_S if spoken.phones[-1] == 0 else float(spoken.ends_s[-1])
    start = max(0, round(first * STEP_RATE_HZ))
    stop = min(len(spoken.f0_hz), round(last * STEP_RATE_HZ))
    stop -= (stop - start) % STEPS_PER_TOKEN
    moved = np.clip(spoken.ends_s - start / STEP_RATE_HZ, 0.0, (stop - start) / STEP_RATE_HZ)
    return replace(
        spoken,
        samples=spoken.samples[start * STEP_SAMPLES : stop * STEP_SAMPLES],
        ends_s=moved.astype(np.float32),
        f0_hz=spoken.f0_hz[start:stop],
        cycles=spoken.cycles[start:stop],
    )


def heard(spoken: Spoken) -> NDArray[np.float32]:
    """What the networks that hear get: (n,) at 16 kHz, 640 samples a speech token."""
    samples = soxr.resample(spoken.waveform, SAMPLE_RATE_HZ, WHISPER_SAMPLE_RATE_HZ)
    wanted = len(spoken.samples) * WHISPER_SAMPLE_RATE_HZ // SAMPLE_RATE_HZ
    return np.pad(samples, (0, max(0, wanted - len(samples))))[:wanted].astype(np.float32)
