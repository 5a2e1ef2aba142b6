# ruff: noqa: RUF001  Chinese punctuation is meant
"""Cuts a long text into pieces of about a sentence or a few, as CosyVoice checkpoints expect them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Language = Literal["zh", "en"]

TERMINATORS: dict[Language, str] = {"zh": "。？！；：、.?!;", "en": ".?!;:"}
COMMAS = "，,"
FINAL_STOP: dict[Language, str] = {"zh": "。", "en": "."}
CLOSING_QUOTES = '"”'


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """In what `length` counts: characters for Chinese, text tokens for English.

    A segment that has more than `min_length` ends before the sentence that would take it past
    `max_length`; a rest shorter than `merge_length` joins the segment before it.
    """

    max_length: int = 80
    min_length: int = 60
    merge_length: int = 20


def split_paragraph(
    text: str,
    language: Language,
    length: Callable[[str], int],
    limits: SegmentLimits = SegmentLimits(),
    cuts_at_commas: bool = False,
) -> list[str]:
    """The segments of a text; none for an empty one. Of several terminators in a row the first is kept."""
    if not text:
        return []
    terminators = TERMINATORS[language] + (COMMAS if cuts_at_commas else "")
    if text[-1] not in terminators:
        text += FINAL_STOP[language]
    return _merged(_sentences(text, terminators), length, limits)


def _sentences(text: str, terminators: str) -> list[str]:
    """Pieces that end in a terminator and the closing quote behind it, if there is one."""
    sentences: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if character not in terminators:
            continue
        if start < place:
            sentences.append(text[start : place + 1])
        start = place + 1
        if sentences and text[start : start + 1] in tuple(CLOSING_QUOTES):
            sentences[-1] += text[start]
            start += 1
    return sentences


def _merged(sentences: list[str], length: Callable[[str], int], limits: SegmentLimits) -> list[str]:
    segments: list[str] = []
    current = ""
    for sentence in sentences:
        if length(current + sentence) > limits.max_length and length(current) > limits.min_length:
            segments.append(current)
            current = ""
        current += sentence
    if current and segments and length(current) < limits.merge_length:
        segments[-1] += current
    elif current:
        segments.append(current)
    return segments
