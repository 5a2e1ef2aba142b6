"""A speaker's loudness is measured once, in the background, and corrected by one bounded gain."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from firstword.app.audio.dsp import Samples
from firstword.app.audio.loudness import integrated_lufs
from firstword.app.engine.loudness import CHINESE, ENGLISH, Loudness, Measured
from firstword.app.errors import SynthesisFailed
from firstword.app.speakers.interface import PreparedSpeaker
from tests.support.sounds import tone

RATE_HZ = 24_000
ANN = PreparedSpeaker("", None, None, 0)


def test_loudness_is_that_of_the_standard() -> None:
    """A sine of 997 Hz at full scale in one channel has -3.01 LUFS."""
    sine = tone(3.0, RATE_HZ, 997.0, level=1.0)
    assert integrated_lufs(sine, RATE_HZ) == pytest.approx(-3.01, abs=0.05)
    assert integrated_lufs(sine * np.float32(0.1), RATE_HZ) == pytest.approx(-23.01, abs=0.05)
    assert integrated_lufs(np.zeros(RATE_HZ, np.float32), RATE_HZ) is None


def test_gain_is_bounded_by_the_peak() -> None:
    assert Measured(-26.0, 0.2).gain(-20.0) == pytest.approx(10 ** (6 / 20))
    assert Measured(-26.0, 0.8).gain(-20.0) == pytest.approx(1.25)
    assert Measured(-14.0, 0.8).gain(-20.0) == pytest.approx(10 ** (-6 / 20))


def test_there_are_twenty_sentences_of_each_language() -> None:
    assert [len(set(ENGLISH)), len(set(CHINESE))] == [20, 20]


@pytest.mark.anyio
async def test_speaker_is_measured_once_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "loudness.json"
    said: list[str] = []
    measured = asyncio.Event()

    async def speak(text: str, seed: int, speaker: PreparedSpeaker) -> tuple[Samples, int]:
        assert speaker is ANN
        said.append(text)
        if len(said) == 5:
            raise SynthesisFailed("not now")
        return tone(1.0, RATE_HZ, 997.0, level=0.1), RATE_HZ

    loudness = Loudness(-20.0, path, "checkpoint", ("en",))
    running = asyncio.create_task(loudness.run(speak, measured.set))
    assert loudness.gain_of("ann", ANN) == 1
    async with asyncio.timeout(20):
        while not measured.is_set():
            loudness.gain_of("ann", ANN)  # it failed: the next that speaks has it measured again
            await asyncio.sleep(0)
    assert said[5:] == list(ENGLISH)
    assert loudness.gain_of("ann", ANN) == pytest.approx(10 ** (3.01 / 20), rel=0.01)
    running.cancel()
    await asyncio.wait([running])
    again = Loudness(-23.01, path, "checkpoint", ("en",))
    assert again.gain_of("ann", ANN) == pytest.approx(1, rel=0.01)
    assert again.gain_of("bob", ANN) == Loudness(-30, path, "other", ("en",)).gain_of("ann", ANN) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', json.dumps({"a": {"lufs": "x", "peak": 1}})])
def test_file_that_is_damaged_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "loudness.json"
    path.write_text(content, encoding="utf-8")
    assert Loudness(-20.0, path, "checkpoint", ("en",)).gain_of("ann", ANN) == 1
