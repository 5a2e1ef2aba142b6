"""The reward of an utterance: a scalar from what was heard, how long it is and who seems to speak.

    reward = (clear + w_duration * duration + w_likeness * likeness) / (1 + w_duration + w_likeness)

clear: 1 - error rate, from 0. duration: 1 where the speech is as long as its text lets expect, falling
linearly to 0. likeness: cosine of the speaker embeddings, from 0. What does not end, or has no sound, is 0.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Unit = Literal["words", "characters"]

_WIDE: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\u3040-\u30ff]")
_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_WIDE_S, _NARROW_S, _LEAST_S = (
    0.25,
    0.065,
    0.3,
)  # of a character of Chinese and the like, of another, of any text
_FULL: Final = (0.55, 1.7)  # times the expected duration
_NONE: Final = (0.25, 3.0)


@dataclass(frozen=True, slots=True)
class RewardWeights:
    duration: float = 0.2
    likeness: float = 0.2


@dataclass(frozen=True, slots=True)
class Measures:
    """likeness: None where nobody is to be compared with."""

    error_rate: float
    duration_s: float
    likeness: float | None
    has_ended: bool = True


def reward_of(heard: Measures, text: str, weights: RewardWeights = RewardWeights()) -> float:
    """Within 0 to 1."""
    if not heard.has_ended or heard.duration_s <= 0:
        return 0.0
    clear = max(0.0, 1 - heard.error_rate)
    total, most = clear + weights.duration * duration_score(heard.duration_s, text), 1 + weights.duration
    if heard.likeness is not None:
        total += weights.likeness * min(1.0, max(0.0, heard.likeness))
        most += weights.likeness
    return total / most


def expected_duration_s(text: str) -> float:
    """Of ordinary speech: 15 letters or 4 Chinese characters a second."""
    wide = len(_WIDE.findall(text))
    return max(_LEAST_S, wide * _WIDE_S + (len(text.strip()) - wide) * _NARROW_S)


def duration_score(duration_s: float, text: str) -> float:
    share = duration_s / expected_duration_s(text)
    if share < _FULL[0]:
        return max(0.0, (share - _NONE[0]) / (_FULL[0] - _NONE[0]))
    return 1.0 if share <= _FULL[1] else max(0.0, (_NONE[1] - share) / (_NONE[1] - _FULL[1]))


def units(text: str, unit: Unit) -> list[str]:
    """What is compared: words, or the characters of them, without case and punctuation."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    words = _WORD.findall(_WIDE.sub(lambda found: f" {found[0]} ", text))
    return words if unit == "words" else list("".join(words))


def error_rate(wanted: str, recognized: str, unit: Unit = "words") -> float:
    """Levenshtein's distance over the length of what was wanted; it may be over 1."""
    aim, found = units(wanted, unit), units(recognized, unit)
    return distance(aim, found) / max(1, len(aim))


def distance(wanted: Sequence[str], found: Sequence[str]) -> int:
    row = list(range(len(found) + 1))
    for i, one in enumerate(wanted, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (one != other))
    return row[-1]
