"""Stage 2: what the networks read and answer, computed once from the teachers' samples."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from firstword.models.config import (
    FRAME_RATE_HZ,
    FRAMES_PER_TOKEN,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_TOKEN,
    TOKEN_RATE_HZ,
    MelConfig,
)
from firstword.models.frontend.features import WHISPER_FRAME_RATE_HZ, MelExtractor, WhisperMelExtractor
from training import corpus, ragged
from training.flite import F0_STEP_S, Flite, Spoken
from training.flite import SAMPLE_RATE_HZ as TEACHER_RATE_HZ
from training.progress import work_through
from training.settings import Settings

MEL = MelConfig(sample_rate_hz=SAMPLE_RATE_HZ, n_fft=1920, hop_samples=480, win_samples=1920)
WHISPER_FRAMES_PER_TOKEN = WHISPER_FRAME_RATE_HZ // TOKEN_RATE_HZ  # 4
_TEACHER_SAMPLES_PER_TOKEN = TEACHER_RATE_HZ // TOKEN_RATE_HZ  # 640
_MIN_TOKENS, _MAX_TOKENS = 6, 750


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one teacher said once: T speech tokens long, F = 2 T mel frames."""

    speaker: str
    text: str
    num_words: int  # as flite counted them
    mel: NDArray[np.float16]  # (F, 80) natural log
    phones: NDArray[np.uint8]  # (F,)
    words: NDArray[np.int16]  # (F,), a silence belongs to the word after it
    f0_hz: NDArray[np.float16]  # (F,)
    whisper: NDArray[np.float16] | None = None  # (4 T, 128)
    samples: NDArray[np.int16] | None = None  # (960 T,)

    @property
    def heard(self) -> NDArray[np.float16]:
        """`whisper`, where it was read."""
        assert self.whisper is not None, "read_features without whisper"
        return self.whisper

    @property
    def num_tokens(self) -> int:
        return len(self.mel) // FRAMES_PER_TOKEN


def run(settings: Settings) -> None:
    """Writes <folder>/features/<shard>.{frames,whisper,samples}.npz; those already there are kept."""
    folder = settings.path / "features"
    folder.mkdir(parents=True, exist_ok=True)
    shards = corpus.plan(settings)
    jobs = [
        partial(write_features, shard.path, folder)
        for shard in shards
        if not (folder / f"{shard.path.stem}.frames.npz").exists()
    ]
    work_through(settings, "features", jobs, len(shards))


def read_features(
    settings: Settings, *, whisper: bool = False, samples: bool = False, max_shards: int | None = None
) -> list[Utterance]:
    """The corpus' utterances in their order; of `max_shards` files if given."""
    folder = settings.path / "features"
    kinds = ["frames", *["whisper"] * whisper, *["samples"] * samples]
    utterances = []
    for path in sorted(folder.glob("*.frames.npz"))[:max_shards]:
        shard = path.name.removesuffix(".frames.npz")
        for row in ragged.load(*(folder / f"{shard}.{kind}.npz" for kind in kinds)):
            text, num_words = str(row.pop("texts")), int(row.pop("num_words"))
            utterances.append(Utterance(shard.split("-")[1], text, num_words, **row))
    return utterances


def write_features(shard: Path, folder: Path) -> float:
    """Returns the hours kept; utterances of less than 0.24 s or more than 30 s are left out."""
    torch.set_num_threads(1)
    mel_of, whisper_of = MelExtractor(MEL), WhisperMelExtractor()
    kept = []
    for text, spoken in corpus.read_shard(shard):
        num_tokens = len(spoken.samples) // _TEACHER_SAMPLES_PER_TOKEN
        if not _MIN_TOKENS <= num_tokens <= _MAX_TOKENS:
            continue
        heard = spoken.waveform[: num_tokens * _TEACHER_SAMPLES_PER_TOKEN]
        samples = upsampled(heard)
        phones, words, f0_hz = _per_frame(spoken, num_tokens * FRAMES_PER_TOKEN)
        kept.append(
            Utterance(
                "",
                text,
                spoken.num_words,
                mel_of(torch.from_numpy(samples)).T.half().numpy(),
                phones,
                words,
                f0_hz,
                whisper_of(torch.from_numpy(heard)).T.half().numpy(),
                (samples.clip(-1, 1) * 32767).astype(np.int16),
            )
        )
    for name in ("whisper", "samples"):
        ragged.save(folder / f"{shard.stem}.{name}.npz", {name: [getattr(one, name) for one in kept]})
    ragged.save(
        folder / f"{shard.stem}.frames.npz",
        {name: [getattr(one, name) for one in kept] for name in ("mel", "phones", "words", "f0_hz")},
        texts=np.array([one.text for one in kept]),
        num_words=np.array([one.num_words for one in kept]),
    )
    return sum(len(one.mel) for one in kept) / FRAME_RATE_HZ / 3600


def teacher_samples(flite: Flite, text: str) -> NDArray[np.float32]:
    """What a teacher says, at the voice's rate."""
    return upsampled(corpus.trim(flite.speak(text)).waveform)


def upsampled(heard: NDArray[np.float32]) -> NDArray[np.float32]:
    """A teacher's samples at the voice's rate, exactly as long as their whole tokens."""
    samples = soxr.resample(heard, TEACHER_RATE_HZ, SAMPLE_RATE_HZ)
    wanted = len(heard) // _TEACHER_SAMPLES_PER_TOKEN * SAMPLES_PER_TOKEN
    return np.pad(samples, (0, max(0, wanted - len(samples))))[:wanted].astype(np.float32)


def _per_frame(
    spoken: Spoken, num_frames: int
) -> tuple[NDArray[np.uint8], NDArray[np.int16], NDArray[np.float16]]:
    """Phone, word and F0 at the middle of every mel frame."""
    times = (np.arange(num_frames) + 0.5) / FRAME_RATE_HZ
    at = np.minimum(np.searchsorted(spoken.ends_s, times), len(spoken.ends_s) - 1)
    words = spoken.words.astype(np.int16).copy()
    for i in range(len(words) - 2, -1, -1):
        if words[i] < 0:
            words[i] = words[i + 1]
    for i in range(1, len(words)):
        if words[i] < 0:
            words[i] = words[i - 1]
    steps = np.minimum((times / F0_STEP_S).astype(int), len(spoken.f0_hz) - 1)
    return spoken.phones[at], words[at], spoken.f0_hz[steps].astype(np.float16)
