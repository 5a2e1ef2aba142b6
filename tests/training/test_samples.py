"""What docs/samples has: each speaker once, short and audible, in a few hundred kilobytes."""

import re
from pathlib import Path

import numpy as np
import soundfile

from training.samples import FOLDER, spoken

MAX_BYTES = 500_000


def test_each_speaker_can_be_listened_to() -> None:
    names = {name for name, _, _ in spoken()}
    files = sorted(FOLDER.glob("*.opus"))
    assert {path.stem for path in files} == names
    for path in files:
        samples, rate_hz = soundfile.read(path)
        assert 1.5 < len(samples) / rate_hz < 9, path
        assert np.abs(samples).max() > 0.1, path
    assert sum(path.stat().st_size for path in files) < MAX_BYTES


def test_the_page_of_the_voice_links_to_each() -> None:
    page = (FOLDER.parent / "voice.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(samples/([a-z-]+)\.opus\)", page)
    assert sorted(linked) == sorted(Path(name).name for name, _, _ in spoken())
