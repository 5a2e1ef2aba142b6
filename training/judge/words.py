"""Words as they are compared: numbers written out on both sides, spellings of one word made alike.

A recogniser writes "3 in 10" where "three in ten" was said; without this most of its errors are digits.
"""

import re
from collections.abc import Sequence

from training.text.corpus import read_words
from training.text.numbers import in_words

_ALIKE = {
    "okay": "ok", "mister": "mr", "missus": "mrs", "doctor": "dr", "colour": "color", "favourite": "favorite",
    "grey": "gray", "theatre": "theater", "centre": "center", "metres": "meters", "metre": "meter",
    "neighbour": "neighbor", "neighbours": "neighbors", "harbour": "harbor", "cancelled": "canceled",
    "alright": "all right", "catalogued": "cataloged", "travelled": "traveled", "practises": "practices",
    "apologised": "apologized", "recognise": "recognize", "licence": "license",
}  # fmt: skip
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
_ORDINALS |= {"nine": "ninth", "twelve": "twelfth"}


def spoken_words(text: str, has_years: bool = True) -> list[str]:
    """The words of a text as they are said, in small letters; has_years: 1612 is sixteen twelve."""
    text = text.lower().replace("\u2019", "'").replace("&", " and ")
    text = re.sub(r"(\d),(?=\d{3})", r"\1", text)
    text = re.sub(r"\$0\.(\d\d)\b", r"\1 cents", text)
    text = re.sub(r"\$(\d+)\.(\d\d)\b", r"\1 dollars and \2 cents", text)
    text = re.sub(r"([$€£])(\d+)", lambda m: f"{m[2]} {dict(zip('$€£', _MONEY, strict=True))[m[1]]}", text)
    text = text.replace("%", " percent").replace("°", " degrees ")
    text = re.sub(r"\b(\d+)(st|nd|rd|th)\b", lambda m: _ordinal(int(m[1])), text)
    text = re.sub(r"(\w)\.(?=(?:com|org|net)\b)", r"\1 dot ", text)
    text = re.sub(r"(\d):00\b", r"\1", re.sub(r"(\d):0(\d)\b", r"\1 oh \2", text))
    text = re.sub(r"(\d)-(?=\d)", r"\1 ", text)
    text = re.sub(r"\d+", lambda m: f" {_number(m[0], has_years)} ", text)
    text = re.sub(r"\b(hundred|thousand|million) and\b", r"\1", text)
    text = re.sub(r"\b([a-z])\.(?=[a-z]\.)", r"\1", text).replace("-", " ")  # u.s. as us
    return [part for word in read_words(text) for part in _ALIKE.get(word, word).split()]


_MONEY = ("dollars", "euros", "pounds")


def word_errors(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """Substitutions, insertions and deletions between two lists of words (Levenshtein's distance)."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1]


def fewest_errors(wanted: str, heard: str) -> tuple[int, int]:
    """-> errors and words wanted.

    "1612" is right for "sixteen twelve", "555" for "five five five", "6.30" and "630" for "six thirty", and
    "seashells" for "sea shells".
    """
    aim = spoken_words(wanted)
    at_a_time = re.sub(r"(?<![\d-])(1[0-2]|[1-9])\.?([0-5]\d)\b(?!-)", r"\1:\2", heard)
    spellings = heard, _in_digits(heard, 2), at_a_time, _in_digits(at_a_time, 3)
    readings = [spoken_words(one) for one in spellings]
    readings.append(spoken_words(heard, has_years=False))
    return min(word_errors(_joined(aim, one), _joined(one, aim)) for one in readings), len(aim)


def _in_digits(text: str, shortest: int) -> str:
    """Numbers of so many digits and more are read digit by digit."""
    return re.sub(rf"\d{{{shortest},}}", lambda m: " ".join(m[0]), text.replace("-", " "))


def _joined(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Neighbours that the other side writes as one word are one."""
    whole = set(others) - set(words)
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] + word in whole:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _number(digits: str, has_years: bool) -> str:
    number = int(digits)
    if len(digits) > 12 or (digits[0] == "0" and len(digits) > 1):
        return " ".join(in_words(int(digit)) for digit in digits)
    century, rest = divmod(number, 100)
    if has_years and 11 <= century <= 20 and (rest or century < 20) and not 2000 <= number <= 2009:
        return (
            in_words(century)
            + " "
            + (("oh " if 0 < rest < 10 else "") + in_words(rest) if rest else "hundred")
        )
    return in_words(number).replace(",", "").replace("-", " ")


def _ordinal(number: int) -> str:
    *front, last = in_words(number).replace("-", " ").replace(",", "").split()
    last = _ORDINALS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return " ".join([*front, last])
