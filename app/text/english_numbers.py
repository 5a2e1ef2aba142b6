# ruff: noqa: RUF001  typographic dashes and signs are meant
"""Every number of an English phrase in words: the rules in their order."""

import re
from collections.abc import Callable

from app.text import english_amounts as amounts
from app.text import english_dates as dates
from app.text.english_words import NumberWords, by_digits, set_apart

Rule = Callable[[re.Match[str], NumberWords, str], str]  # the last: the word before the phrase

_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)"
_NUMBER = f"(?P<number>{_AMOUNT})"
_FREE = r"(?<![\d.,:/])"  # no number goes on into this one
MAX_VERSION_PARTS = 3
VULGAR = str.maketrans({"½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4"})


def _telephone(found: re.Match[str], words: NumberWords, previous: str) -> str:
    blocks = ", ".join(by_digits(run) for run in re.findall(r"[0-9]+", found[0]))
    return f"plus {blocks}" if found[0].startswith("+") else blocks


def _dotted(found: re.Match[str], words: NumberWords, previous: str) -> str:
    parts = found[2].split(".")
    if len(parts) > MAX_VERSION_PARTS:  # an address of the network
        return " dot ".join(by_digits(part) for part in parts)
    said = " point ".join(words.cardinal(part) for part in parts)
    return f" version {said}" if found[1] else said


def _said_as(text: str) -> Rule:
    return lambda found, words, previous: text


_PATTERNS: tuple[tuple[str, Rule], ...] = (
    (
        r"(?<![\w.,$€£])(?:\+\d[\d .()-]{6,20}\d|(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}"
        r"|\d{3}-\d{4}|\(?0\d{2,4}\)? \d{3,4} \d{3,4}|\d{10,15})(?!\w|[.,]\d|-\d)",
        _telephone,
    ),
    (r"(?<![\d/-])(?P<year>\d{4})([-/])(?P<month>\d\d?)\2(?P<day>\d\d?)(?![\d/])", dates.numeric_date),
    (r"(?<![\d/])(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4})(?![\d/])", dates.numeric_date),
    (rf"\b{dates.MONTH}\s+{dates.DAY}(?:,?\s+{dates.YEAR})?", dates.month_first),
    (rf"{_FREE}{dates.DAY}\s+(?:of\s+)?{dates.MONTH}(?!\w)(?:,?\s+{dates.YEAR})?", dates.day_first),
    (rf"\b{dates.MONTH}\s+{dates.YEAR}", dates.month_and_year),
    (
        rf"(?P<land>US)?(?P<sign>[{amounts.SIGNS}])(?P<low>{_AMOUNT})\s?[-–]\s?[{amounts.SIGNS}]?(?P<high>{_AMOUNT})"
        rf"(?:\s?(?P<scale>{amounts.SCALES})(?!\w))?",
        amounts.range_of_money,
    ),
    (
        r"(?:(?<=[\d%°])|(?<=\d[ap]m)|(?<=\s[ap]m)|(?<=[ap]\.m\.))\s?[-–—]\s?(?=[$€£¥₹]?\d)",
        _said_as(" to "),
    ),
    (
        rf"{_FREE}(?P<hour>\d\d?):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?{dates.HALF}?(?![\d:])",
        dates.time_of_day,
    ),
    (rf"{_FREE}(?P<hour>1[0-2]|0?[1-9]){dates.HALF}(?!\w)", dates.time_of_day),
    (r"(?<![\w)])[-−](?=[\d$€£¥₹])", _said_as(" minus ")),
    (r"(?<=\d)\s[-–—]+", _said_as(",")),
    (
        rf"(?P<land>US|HK|NZ|A|C)?(?P<sign>[{amounts.SIGNS}])\s?{_NUMBER}"
        rf"(?:\s?(?P<scale>{amounts.SCALES})(?!\w))?",
        amounts.money,
    ),
    (rf"\b(?P<sign>USD|EUR|GBP|JPY)\s{_NUMBER}", amounts.money),
    (
        rf"{_FREE}{_NUMBER}(?:\s?(?P<scale>{amounts.SCALES}))?\s?(?P<sign>[{amounts.SIGNS}]|USD|EUR|GBP|JPY)",
        amounts.money,
    ),
    (r"(?<![\w.])(v)?((?(1)\d+(?:\.\d+)+|\d+(?:\.\d+){2,}))(?!\d)", _dotted),
    (r"(?<=\d)\s?x\s?(?=\d)", _said_as(" by ")),
    (r"(?<=\d)\s?[×*]\s?(?=\d)", _said_as(" times ")),
    (r"(?<=\d)x\b", _said_as(" times ")),
    (r"(\d+)['′’](\d+)(?:[\"″”]|'')?", amounts.feet_and_inches),
    (r"(?<![\w/.,])(?:(\d{1,3})\s)?(\d{1,3})/(\d{1,4})(?![\d/]|[.,]\d)", amounts.fraction),
    (
        r"(?<![\w.'’])(?:(?P<full>1[1-9]\d0|20\d0)['’]?|(?P<bare>[1-9]0))s\b|['’](?P<short>[1-9]0)s\b",
        dates.decade,
    ),
    (rf"(?<![A-Za-z]){_NUMBER}[\s-]?(?P<unit>{amounts.UNITS})(?![\w°²³])", amounts.measure),
    (rf"(?<=[a-z])/(?P<unit>{amounts.UNITS})(?![\w/])", amounts.per_unit),
    (r"(?<=[a-z\d])/(?=[a-z]{3})", _said_as(" per ")),
    (rf"(?<![A-Za-z])(?![48]K\b){_NUMBER}(?P<scale>[kKMB])\b", amounts.scaled),
    (r"(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", lambda found, words, previous: words.ordinal(found[1])),
    (
        r"(\d+):(\d+)",
        lambda found, words, previous: f"{words.cardinal(found[1])} to {words.cardinal(found[2])}",
    ),
    (r"#\s?(?=\d)", _said_as("number ")),
    (r"(?<!\w)[~≈](?=\d)", _said_as("about ")),
    (
        rf"(?<![\w,.])(?!1000){dates.YEAR}(?!\w|[.,]\d)",
        lambda found, words, previous: words.year(found["year"]),
    ),
    (r"(?<=[A-Za-z])-?(\d+)", lambda found, words, previous: set_apart(found, words.pairs(found[1]))),
    (
        r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+",
        lambda found, words, previous: set_apart(found, words.number(found[0])),
    ),
)
_RULES = tuple((re.compile(pattern, re.ASCII), rule) for pattern, rule in _PATTERNS)


def with_numbers_said(text: str, words: NumberWords, previous: str) -> str:
    """What one rule has put into words no later one sees as a number.

    previous: the word before `text`, which tells "the 30s" from "30s". Blanks are left as they fall.
    """
    text = re.sub(r"(?<=\d) (?=\d+/)", " ", text).lstrip()
    for pattern, rule in _RULES:
        text = pattern.sub(lambda found, rule=rule: rule(found, words, previous), text)  # type: ignore[misc]
    return text
