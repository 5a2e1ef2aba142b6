"""Recordings that nobody spoke, with texts, and data prepared of them once in a test run."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import soundfile

from firstword.finetune.prepare import PrepareSettings, prepare
from firstword.finetune.sources import find_sources
from firstword.models.config import Family
from tests.support.checkpoints import small_checkpoint

RATE_HZ = 24_000
TEXTS = ("Hello there.", "One two three.", "A quick brown fox.", "It rains again today.")


def write_recordings(folder: Path, count: int, speaker: str = "ann") -> Path:
    """Pairs NAME.wav and NAME.txt in a folder of the speaker, 1.2 to 2.4 s each."""
    inner = folder / speaker
    inner.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        seconds = 1.2 + 0.3 * (number % 5)
        time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
        pitch = 120 + 20 * (number % 7)
        tone = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 8))
        level = 0.1 * (1 + np.sin(2 * np.pi * 3 * time)) / 2
        samples = (level * tone + 1e-3 * rng.standard_normal(len(time))).astype(np.float32)
        soundfile.write(inner / f"{number:03}.wav", samples, RATE_HZ)
        (inner / f"{number:03}.txt").write_text(TEXTS[number % len(TEXTS)])
    return folder


@cache
def prepared(family: Family, count: int = 12) -> Path:
    """For reading only: all tests share it."""
    folder = Path(mkdtemp(prefix="firstword-data-"))
    recordings = write_recordings(folder / "recordings", count)
    out = folder / "data"
    for _ in prepare(find_sources(recordings), out, PrepareSettings(small_checkpoint(family), "en")):
        pass
    shutil.rmtree(recordings)
    return out
