"""Dates and times of day in English words."""

import re

from app.text import vocabulary
from app.text.english_words import NumberWords

Match = re.Match[str]
MONTH = rf"(?P<month>{vocabulary.MONTH})"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%]\d|[\d:%]|,\d|\w)"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)(?!\d)"
HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"

_NAMES = tuple(vocabulary.MONTHS.values())
_AFTER_DECADE = frozenset(["the", "my", "his", "her", "their", "our", "early", "mid", "late"])


def month_first(found: Match, words: NumberWords, previous: str) -> str:
    return _date(_name(found["month"]), f" {words.ordinal(found['day'])}", found["year"], words)


def day_first(found: Match, words: NumberWords, previous: str) -> str:
    article = "" if previous.lower() == "the" else "the "
    day = f"{article}{words.ordinal(found['day'])} of "
    return _date(day, _name(found["month"]), found["year"], words)


def month_and_year(found: Match, words: NumberWords, previous: str) -> str:
    return _date(_name(found["month"]), "", found["year"], words)


def _date(first: str, second: str, year: str | None, words: NumberWords) -> str:
    said_year = f" {words.year(year)}" if year else ""
    return first + second + said_year


def numeric_date(found: Match, words: NumberWords, previous: str) -> str:
    """Month before day unless only the other order makes a date; no date at all is left as it is."""
    month, day = int(found["month"]), int(found["day"])
    if month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return f"{_NAMES[month - 1]} {words.ordinal(str(day))} {words.year(found['year'])}"


def _name(month: str) -> str:
    return vocabulary.MONTHS[month[:3].lower()]


def time_of_day(found: Match, words: NumberWords, previous: str) -> str:
    groups = found.groupdict()
    minutes, seconds, half = groups.get("minutes"), groups.get("seconds"), groups.get("half")
    hour = words.cardinal(str(int(found["hour"])))
    if int(found["hour"]) > 24:
        return found[0]
    ending = f" {half.upper()} M" if half else ""
    if minutes is None or (half and minutes == "00" and not seconds):
        return hour + ending
    if minutes == "00" and not seconds:
        return f"{hour} o'clock" if 0 < int(found["hour"]) <= 12 else f"{hour} hundred"
    said = f"oh {words.cardinal(minutes[1])}" if minutes[0] == "0" else words.cardinal(minutes)
    if seconds:
        said += f" and {words.cardinal(str(int(seconds)))} seconds"
    return f"{hour} {said}{ending}"


def decade(found: Match, words: NumberWords, previous: str) -> str:
    """ "1990s" and "'90s" are decades, "30s" only after a word such as "the"; else it is left."""
    if found["bare"] and previous.lower() not in _AFTER_DECADE:
        return found[0]
    digits = found["full"] or found["bare"] or found["short"]
    if digits.endswith("00"):
        return f"{words.year(digits)}s"
    said = words.year(digits) if len(digits) == 4 else words.cardinal(digits)
    return f"{said[:-1]}ies" if said.endswith("y") else f"{said}s"
