"""Stage: what the networks read and answer, computed once from the teachers' samples."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.config import FRAME_RATE_HZ, FRAMES_PER_TOKEN, SAMPLE_RATE_HZ, TOKEN_RATE_HZ, MelConfig
from firstword.models.frontend.features import WHISPER_FRAME_RATE_HZ, MelExtractor, WhisperMelExtractor
from training import corpus, ragged
from training.progress import work_through
from training.settings import Settings
from training.teachers.spoken import STEP_RATE_HZ, Spoken

MEL = MelConfig(sample_rate_hz=SAMPLE_RATE_HZ, n_fft=1920, hop_samples=480, win_samples=1920)
WHISPER_FRAMES_PER_TOKEN = WHISPER_FRAME_RATE_HZ // TOKEN_RATE_HZ  # 4


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one voice said once: T speech tokens long, F = 2 T mel frames."""

    speaker: str
    text: str
    says: str  # phonemes; "" where the teacher does not tell
    num_words: int  # as the teacher counted them
    mel: NDArray[np.float16]  # (F, 80) natural log
    phones: NDArray[np.uint8]  # (F,)
    words: NDArray[np.int16]  # (F,), a silence belongs to the word after it
    f0_hz: NDArray[np.float16]  # (F,)
    whisper: NDArray[np.float16] | None = None  # (4 T, 128)

    @property
    def heard(self) -> NDArray[np.float16]:
        """`whisper`, where it was read."""
        assert self.whisper is not None, "read_features without whisper"
        return self.whisper

    @property
    def tells_sounds(self) -> bool:
        """Whether its teacher does; others may read English as another language."""
        return bool(self.says)

    @property
    def num_tokens(self) -> int:
        return len(self.mel) // FRAMES_PER_TOKEN


def run(settings: Settings) -> None:
    """Writes <folder>/features/<shard>.{frames,whisper}.npz; those already there are kept."""
    folder = settings.path / "features"
    folder.mkdir(parents=True, exist_ok=True)
    shards = corpus.spoken_shards(settings)
    jobs = [
        partial(write_features, shard.path, folder)
        for shard in shards
        if not (folder / f"{shard.path.stem}.frames.npz").exists()
    ]
    work_through(settings, "features", jobs, len(shards))


def shard_names(settings: Settings, of_each: int | None = None) -> list[str]:
    """Of the shards that have features, in their order; at most the first `of_each` of each voice."""
    paths = sorted((settings.path / "features").glob("*.frames.npz"))
    taken: Counter[str] = Counter()
    names = []
    for path in paths:
        name = path.name.removesuffix(".frames.npz")
        taken[voice_of(name)] += 1
        if of_each is None or taken[voice_of(name)] <= of_each:
            names.append(name)
    return names


def voice_of(shard: str) -> str:
    return shard.split("-", 1)[1]


def read_shard(settings: Settings, shard: str, *, whisper: bool = False) -> list[Utterance]:
    folder = settings.path / "features"
    kinds = ["frames", *["whisper"] * whisper]
    utterances = []
    for row in ragged.load(*(folder / f"{shard}.{kind}.npz" for kind in kinds)):
        text, says, num_words = str(row.pop("texts")), str(row.pop("says")), int(row.pop("num_words"))
        utterances.append(Utterance(voice_of(shard), text, says, num_words, **row))
    return utterances


def read_features(
    settings: Settings, *, whisper: bool = False, of_each: int | None = None
) -> list[Utterance]:
    """The corpus' utterances in their order; of at most `of_each` files of a voice."""
    return [
        one
        for shard in shard_names(settings, of_each)
        for one in read_shard(settings, shard, whisper=whisper)
    ]


def mel_statistics(utterances: Sequence[Utterance]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of each mel bin, from every fortieth utterance: two of (80,)."""
    sample = np.concatenate([one.mel for one in utterances[::40]]).astype(np.float32)
    return torch.from_numpy(sample.mean(0)), torch.from_numpy(sample.std(0))


def write_features(shard: Path, folder: Path) -> float:
    """Returns the hours."""
    torch.set_num_threads(1)
    mel_of, whisper_of = MelExtractor(MEL), WhisperMelExtractor()
    said = corpus.read_shard(shard)
    columns: dict[str, list[ragged.Array]] = {name: [] for name in ("mel", "phones", "words", "f0_hz")}
    heard = []
    for _, spoken, _ in said:
        mel = mel_of(torch.from_numpy(spoken.waveform)).T.half().numpy()
        phones, words, f0_hz = _per_frame(spoken, len(mel))
        columns["mel"].append(mel)
        columns["phones"].append(phones)
        columns["words"].append(words)
        columns["f0_hz"].append(f0_hz)
        heard.append(whisper_of(torch.from_numpy(corpus.heard(spoken))).T.half().numpy())
    ragged.save(folder / f"{shard.stem}.whisper.npz", {"whisper": heard})
    ragged.save(
        folder / f"{shard.stem}.frames.npz",
        columns,
        texts=np.array([text for text, _, _ in said]),
        says=np.array([spoken.says for _, spoken, _ in said]),
        num_words=np.array([spoken.num_words for _, spoken, _ in said]),
    )
    return sum(len(mel) for mel in columns["mel"]) / FRAME_RATE_HZ / 3600


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
    steps = np.minimum((times * STEP_RATE_HZ).astype(int), len(spoken.f0_hz) - 1)
    return spoken.phones[at], words[at], spoken.f0_hz[steps].astype(np.float16)
