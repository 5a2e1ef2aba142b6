"""Heads that follow the text are found, and none where none does."""

from pathlib import Path

import numpy as np
import pytest

from firstword.models.checkpoint.alignment_heads import (
    MIN_SCORE,
    best_heads,
    num_texts,
    score_heads,
    way_score,
)
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import CheckpointError
from tests.support.checkpoints import small_checkpoint

BUILTIN = Path(__file__).parents[2] / "models" / "builtin"


def test_the_trained_heads_of_the_builtin_voice_are_found() -> None:
    checkpoint = open_checkpoint(BUILTIN)
    rounds = list(score_heads(checkpoint))
    assert len(rounds) == num_texts(checkpoint.traits.languages) == 5
    found = best_heads(rounds[-1])
    assert set(checkpoint.traits.alignment_heads) <= set(found)
    assert len(found) <= 4
    assert rounds[-1][0].score > 2 * MIN_SCORE


def test_none_is_found_in_random_weights() -> None:
    """In one text, where less is averaged away than in all."""
    scores = next(score_heads(open_checkpoint(small_checkpoint("cosyvoice3"))))
    assert scores == sorted(scores, key=lambda one: -one.score)
    assert best_heads(scores) == ()


def test_cosyvoice1_has_none() -> None:
    with pytest.raises(CheckpointError, match="alignment heads are those of the Qwen2"):
        next(score_heads(open_checkpoint(small_checkpoint("cosyvoice1"))))


def test_a_way_goes_from_corner_to_corner() -> None:
    steady = np.eye(6, dtype=np.float32)
    assert way_score(steady) == 1.0
    assert way_score(steady[::-1]) < 0.5
    assert way_score(np.eye(3, 30, dtype=np.float32)) == 0.0  # too few speech tokens to come to its end
    assert way_score(np.full((12, 6), 1 / 6, np.float32)) == pytest.approx(1 / 6)
