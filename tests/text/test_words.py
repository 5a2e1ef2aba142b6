# ruff: noqa: RUF001  Chinese punctuation is meant
"""The words of a text as its writer wrote them, each with the text tokens that say it."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.text.marks import Reading
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import Segment, SegmentLimits
from firstword.app.text.stream import Mode, TextFrontend
from firstword.app.text.words import find_words
from tests.text.marked import speech_marks

TEXTS = st.lists(
    st.sampled_from(
        [
            "Dr.",
            "Smith",
            "paid",
            "$5",
            "million",
            "7:30",
            "p.m.",
            "(well,",
            "“maybe”)",
            "—",
            "3rd",
            "it's",
            "2024,",
            "...",
            "!",
            "NASA's",
            "moon-shot",
            "10",
            "%",
            "&",
            "你好",
            "，",
            "5月3日",
            "[laughter]",
            "x",
        ]
    ),
    max_size=12,
).map(" ".join)


def encode(text: str) -> Sequence[int]:
    return [ord(character) for character in text.replace(" ", "")]


@pytest.fixture(scope="module")
def frontend(normalizer: Normalizer) -> TextFrontend:
    return TextFrontend(normalizer, speech_marks(), SegmentLimits(), 80)


def said(normalizer: Normalizer, text: str, language: str = "en") -> dict[str, int]:
    spoken = normalizer(text, language)
    words = find_words(text, spoken, len(encode(spoken)), encode)
    return {text[word.start : word.end]: word.num_ids for word in words}


def test_a_word_has_the_tokens_of_all_that_is_said_for_it(normalizer: Normalizer) -> None:
    assert said(normalizer, "It is 7:30, Anna.") == {"It": 2, "is": 2, "7:30": 12, "Anna": 5}
    assert said(normalizer, "June 5, 2024!") == {"June": 4, "5": 5, "2024": 17}
    assert said(normalizer, "Dr. Smith paid $5 million (well) —") == {
        "Dr": 6,
        "Smith": 5,
        "paid": 4,
        "$5": 4,
        "million": 14,  # "dollars" is said behind it
        "well": 6,
    }
    assert said(normalizer, "你好，世界。", "zh") == {"你": 1, "好": 2, "世": 1, "界": 2}
    assert said(normalizer, "... — !") == {}


def test_a_blank_of_its_own_is_a_pause_before_the_word() -> None:
    def letters(text: str) -> Sequence[int]:
        return [*map(ord, text)]

    def joined(text: str) -> Sequence[int]:
        """A blank is part of the text token behind it."""
        return [ord(word[-1]) for word in text.split()]

    text = "Yes, it is."
    words = find_words(text, text, len(text), letters)
    assert [(word.num_before, word.num_ids) for word in words] == [(0, 4), (1, 2), (1, 3)]
    (word,) = find_words(" it", " it", 3, letters)  # a piece of text that goes on
    assert (word.num_before, word.num_ids) == (1, 2)
    assert [(word.num_before, word.num_ids) for word in find_words(text, text, 3, joined)] == [(0, 1)] * 3


@given(text=TEXTS)
def test_words_are_in_order_and_share_all_tokens(normalizer: Normalizer, text: str) -> None:
    spoken = normalizer(text, "en")
    num_ids = len(encode(spoken))
    words = find_words(text, spoken, num_ids, encode)
    assert all(word.start < word.end and text[word.start : word.end].strip() for word in words)
    assert all(one.end <= other.start for one, other in pairwise(words))
    assert all(word.num_ids >= 0 for word in words)
    assert sum(word.num_ids for word in words) == (num_ids if words else 0)
    assert words or not any(character.isalnum() for character in text)


@pytest.mark.parametrize("mode", ["whole", "segments", "continuous"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_words_of_marked_text_are_those_of_the_client(frontend: TextFrontend, mode: Mode, size: int) -> None:
    text = "Hi [rate:1.2]Nguyen,[pause:0.5s] it is <strong>7:30</strong>. [voice:anna]Ok [x] bye!"
    reading = Reading(lexicon={"Nguyen": "win win"})
    feed = frontend.open(mode, "en", reading, [], Work(DEFAULT_LIMITS), finds_words=True)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    items = [item for piece in pieces for item in feed.read(piece, False)] + [*feed.read("", True)]
    found: list[str] = []
    position = 0
    for item in items:
        if isinstance(item, Segment):
            found += [text[position + word.start : position + word.end] for word in item.words]
            num_ids = sum(word.num_before + word.num_ids for word in item.words)
            assert num_ids in (len(item.text_ids), 0)
        if hasattr(item, "seconds") or isinstance(item, Segment):
            position += len(item.source)
    assert found == ["Hi", "Nguyen", "it", "is", "7:30", "Ok", "[x]", "bye"]


def test_who_does_not_ask_gets_none(frontend: TextFrontend) -> None:
    assert all(
        item.words == ()
        for item in frontend.open("whole", "en", Reading(), [], Work(DEFAULT_LIMITS)).read(
            "Hello there.", True
        )
        if isinstance(item, Segment)
    )
