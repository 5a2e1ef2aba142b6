"""Segmentation and small rules against the published implementation."""

from typing import Any

import pytest

from firstword.app.text.normalize import is_only_punctuation, replace_blank, spell_out_numbers
from firstword.app.text.segment import SegmentLimits, split_paragraph
from tests.parity.reference import load_json


def entries(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_json("text")[name]
    assert found, f"the case has no {name}"
    return found


def number_of_words(text: str) -> int:
    """What stands for the number of text tokens in the case."""
    return len(text.split())


def test_paragraphs_are_split_as_published() -> None:
    for entry in entries("split_paragraph"):
        limits = SegmentLimits(entry["token_max_n"], entry["token_min_n"], entry["merge_len"])
        length = len if entry["lang"] == "zh" else number_of_words
        segments = split_paragraph(entry["text"], entry["lang"], length, limits, entry["comma_split"])
        assert segments == entry["segments"], entry["text"]


@pytest.mark.parametrize(
    ("name", "rule", "key"),
    [
        ("spell_out_number", spell_out_numbers, "spelled"),
        ("replace_blank", replace_blank, "out"),
        ("is_only_punctuation", is_only_punctuation, "only_punctuation"),
    ],
)
def test_rules_give_the_published_result(name: str, rule: Any, key: str) -> None:
    for entry in entries(name):
        assert rule(entry["text"]) == entry[key], entry["text"]
