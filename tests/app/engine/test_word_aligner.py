"""Words of speech tokens: decided with a fixed delay, in order, the same however text and tokens come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.engine.word_aligner import LAG_TOKENS, WordAligner

Way = list[int]


def attention(word_of_token: Way, num_words: int, noise: float = 0.0, seed: int = 0) -> list[np.ndarray]:  # type: ignore[type-arg]
    """One text token a word, two heads."""
    rng = np.random.default_rng(seed)
    rows = np.eye(num_words)[word_of_token] * (1 - noise) + noise * rng.random(
        (len(word_of_token), num_words)
    )
    return [np.stack([row, row]).astype(np.float32) / row.sum() for row in rows]


def aligned(rows: list[np.ndarray], num_words: int) -> Way:  # type: ignore[type-arg]
    aligner = WordAligner()
    for _ in range(num_words):
        aligner.add_word(1)
    for row in rows:
        aligner.add_token(row)
    aligner.finish()
    return aligner.words


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.floats(0, 0.4), st.integers(0, 1000))
def test_clear_attention_is_followed(lengths: list[int], noise: float, seed: int) -> None:
    way = [word for word, length in enumerate(lengths) for _ in range(length)]
    found = aligned(attention(way, len(lengths), noise, seed), len(lengths))
    assert len(found) == len(way)
    assert found == sorted(found)
    if noise < 0.2:
        assert found == way


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 40))
def test_no_attention_makes_it_go_back(seed: int, num_words: int, num_tokens: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.dirichlet(np.ones(num_words), 2).astype(np.float32) for _ in range(num_tokens)]
    found = aligned(rows, num_words)
    assert len(found) == num_tokens
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < num_words


def test_a_word_is_decided_a_fixed_number_of_tokens_later_and_stays() -> None:
    way = [0, 0, 1, 1, 1, 2, 3, 3, 3, 4]
    aligner = WordAligner()
    for _ in range(5):
        aligner.add_word(1)
    told: Way = []
    for count, row in enumerate(attention(way, 5, 0.3), start=1):
        aligner.add_token(row)
        assert len(aligner.words) == max(0, count - LAG_TOKENS)
        assert aligner.words[: len(told)] == told
        told = [*aligner.words]
    aligner.finish()
    assert aligner.words[: len(told)] == told
    assert aligner.words == way


def test_words_that_come_late_change_nothing() -> None:
    way = [0, 0, 1, 1, 2, 2, 2, 3, 3]
    rows = attention(way, 4, 0.2)
    aligner = WordAligner()
    num_words = 0
    for word, row in zip(way, rows, strict=True):
        while num_words < min(4, word + 2):  # one ahead of what is spoken
            aligner.add_word(1)
            num_words += 1
        aligner.add_token(row[:, :num_words])
    aligner.finish()
    assert aligner.words == aligned(rows, 4) == way


def test_a_word_of_several_text_tokens_is_one() -> None:
    aligner = WordAligner()
    aligner.add_word(2)
    aligner.add_word(1)
    for weights in ([0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.2, 0.8], [0.0, 0.0, 1.0]):
        aligner.add_token(np.array([weights], np.float32))
    aligner.finish()
    assert aligner.words == [0, 0, 1, 1]


def test_tokens_before_any_text_are_of_the_first_word() -> None:
    aligner = WordAligner()
    aligner.add_word(1)
    for row in (np.zeros((1, 0), np.float32), np.ones((1, 1), np.float32)):
        aligner.add_token(row)
    aligner.finish()
    assert aligner.words == [0, 0]


def test_a_word_that_is_hardly_read_is_skipped_only_for_much() -> None:
    unsure = attention([0, 0, 1, 2, 2], 3, 0.5)
    assert set(aligned(unsure, 3)) == {0, 1, 2}
    skipped = attention([0] * 4 + [2] * 4, 3)
    assert aligned(skipped, 3)[-1] == 2
    with pytest.raises(ValueError, match="attention over 4"):
        aligned([np.full((1, 4), 0.25, np.float32)], 3)
