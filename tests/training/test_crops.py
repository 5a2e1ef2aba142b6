"""Pieces out of the corpus: whose they are, and that their columns belong together."""

from collections import Counter
from collections.abc import Collection

import numpy as np

from training.crops import Crops

MANY, FEW = 16 * 400, 400


def crops(shipped: Collection[str] = ()) -> Crops:
    """`much` says sixteen times what the others do; the second column goes twice as fast as the first."""
    lengths = {"much": MANY, "little": FEW, "also little": FEW}
    utterances = [(name, (np.arange(n), np.arange(2 * n) // 2)) for name, n in lengths.items()]
    return Crops(utterances, (1, 2), shipped)


def shares(of: Crops) -> dict[str, float]:
    rng, number = np.random.default_rng(0), 4000
    counts = Counter(speaker for speaker, _ in of.draw(number, 20, rng))
    return {speaker: count / number for speaker, count in counts.items()}


def test_a_speaker_comes_as_often_as_the_fourth_root_of_its_speech() -> None:
    found = shares(crops())
    assert abs(found["much"] - 0.5) < 0.03
    assert abs(found["little"] - 0.25) < 0.03
    assert abs(found["also little"] - 0.25) < 0.03


def test_shipped_speakers_are_half_of_what_is_drawn() -> None:
    found = shares(crops(["little", "also little"]))
    assert abs(found["much"] - 0.5) < 0.03
    assert abs(found["little"] - 0.25) < 0.03
    assert shares(crops(["much", "little", "also little"])) == shares(crops())


def test_the_columns_of_a_piece_belong_together() -> None:
    for _, (tokens, frames) in crops().draw(50, 20, np.random.default_rng(0)):
        assert len(tokens) == 20
        assert np.array_equal(np.repeat(tokens, 2), frames)
