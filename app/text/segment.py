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
    sentences = _sentences(text, terminators)
    return ["".join(sentences[run]) for run in merged_runs(sentences, length, limits)]


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


def merged_runs(sentences: list[str], length: Callable[[str], int], limits: SegmentLimits) -> list[slice]:
    """Which sentences make a segment each."""
    runs: list[slice] = []
    start, current = 0, ""
    for place, sentence in enumerate(sentences):
        if length(current + sentence) > limits.max_length and length(current) > limits.min_length:
            runs.append(slice(start, place))
            start, current = place, ""
        current += sentence
    if current and runs and length(current) < limits.merge_length:
        runs[-1] = slice(runs[-1].start, len(sentences))
    elif current:
        runs.append(slice(start, len(sentences)))
    return runs
