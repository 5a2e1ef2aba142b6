"""flite through its library: samples, phones, words and F0 belong together."""

import numpy as np
import pytest

from training.corpus import trim
from training.flite import PHONES, SPEAKERS, Flite, FliteError

TEXT = "hello, my name is david."


def voice(speaker: str) -> Flite:
    try:
        return Flite(speaker)
    except FliteError as error:
        pytest.skip(f"flite is not installed: {error}")


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_a_teacher_tells_what_it_says(speaker: str) -> None:
    spoken = voice(speaker).speak(TEXT)
    assert spoken.num_words == 5
    assert sorted(set(spoken.words.tolist())) == [-1, 0, 1, 2, 3, 4]
    said = "".join(
        PHONES[phone] for phone, word in zip(spoken.phones, spoken.words, strict=True) if word == 3
    )
    assert said == "ihz"
    # kal16 cuts a tenth of a second off its last pause.
    assert spoken.ends_s[-1] == pytest.approx(len(spoken.samples) / 16_000, abs=0.13)
    voiced = spoken.f0_hz[spoken.f0_hz > 0]
    assert 60 < np.median(voiced) < 260
    assert 0.3 < len(voiced) / len(spoken.f0_hz) <= 1.0


def test_trimming_leaves_a_little_silence() -> None:
    spoken = trim(voice("slt").speak(TEXT))
    assert spoken.ends_s[0] == pytest.approx(0.10, abs=0.006)
    assert spoken.ends_s[-1] - spoken.ends_s[-2] == pytest.approx(0.16, abs=0.006)
    assert len(spoken.samples) == 80 * len(spoken.f0_hz)


def test_an_unknown_speaker_is_refused() -> None:
    with pytest.raises(ValueError, match="'bob': expected one of rms, slt, awb, kal16"):
        Flite("bob")
