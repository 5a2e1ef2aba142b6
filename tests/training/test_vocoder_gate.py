"""When a vocoder may speak for registered speakers."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from training.vocoder_gate import MIN_WORDS, Result, holds, read_recordings, table

HIFT = Result("HiFT", 10, 250, (3.0, 3.4))


@pytest.mark.parametrize(
    ("errors", "p808", "is_held"),
    [
        (10, (3.0, 3.4), True),
        (12, (3.1, 3.5), True),  # 0.008 more
        (13, (3.1, 3.5), False),  # 0.012 more
        (0, (3.0, 3.3), False),
    ],
)
def test_words_and_sound_both_count(errors: int, p808: tuple[float, ...], is_held: bool) -> None:
    assert holds(HIFT, Result("Harmonic Vocos", errors, 250, p808)) is is_held


def test_few_words_do_not_tell() -> None:
    few = Result("Harmonic Vocos", 0, MIN_WORDS - 1, (4.0,))
    with pytest.raises(ValueError, match="199 words; expected at least 200"):
        holds(HIFT, few)


def test_the_table_has_a_row_for_each() -> None:
    assert [*table([HIFT])][-1] == "| HiFT | 2 | 0.040 (10 of 250) | 3.20 ± 0.28 |"


def test_recordings_stand_beside_their_texts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \.wav and no \.flac"):
        read_recordings(tmp_path)
    soundfile.write(tmp_path / "one.wav", np.zeros((16_000, 2)), 16_000)
    with pytest.raises(FileNotFoundError, match=r"one\.txt"):
        read_recordings(tmp_path)
    (tmp_path / "one.txt").write_text("Nothing at all.\n")
    (one,) = read_recordings(tmp_path)
    assert one.text == "Nothing at all."
    assert one.samples.shape == (24_000,)
