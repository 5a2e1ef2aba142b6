"""Words of speech tokens: decided with a fixed delay, in order, the same however text and tokens come."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.core.transcript import TimedWord
from firstword.app.core.word_aligner import LAG_TOKENS, UtteranceWords, WordAligner
from firstword.app.text.words import Word
from firstword.models.lm.plan import TextQuery, TokenDetail

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


SOURCE = "One two three four."
WORDS = (Word(0, 3, 1), Word(4, 7, 1), Word(8, 13, 1), Word(14, 18, 2))
PER_TOKEN, RATE_HZ = 100, 2500


def utterance(rate: float = 1.0) -> UtteranceWords:
    words = UtteranceWords(PER_TOKEN, RATE_HZ, rate)
    words.first_sample = 5000
    words.add(SOURCE, WORDS, 5, char_start=10)
    return words


def in_chunks(
    words: UtteranceWords, details: list[TokenDetail], hop: int, trimmed: int = 0
) -> list[TimedWord]:
    """As the audio task asks: what is lookahead is no audio yet."""
    given: list[TimedWord] = []
    for end in range(hop, len(details), hop):
        out = max(0, (end - LAG_TOKENS) * PER_TOKEN - trimmed)
        new = words.take_ended(details[:end], trimmed, out, is_last=False)
        assert all(word.end - 5000 <= out for word in new)
        given += new
    return given + words.take_ended(details, trimmed, len(details) * PER_TOKEN - trimmed, is_last=True)


def details_of(way: Way) -> list[TokenDetail]:
    """As the language model gives them: keys that stand upright, queries that find the rows."""
    keys = np.stack([np.eye(5, dtype=np.float32) * 5**0.5] * 2)
    return [TokenDetail(None, TextQuery(np.log(row + 1e-9), keys)) for row in attention(way, 5, 0.1)]


@pytest.mark.parametrize("hop", [1, 4, 7, 100])
def test_words_are_given_out_when_they_have_sounded_and_never_change(hop: int) -> None:
    details = details_of([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4])
    assert in_chunks(utterance(), details, hop, trimmed=150) == [
        TimedWord("One", 10, 13, 5000, 5175),
        TimedWord("two", 14, 17, 5175, 5375),
        TimedWord("three", 18, 23, 5375, 5775),
        TimedWord("four", 24, 28, 5775, 6050),
    ]


def test_a_word_that_was_not_said_is_given_all_the_same() -> None:
    found = in_chunks(utterance(), details_of([0, 0, 2, 2, 2]), 2)
    assert [word.text for word in found] == ["One", "two", "three", "four"]
    assert [(word.start, word.end) for word in found] == [
        (5000, 5125),
        (5125, 5225),
        (5225, 5500),
        (5500, 5500),
    ]


def test_tokens_before_any_text_came_are_of_the_first_word() -> None:
    words = UtteranceWords(PER_TOKEN, RATE_HZ, 1.0)
    nothing = TokenDetail(None, TextQuery(np.zeros((2, 5), np.float32), np.zeros((2, 0, 5), np.float32)))
    assert words.take_ended([nothing] * 5, 0, 200, is_last=False) == []
    words.add(SOURCE, WORDS, 5, char_start=0)
    found = words.take_ended([nothing] * 5 + details_of([0, 0, 1, 2, 3, 4]), 0, 1100, is_last=True)
    assert [word.start for word in found] == [0, 725, 825, 925]


def test_text_without_a_word_has_no_times_and_what_follows_has() -> None:
    """As of "№", which is read aloud and is no word by itself."""
    unsaid = UtteranceWords(PER_TOKEN, RATE_HZ, 1.0)
    unsaid.add("№", (), 5, char_start=0)
    details = details_of([0, 0, 1, 2, 3, 4])
    assert unsaid.take_ended(details[:3], 0, 200, is_last=False) == []
    unsaid.add("5", [Word(0, 1, 0)], 0, char_start=1)
    (five,) = unsaid.take_ended(details, 0, 600, is_last=True)
    assert (five.text, five.start, five.end) == ("5", 0, 600)


def test_a_faster_rate_makes_times_shorter() -> None:
    words = utterance(rate=2.0)
    found = words.take_ended(details_of([0, 0, 1, 1, 2, 2, 3, 3]), 0, 400, is_last=True)
    assert [word.start for word in found] == [5000, 5112, 5212, 5312]


def test_without_attention_times_are_estimated_and_share_the_audio() -> None:
    words = utterance()
    found = in_chunks(words, [TokenDetail()] * 12, 3)
    assert words.found == "estimated"
    assert [word.text for word in found] == ["One", "two", "three", "four"]
    assert found[0].start == 5000
    assert found[-1].end == 5000 + 12 * PER_TOKEN
    assert all(one.end == other.start and one.start < one.end for one, other in pairwise(found))
