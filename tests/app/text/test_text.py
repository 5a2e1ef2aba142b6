# ruff: noqa: RUF001  Chinese punctuation is meant
"""Segments and small rules, where the reference cases do not reach."""

import random

import pytest

from firstword.app.text.normalize import is_only_punctuation, replace_blank, spell_out_numbers
from firstword.app.text.segment import Language, SegmentLimits, split_paragraph

ALPHABET = 'ab  é你好19²①\n-.,，、—（）"“”?!。；:'
AWKWARD = [
    "",
    " ",
    "   ",
    ".",
    "...",
    "?!",
    '?!"',
    '..."Well"',
    "x" * 5000,
    "1" * 5000,
    "。",
    '"',
    "no end",
    "a ",
    " a",
]
TINY = SegmentLimits(max_length=0, min_length=0, merge_length=0)


def random_texts(count: int) -> list[str]:
    chooser = random.Random(0)
    return ["".join(chooser.choices(ALPHABET, k=chooser.randrange(40))) for _ in range(count)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_but_terminators_is_lost(language: Language) -> None:
    dropped = str.maketrans("", "", "。？！；：、.?!;:，,")
    for text in AWKWARD + random_texts(3000):
        for limits in (TINY, SegmentLimits()):
            segments = split_paragraph(text, language, len, limits, cuts_at_commas=limits is TINY)
            assert "".join(segments).translate(dropped) == text.translate(dropped)
            assert all(segments)


def test_sentences_are_cut_after_their_terminator_and_quote() -> None:
    assert split_paragraph('He said "stop." Then? Yes', "en", len, TINY) == [
        'He said "stop."',
        " Then?",
        " Yes.",
    ]
    assert split_paragraph("Wait... what?!", "en", len, TINY) == ["Wait.", " what?"]
    assert split_paragraph("一，二。三", "zh", len, TINY) == ["一，二。", "三。"]
    assert split_paragraph("一，二。三", "zh", len, TINY, cuts_at_commas=True) == ["一，", "二。", "三。"]


def test_segments_grow_to_the_limit_and_a_short_rest_joins() -> None:
    words = lambda text: len(text.split())  # noqa: E731
    text = "one two three. " * 5
    limits = SegmentLimits(max_length=6, min_length=4, merge_length=3)
    assert [words(segment) for segment in split_paragraph(text.strip(), "en", words, limits)] == [6, 6, 3]
    limits = SegmentLimits(max_length=6, min_length=4, merge_length=4)
    assert [words(segment) for segment in split_paragraph(text.strip(), "en", words, limits)] == [6, 9]


def test_awkward_texts_never_raise() -> None:
    for text in AWKWARD + random_texts(500):
        replace_blank(text)
        is_only_punctuation(text)
    for text in AWKWARD:
        spell_out_numbers(text)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("10²", "ten²"),
        ("① of 3", "① of three"),
        ("0", "zero"),
        ("3.5", "three.five"),
        ("1" * 37, ", ".join(["one"] * 37)),
    ],
)
def test_only_decimal_digits_are_spelled(text: str, spelled: str) -> None:
    assert spell_out_numbers(text) == spelled


def test_blank_at_the_end_is_dropped() -> None:
    assert replace_blank("ab ") == "ab"
    assert replace_blank("中 a b") == "中a b"
