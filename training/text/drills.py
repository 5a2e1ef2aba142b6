"""What prose seldom has and people ask for: words that begin alike, initials, digits one by one."""

import random
import re
from functools import cache
from itertools import takewhile

from training.text.lexicon import known_words, lexicon, pronunciations
from training.text.numbers import DIGITS

_COMMON = 9_000  # words of which words that begin alike are taken
_FEWEST = 12  # of them, for a beginning to be used
_LETTERS = "AABBCCDDEEFFGHIIJKLMMNNOPPQRRSSTTUUVWXYZ"
_SAID_DIGITS = (*DIGITS, "oh")
_ALIKE = (  # b, c: words that begin alike, s: one that begins nearly so
    "{b} {b}, {b} {c}.",
    "{b}, {c} and {s}.",
    "A {b} {c} {b} a {b} {c}.",
    "{b} {c} {s} {b} {c}.",
    "The {b} {b} {c} the {s} {b}.",
    "How {b} is the {c} {b}?",
    "If {b} {c} {b}, {s} {c} {b}.",
    "{b} {c}, {s} {c}, {b} {c}, {s} {c}.",
    "She {b} {c} by the {s} {b}.",
    "{c} {b} {s} with {b} and {c}.",
    "Which {b} {s} are {c} {b}?",
    "Six {b} {c}, sick {s} {b}, thick {c} {b}.",
)
_INITIALS = (
    "The {i} and the {i} met the {i}.",
    "The {i} declined to comment.",
    "Is it on the {i} or the {i}?",
    "He works for the {i}, and she for the {i}.",
    "{i}, {i} and {i}.",
    "My {i} is out of date.",
    "The {i} report says so.",
    "What does {i} mean?",
    "An {i} and a {i}, please!",
    "{i}.",
    "The {i} is in the {i}.",
)
_NUMBERS = (
    "Call {d} {d} {d}, {d} {d} {d} {d}.",
    "The code is {d} {d} {d} {d}.",
    "Room {d} {d} {d}, please.",
    "Flight {i} {d} {d} {d} leaves at gate {i}.",
    "Is it {d} {d}, {d} {d} or {d} {d}?",
    "{d}, {d}, {d}, {d}, {d}.",
)


def drills(rng: random.Random, limit: int) -> list[str]:
    """Different ones; half of words that begin alike."""
    texts: dict[str, None] = {}
    while len(texts) < limit:
        text = _alike(rng) if rng.random() < 0.5 else _spelled(rng)
        texts[text[0].upper() + text[1:]] = None
    return list(texts)


def _alike(rng: random.Random) -> str:
    groups = _groups()
    onset = rng.choice(list(groups))
    near = [other for other in groups if other != onset and other.split()[0] == onset.split()[0]]
    words = rng.sample(groups[onset], 4)
    others = groups[rng.choice(near)] if near else groups[rng.choice(list(groups))]
    chosen = {"b": words[:2], "c": words[2:], "s": rng.sample(others, 2)}
    return re.sub(r"\{(\w)\}", lambda match: rng.choice(chosen[match[1]]), rng.choice(_ALIKE))


def _spelled(rng: random.Random) -> str:
    def fill(match: re.Match[str]) -> str:
        return rng.choice(_SAID_DIGITS) if match[1] == "d" else _initials(rng)

    return re.sub(r"\{(\w)\}", fill, rng.choice((*_INITIALS, *_NUMBERS)))


def _initials(rng: random.Random) -> str:
    """Two to four letters that are no word."""
    while True:
        letters = "".join(rng.choices(_LETTERS, k=rng.choice((2, 3, 3, 3, 4))))
        if letters.lower() not in known_words():
            return letters


@cache
def _groups() -> dict[str, list[str]]:
    """Common words by the consonants that they begin with: "S", "S L", "TH R"."""
    groups: dict[str, list[str]] = {}
    for word in lexicon()[:_COMMON]:
        onset = list(takewhile(lambda phone: phone[0] not in "AEIOU", pronunciations()[word]))
        if onset and len(word) > 2:
            groups.setdefault(" ".join(onset), []).append(word)
    return {onset: words for onset, words in groups.items() if len(words) >= _FEWEST}
