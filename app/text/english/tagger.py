"""Tag the parts of an English phrase: of what class each is, from its own form and the words beside it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from firstword.app.text.addresses import find_addresses
from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant

Match = re.Match[str]

CLASSES: Final = (
    *("cardinal", "ordinal", "digits", "date", "time", "duration", "money", "measure", "range", "telephone"),
    *("serial", "fraction", "roman", "address", "electronic", "formula", "abbreviation", "initialism"),
)


@dataclass(frozen=True, slots=True)
class Tag:
    """form: the class and one of its forms, such as "date.day_first". fields: what the pattern found."""

    form: str
    text: str
    fields: dict[str, str | None]

    @property
    def kind(self) -> str:
        """One of CLASSES."""
        return self.form.partition(".")[0]


class Context:
    """What stands around a place in a phrase."""

    def __init__(self, text: str, phrase: Phrase) -> None:
        self.text = text
        self.phrase = phrase

    @cached_property
    def has_equals(self) -> bool:
        return "=" in self.text or "=" in (self.phrase.previous, self.phrase.following)

    def behind(self, start: int, count: int = 1) -> list[str]:
        """The last words before a place, the nearest first, without punctuation; a sentence's end "
        "stops it."""
        words: list[str] = []
        for word in reversed(f"{self.phrase.before} {self.text[:start]}".split()):
            if len(words) == count or (word[-1] in ".?!" and not vocabulary.is_abbreviation(word)):
                break
            words.append(word.strip(vocabulary.EDGES + "."))
        return words

    def is_behind(self, start: int, words: frozenset[str], count: int = 1) -> bool:
        """Whether one of the last words, in small letters, is one of `words`."""
        return not words.isdisjoint(word.lower() for word in self.behind(start, count))

    def ahead(self, end: int) -> str:
        """The next word, as it is written; "" where the phrase is closed or nothing follows."""
        rest = self.text[end:]
        word = rest.split(maxsplit=1)[0] if rest.strip() else ""
        if word and not rest[0].isspace():
            return ""
        return word or (self.phrase.following if rest == "" or rest.isspace() else "")

    def is_ahead(self, end: int, words: frozenset[str]) -> bool:
        return self.ahead(end).strip(vocabulary.EDGES + ".").lower() in words


Condition = Callable[[Match, Context], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A form, how it is written, and where it is meant; None: everywhere."""

    form: str
    pattern: re.Pattern[str]
    where: Condition | None = None


def _rules(*rows: tuple[str, str] | tuple[str, str, Condition]) -> tuple[Rule, ...]:
    return tuple(
        Rule(row[0], re.compile(row[1], re.ASCII), row[2] if len(row) == 3 else None) for row in rows
    )


def _alternatives(words: object) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


# --- Patterns that several forms share

_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)"
_NUMBER = f"(?P<number>{_AMOUNT})"
_SIGN = f"[{units.SIGNS}]"
_PREFIXED = _alternatives(units.PREFIXED)
_CODE = _alternatives(units.CODES)
_SCALE = rf"(?P<scale>{_alternatives(vocabulary.SCALES)})(?![\w²³])"
_LONG_SCALE = r"(?P<scale>[Hh]undred|[Tt]housand|[Mm]illion|[Bb]illion|[Tt]rillion|bn|mn|k|M)"
_UNIT = rf"(?P<unit>{_alternatives(units.UNITS)})(?![\w°²³])"
_PER = rf"(?:/(?P<per>{_alternatives({*units.PERIODS, *units.UNITS})})(?![\w/]))?"
_NOUN = r"(?P<noun>-(?:dollar|euro|pound|yen|rupee))?"
_MONTH = rf"(?P<month>{vocabulary.MONTH})"
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|ST|ND|RD|TH)?(?![\d:.%]\d|[\d:%]|,\d|\w|/)"
_LAST_DAY = r"(?:\s?[-–]\s?(?P<last>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%/]|\w))?"
_YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)(?![\d:]|,\d|\.\d)"
_HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"
_ZONE = rf"(?:\s(?P<zone>{contexts.ZONES})\b)?"
_STATE = "|".join(contexts.STATES)
_STREET = (
    rf"(?P<street>(?:{_alternatives(contexts.STREETS)})\b\.?|(?:{_alternatives(contexts.STREET_WORDS)})\b)"
)
_COMPASS = r"(?:N\.?[EW]|S\.?[EW]|[NSEW])\b\.?"


# --- Conditions


def _behind(words: frozenset[str], count: int = 1) -> Condition:
    return lambda found, context: context.is_behind(found.start(), words, count)


def _not_behind(words: frozenset[str], count: int = 1) -> Condition:
    return lambda found, context: not context.is_behind(found.start(), words, count)


def _is_date(found: Match, context: Context) -> bool:
    first, second = int(found["first"]), int(found["second"])
    return 1 <= min(first, second) <= 12 and max(first, second) <= 31 and min(first, second) > 0


def _is_month_and_day(found: Match, context: Context) -> bool:
    month, day = int(found["first"]), int(found["second"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    if context.ahead(found.end()) == "of":
        return False
    if context.behind(found.start()) == ["on"]:
        return True
    return day > 12 and day not in (16, 20) and context.is_behind(found.start(), contexts.DATE_BEHIND)


def _is_month(found: Match, context: Context) -> bool:
    """Small "may" and "march" are verbs unless a year, an ordinal or a preposition says otherwise."""
    if found["month"] not in ("may", "march", "mar", "sep", "dec", "jan"):
        return True
    groups = found.groupdict()
    if groups.get("year") or found[0][-2:] in ("st", "nd", "rd", "th"):
        return True
    return context.is_behind(found.start(), contexts.MONTH_BEHIND)


def _is_duration(found: Match, context: Context) -> bool:
    given = [name for name, value in found.groupdict().items() if value]
    return len(given) >= 2


def _is_minutes(found: Match, context: Context) -> bool:
    end = found.end()
    if context.is_ahead(end, contexts.AGO):
        return True
    return context.is_behind(found.start(), contexts.WAITED) and not context.is_ahead(end, contexts.MEASURED)


def _is_elapsed(found: Match, context: Context) -> bool:
    """Hours, minutes and seconds that passed, rather than a time of day."""
    if context.is_behind(found.start(), contexts.CLOCK - contexts.DURATIONS):
        return False
    is_short = len(found["hours"]) == 1 or found["hours"] == "00"
    return is_short or context.is_behind(found.start(), contexts.DURATIONS)


def _is_unit(found: Match, context: Context) -> bool:
    unit, end = found["unit"], found.end()
    is_apart = found.string[found.start("unit") - 1].isspace()
    if unit == "in":
        rest = found.string[end:].strip()
        is_closed = not context.ahead(end) and (not rest or rest[0] in ".,;:!?)")
        is_sized = context.is_ahead(end, contexts.MEASURED | {"x", "by"})
        has_feet = bool(re.search(r"(?:ft|feet|foot|x|by)\s$", found.string[: found.start()]))
        return not is_apart or is_closed or is_sized or has_feet
    if unit in ("A", "K", "N", "J", "T", "t", "d", "C", "F"):
        ahead = context.ahead(end)
        return is_apart and (not ahead or ahead in ("of", "at", "to", "and", "or", "for", "fuse", "current"))
    if unit in ("M", "B"):
        return False
    if unit == "s":
        return not _is_decade(found, context)
    return not (unit == "m" and _is_minutes(found, context))


def _is_decade(found: Match, context: Context) -> bool:
    return context.is_behind(found.start(), contexts.DECADE_BEHIND)


def _is_bare_decade(found: Match, context: Context) -> bool:
    """ "30s" only after a word such as "the"."""
    return _is_decade(found, context) and found.string[found.start() - 1 : found.start()] != "$"


def _is_scale(found: Match, context: Context) -> bool:
    """Whether K, M or B behind a number is one, not the letter of a room or a name."""
    scale, number, end = found["scale"], found["number"], found.end()
    if scale == "K" and number in ("4", "8") and not context.is_ahead(end, contexts.COUNTABLE):
        return False
    if context.is_behind(found.start(), contexts.PLACES):
        return False
    ahead = context.ahead(end).strip(vocabulary.EDGES + ".").lower()
    if "." in number or "," in number or ahead in contexts.COUNTABLE:
        return True
    if scale in ("k", "K") and len(number) <= 3:
        return ahead not in contexts.RACES and not (number == "401" or ahead == "plan")
    return context.is_behind(found.start(), contexts.ABOUT) and not ahead[:1].isupper()


def _is_year(found: Match, context: Context) -> bool:
    """Four digits are a year unless they count what follows."""
    if context.is_behind(found.start(), contexts.YEAR_BEHIND):
        return True
    ahead = context.ahead(found.end())
    bare = ahead.strip(vocabulary.EDGES + ".")
    is_counted = bare.islower() and (
        bare in contexts.COUNTABLE
        or bare in ("people", "women", "men", "children", "square", "different", "new", "other")
        or (
            bare.endswith("s")
            and not bare.endswith("ss")
            and bare not in ("is", "was", "has", "as", "its", "this")
        )
    )
    return (
        not is_counted
        or found["year"][1:] == "000"
        or (found["year"][2:] != "00" and found["year"][1] not in "0")
    )


def _is_code(found: Match, context: Context) -> bool:
    start = found.start()
    if context.is_behind(start, contexts.CODES, 3) and not context.ahead(found.end()).startswith("of"):
        return True
    if len(found["digits"]) >= 4 and context.is_behind(start, contexts.ORDERS, 2):
        return len(found["digits"]) > 4
    return False


def _is_dialed(found: Match, context: Context) -> bool:
    if found["digits"] in contexts.EMERGENCY:
        return context.is_behind(found.start(), contexts.DIALED, 4)
    return False


def _is_address(found: Match, context: Context) -> bool:
    street = found["street"].rstrip(".")
    return street in contexts.STREETS or street in contexts.STREET_WORDS


def _is_state(found: Match, context: Context) -> bool:
    if found["zip"]:
        return True
    if found["state"] in ("OK", "HI", "IN", "ID", "ME", "OH"):
        return False
    before = f"{context.phrase.before}{context.text[: found.start()]}".rstrip()
    city = before.rpartition(" ")[2]
    return before.endswith(",") and city[:1].isupper() and len(city) > 4 and not context.ahead(found.end())


def _is_roman(found: Match, context: Context) -> bool:
    start, end = found.start(), found.end()
    if start and found.string[start - 1] not in " \"'(“‘[":
        return False
    behind = context.behind(start, 2)
    if not behind or not is_roman(found["roman"]):
        return False
    if behind[0] in contexts.ROMAN_BEHIND or behind[0] + "." in contexts.ROMAN_BEHIND:
        if found["roman"] == "I":
            return context.ahead(end).lower() not in contexts.SPEAKS
        return not (
            found["roman"] in ("V", "X", "C", "D", "M", "L") and behind[0] in ("Type", "Plan", "Generation")
        )
    return False


def _is_reign(found: Match, context: Context) -> bool:
    """A numeral of two letters or more behind a given name."""
    start = found.start()
    behind = context.behind(start)
    if not behind or len(found["roman"]) < 2 or not is_roman(found["roman"]):
        return False
    if start and found.string[start - 1] != " ":
        return False
    return contexts.NAMES_BEFORE_ROMAN.fullmatch(behind[0]) is not None and behind[0] not in contexts.NO_NAMES


def _is_century(found: Match, context: Context) -> bool:
    return context.is_ahead(found.end(), contexts.CENTURY_BEFORE) and is_roman(found["roman"])


def _is_initialism(found: Match, context: Context) -> bool:
    word, start, end = found[0], found.start(), found.end()
    previous = (context.behind(start) or [""])[0]
    following = context.ahead(end).strip(vocabulary.EDGES + ".")
    if is_capitals(previous) and (
        not following or is_capitals(following) or word not in contexts.ALWAYS_LETTERS
    ):
        return previous[-1:].isdigit() and word in contexts.ALWAYS_LETTERS
    if word in ("US", "IT"):
        return True
    is_numbered = previous[-1:].isdigit() or following[:1].isdigit()
    if word in ("AM", "PM", "OR", "ID"):
        return previous in ("the", "The", "an", "a", "An", "A")
    return is_numbered or previous in contexts.LETTERS_BEHIND or word in ("EST", "PST", "ETA", "CET")


def is_capitals(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and word.isupper()


def is_roman(word: str) -> bool:
    return _ROMAN.fullmatch(word) is not None


_ROMAN = re.compile(r"(?=.)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def _has_inches(found: Match, context: Context) -> bool:
    return not context.phrase.is_quoted and '"' not in found.string[: found.start()]


def _is_formula(found: Match, context: Context) -> bool:
    return context.has_equals


# --- The forms, in the order in which they are tried

_DIGITS = _rules(
    (
        "telephone.number",
        r"(?<![\w.,$€£(])(?:(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}|\d{3}-\d{4}"
        r"|0\d{2,4} \d{3,4} \d{3,4}|0\d(?: \d\d){4}|\d{10,15})(?!\w|[.,]\d|-\d)",
    ),
    ("serial.hexadecimal", r"(?<!\w)0x[0-9A-Fa-f]+\b"),
    ("serial.hexadecimal", r"(?<![\w:])(?=[\d:]*[A-F])[0-9A-F]{2}(?::[0-9A-F]{2})+(?![\w:])"),
    ("serial.lines", r"(?<!\w)(?P<digits>480|720|1080|1440|2160)(?P<letter>[pi])\b"),
    (
        "digits.zip",
        r"(?<![\w.,-])(?P<zip>\d{5}(?:-\d{4})?)(?![\w-])",
        _behind(frozenset(["zip", "zipcode"]), 2),
    ),
    ("telephone.letters", r"(?<!\w)(?:1-)?[89]\d\d-(?P<name>[A-Z][A-Z-]{2,})\b"),
    ("date.iso", r"(?<![\d/-])(?P<year>\d{4})([-/.])(?P<first>\d\d?)\2(?P<second>\d\d?)(?![\d/-])", _is_date),
    (
        "date.numeric",
        r"(?<![\d/.-])(?P<first>\d\d?)(?P<sign>[/.-])(?P<second>\d\d?)(?P=sign)(?P<year>\d{4}"
        r"|\d\d)(?![\d/.-]\d|\d|-)",
        lambda found, context: _is_date(found, context) and (found["sign"] != "-" or len(found["year"]) == 4),
    ),
    (
        "date.month_and_day",
        r"(?<![\d/.-])(?P<first>\d\d?)/(?P<second>\d\d?)(?![\d/]|[.,]\d)",
        _is_month_and_day,
    ),
    ("serial.year", r"(?<![\d-])(?P<year>19\d\d|20\d\d)-(?P<digits>0\d+)(?![\d-])"),
    ("serial.groups", r"(?<![\d])\d+(?:-\d+){2,}(?![\d/])", lambda found, context: not context.has_equals),
    ("serial.groups", r"(?<![\d-])\d+-0\d+(?![\d:-])", lambda found, context: ":" not in found.string),
    ("serial.groups", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.,]\d|\d)"),
    (
        "cardinal.grouped",
        r"(?<![\d.,])(?P<number>[1-9]\d{0,2}(?: \d{3}){2,}|[1-9]\d{0,2} \d00)(?![\d.,]\d|\d| \d)",
    ),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3,12})(?![\d.,]\d|\d|\w|%|/)", _is_code),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3}|0)(?![\d.,]\d|\d|\w|%|/|:)", _is_dialed),
    (
        "date.day_first",
        rf"(?<![\d.,:/]){_DAY}{_LAST_DAY}\s+(?:of\s+)?{_MONTH}(?!\w)(?:,?\s+{_YEAR})?",
        _is_month,
    ),
    (
        "address.street",
        rf"(?<![\d.,:/$-])(?P<house>\d{{1,5}})(?P<letter>[A-Z])? (?P<name>(?:{_COMPASS} )?"
        rf"(?:(?:[A-Z][\w.'’-]*|\d+(?:st|nd|rd|th)) ){{1,3}}?){_STREET}(?: (?P<compass>{_COMPASS}))?(?!\w)",
        _is_address,
    ),
    (
        "duration.parts",
        r"(?<![\d.,:/$])(?:(?P<days>\d+)\s?(?:d|days?)[ ,]*(?=\d))?(?:(?P<hours>\d+)\s?(?:hrs?|h)[ ,]*)?"
        r"(?:(?P<minutes>\d+)\s?(?:mins?|m)(?![A-Za-z])[ ,]*|(?<=h)(?P<rest>\d\d)(?!\d))?"
        r"(?:(?P<seconds>\d+(?:\.\d+)?)\s?(?:secs?|s))?(?<=[a-z\d])(?<![\d]\d{3})(?![A-Za-z])",
        _is_duration,
    ),
    ("duration.minutes", r"(?<![\d.,:/$])(?P<minutes>\d+)m\b(?![/²³])", _is_minutes),
    (
        "duration.clock",
        r"(?<![\d.,:/])(?P<hours>\d\d?):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)(?![\d:]|\s?[AaPp]\.?[Mm])",
        _is_elapsed,
    ),
    (
        "time.clock",
        rf"(?<![\d.,:/])(?P<hour>[01]?\d"
        rf"|2[0-4]):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?{_HALF}?{_ZONE}(?![\d:])",
    ),
    ("time.hour", rf"(?<![\d.,:/])(?P<hour>1[0-2]|0?[1-9]){_HALF}{_ZONE}(?!\w)"),
    ("serial.network", r"(?<![\w.])(?P<digits>\d+(?:\.\d+){3,})(?!\d)"),
    ("serial.version", r"(?<![\w.])(?P<version>\d+(?:\.\d+){2})(?!\d)"),
    (
        "serial.version",
        r"(?<![\w.])(?P<version>\d+\.\d\d)(?!\d)",
        _behind(frozenset(["version", "python", "release", "ubuntu", "node", "chapter", "section"])),
    ),
    ("measure.feet_and_inches", r"(?P<feet>\d+)['′’] ?(?P<inches>\d+)(?:[\"″”]|'')?(?!\w)"),
    (
        "measure.feet",
        r"(?P<number>\d+)['′’](?!\w)",
        lambda found, context: context.is_ahead(found.end(), contexts.SIZES),
    ),
    ("measure.inches", r"(?P<number>\d+(?:\.\d+)?)(?:″|\"(?!\w))", _has_inches),
    ("measure.degrees", r"(?<![\w.])(?P<number>\d+\.\d+)(?P<unit>[CF])\b"),
    (
        "formula.scientific",
        r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)[eE](?P<power>[+-]?\d+)(?!\w)",
    ),
    (
        "fraction.common",
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3})\s)?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?![\d/=]|[.,]\d|\s?=)",
    ),
    (
        "date.decade",
        r"(?<![\w.'’$])(?P<digits>1[1-9]\d0|20\d0)['’]?s\b",
    ),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]?s\b", _is_bare_decade),
    ("date.decade", r"(?<=\ds[-–])(?P<digits>[1-9]0)s\b"),
    ("cardinal.plural", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]s\b"),
    (
        "money.behind",
        rf"(?<![\d.,:/]){_NUMBER}(?:\s?{_SCALE})?\s?(?P<sign>{_SIGN}|(?:{_CODE})(?!\w)){_PER}",
    ),
    (
        "measure.amount",
        rf"(?<![\d.,:/]){_NUMBER}(?:\s?(?P<scale>hundred|thousand|million|billion|trillion)\s)?"
        rf"(?P<gap>[\s-]?){_UNIT}{_PER}",
        _is_unit,
    ),
    ("date.era", rf"(?<![\w,.])(?P<digits>\d{{1,4}})\s(?P<era>{contexts.ERAS})(?!\w)"),
    (
        "date.range",
        r"(?<![\w,.$-])(?P<year>1[1-9]\d\d|20\d\d)\s?[-–—]\s?(?P<last>1[1-9]\d\d|20\d\d|\d\d)(?![\d/:-]"
        r"|[.,]\d|\w)",
        lambda found, context: not context.has_equals,
    ),
    ("date.year", rf"(?<![\w,.])(?!1000){_YEAR}(?![\w%°]|-\d)", _is_year),
    ("cardinal.letters", r"(?<![\w.])(?P<number>401)\(?(?P<letter>[kK])\b\)?"),
    ("cardinal.scaled", rf"(?<![A-Za-z]){_NUMBER}(?P<scale>[kKMBT])\b(?!-)", _is_scale),
    ("ordinal.number", r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th|ST|ND|RD|TH)\b"),
    ("range.ratio", r"(?<![\w:])(?P<low>\d+):(?P<high>\d+)(?![\d:])"),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3})(?![\d.,]\d|[\w%°/:'’-])",
        _behind(contexts.AIRCRAFT | contexts.NUMBERED),
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3,4})(?![\d.,]\d|[\w%°/:'’-])",
        _behind(frozenset(["box", "flight"])),
    ),
    ("cardinal.number", r"(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)"),
)
_CURRENCIES = _rules(
    (
        "money.range",
        rf"(?P<sign>{_SIGN})\s?(?P<low>{_AMOUNT})(?:\s?(?P<low_scale>[kKMB])\b)?\s?[-–]\s?{_SIGN}?(?P<number>{_AMOUNT})"
        rf"(?:[\s-]?{_SCALE})?{_PER}",
    ),
    ("money.decade", rf"(?P<sign>{_SIGN})(?P<number>[1-9]0)s\b"),
    (
        "money.amount",
        rf"(?P<sign>{_SIGN})\s?(?P<number>{_AMOUNT}|\.\d+)(?P<gap>[\s-]?)(?:{_SCALE}){_NOUN}{_PER}",
    ),
    ("money.amount", rf"(?P<sign>{_SIGN})\s?(?P<number>{_AMOUNT}|\.\d+){_NOUN}{_PER}"),
)
_LETTERS = _rules(
    (
        "money.amount",
        rf"\b(?P<sign>{_PREFIXED})\s?(?P<number>{_AMOUNT}|\.\d+)(?:(?P<gap>[\s-]?)(?:{_SCALE}))?{_PER}",
    ),
    (
        "money.amount",
        rf"\b(?P<sign>{_CODE})\s?(?P<number>{_AMOUNT})(?:(?P<gap>[\s-]?)(?:{_SCALE}))?(?![\w-]){_PER}",
    ),
    ("date.month_first", rf"\b{_MONTH}\s+{_DAY}{_LAST_DAY}(?:,?\s+{_YEAR})?", _is_month),
    ("date.month_and_year", rf"\b{_MONTH},?\s+{_YEAR}", _is_month),
    ("date.era_first", r"\b(?P<era>AD|A\.D\.)\s(?P<digits>\d{1,4})(?!\w)"),
    ("serial.bank", r"\b(?P<letters>[A-Z]{2})(?P<digits>\d\d(?: [0-9]{4}){2,}(?: \d{1,4})?)(?!\w)"),
    ("address.state", rf"\b(?P<state>{_STATE})(?:\s(?P<zip>\d{{5}}(?:-\d{{4}})?))?(?![\w-])", _is_state),
    ("serial.version", r"\b(?P<v>[vV])(?P<version>\d+(?:\.\d+)+)(?!\d)"),
    ("serial.groups_behind", r"\b(?P<letters>[A-Z]+)-(?P<year>19\d\d|20\d\d)-(?P<digits>\d+)(?![\d-])"),
    ("roman.number", r"\b(?P<roman>[IVXLCDM]+)(?![\w-])", _is_roman),
    ("serial.road", r"\b(?P<letters>US|I|SR|CR)-(?P<digits>\d{1,3})\b"),
    ("serial.road", r"\b(?P<letters>A)(?P<digits>3\d0)\b"),
    ("roman.century", r"\b(?P<roman>[IVXLCDM]+)\b", _is_century),
    ("roman.ordinal", r"\b(?P<roman>[IVXLC]{2,7})\b", _is_reign),
    ("initialism.letters", r"\b(?:US|IT|WHO|AD|BC|EST|PST|ETA|CET|AM|PM|OR|ID)(?![\w’'])", _is_initialism),
)
_OTHERS = _rules(
    (
        "telephone.number",
        r"(?<![\w.,$€£])(?:\+\d[\d .()-]{6,20}\d|\(\d{3}\) ?\d{3}[ .-]\d{4}"
        r"|\(0\d{1,4}\) \d{3,4} \d{3,4})(?!\w|[.,]\d|-\d)",
    ),
    ("roman.sign", r"(?P<roman>[Ⅰ-ⅿ]+)"),
    ("cardinal.sign", r"(?P<number>[①-⑳❶-❿])"),
    ("formula.power", r"(?<=[\w)])\^\(?(?P<power>[-−]?\w{1,9})\)?"),
    ("formula.power", r"(?<=[\w)])(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)"),
    ("formula.sign", r"(?<=[\w)])\s?(?P<sign>=|\+|÷|×)\s?(?=[\w(√-])"),
    ("formula.minus", r"(?<=[\d)])\s?[-−–]\s?(?=[\d(])", _is_formula),
    ("formula.sign", r"(?<=[\d)])\s?(?P<sign>\*)\s?(?=[\d(])"),
    ("formula.sign", r"(?<=[\d)])(?P<sign>/)(?=[\d(])", _is_formula),
    ("formula.sign", r"(?<=[\d)])\s(?P<sign>/)\s(?=[\d(])"),
    ("formula.by", r"(?<=[\w\"'])\s(?P<sign>x)\s(?=\d)"),
    ("formula.compare", r"(?P<sign>[<>≤≥≠≈])\s?(?=[\d.])"),
    (
        "range.to",
        r"(?:(?<=[\d%°])|(?<=[\w])(?<=\d[a-zA-Z])|(?<=\d[ap]m)|(?<=\s[ap]m)"
        r"|(?<=[ap]\.m\.))\s?[-–—]\s?(?=[$€£¥₹]?\d)",
    ),
    ("range.to", r"(?<=\d[€£$%])\s?[-–—]\s?(?=\d)"),
    ("cardinal.minus", r"(?<![\w)])[-−](?=[\d$€£¥₹])"),
    ("cardinal.comma", r"(?<=\d)\s[-–—]+"),
    ("cardinal.hash", r"#\s?(?=\d)"),
    ("cardinal.about", r"(?<!\w)[~≈](?=\d)"),
    ("date.decade", r"['’](?P<digits>[1-9]0)s\b"),
    ("date.short_year", r"(?<!\w)['’](?P<digits>\d\d)(?!\w)"),
    ("cardinal.number", r"(?P<number>\.\d+)"),
    ("formula.root", r"√\s?(?=[\d(])"),
)
_AFTER_DIGIT = _rules(
    ("formula.by", r"(?<=\d)x(?=\d)"),
    ("formula.multiple", r"(?<=\d)x\b", lambda found, context: not context.has_equals),
    ("cardinal.per", rf"(?<=[a-z])/(?P<per>{_alternatives({*units.PERIODS, *units.UNITS})})(?![\w/])"),
)
_CODES = _rules(
    # A letter code and its number: "A4", "COVID-19", "BA2490".
    ("serial.code", r"(?<=[A-Za-z])(?P<digits>\d+)(?![.,]?\d)"),
    ("serial.code", r"(?<=[A-Z])-(?P<digits>\d+)(?![.,]?\d|s\b)"),
)
_DIGITS_OF_CODE = (*_CODES, *_DIGITS)
_HYPHENS_OF_CODE = (*_CODES, *_OTHERS)
_SLASHES = (*_AFTER_DIGIT, *_OTHERS)
_BLANKS = tuple(rule for rule in _OTHERS if "\\s" in rule.pattern.pattern)  # what may begin with a blank
_AROUND = re.compile(r"(?P<before>[\"'“‘(\[]*)(?P<core>\S*?)(?P<after>[\"'”’)\],;:!?]*)")
_RUN = re.compile(r"\s+|</?[a-z]+>|<\|[^<>\s]{1,20}\|>|[^\W\d_]+(?:['’][^\W\d_]+)*|.", re.DOTALL)


def tag(text: str, phrase: Phrase) -> Iterator[Tag | str]:
    """Yield the tagged parts of a phrase and, as strings, what stands between them; together the text."""
    parts = _AROUND.fullmatch(text)
    if parts and (spoken := _long_form(parts["core"], phrase)):
        yield from filter(None, [parts["before"]])
        yield Tag("abbreviation.word", parts["core"], {"spoken": spoken})
        yield from filter(None, [parts["after"]])
        return
    context = Context(text, phrase)
    position = 0
    for start, end, fields in find_addresses(text):
        yield from _tags(context, position, start)
        yield Tag("electronic.address", text[start:end], fields)
        position = end
    yield from _tags(context, position, len(text))


def _long_form(word: str, phrase: Phrase) -> str | None:
    """What an abbreviation stands for beside its neighbors; None: the word is none."""
    following = phrase.following.strip(vocabulary.EDGES)
    if word == vocabulary.SAINT_OR_STREET:
        return "Saint" if is_saint(phrase) else "Street"
    if word in vocabulary.COUNTED:
        is_numbered = following[:1].isdigit() or following[:1] == "#" or is_roman(following.rstrip("."))
        if is_numbered:
            return vocabulary.COUNTED[word]
    if word == "Sr." and following[:1].isupper() and not phrase.previous[:1].isupper():
        return "Sister"
    if word == "Co." and phrase.previous == "&":
        return "Company"
    if word.endswith(".") and vocabulary.MONTH_NAME.fullmatch(word):
        return vocabulary.MONTHS[word[:3].lower()]
    if word == "v." and not (phrase.previous[:1].isupper() and following[:1].isupper()):
        return None
    for table in (vocabulary.TITLES, vocabulary.BETWEEN, vocabulary.ABBREVIATIONS, vocabulary.SHORT_FORMS):
        if word in table:
            spoken = table[word]
            return (
                " ".join(spoken.replace(".", " ").upper().split())
                if vocabulary.DOTTED.fullmatch(spoken)
                else spoken
            )
    if vocabulary.DOTTED.fullmatch(word):
        return " ".join(word.replace(".", " ").upper().split())
    return None


def begins_sentence(word: str) -> bool:
    """Whether the word behind an abbreviation's full stop begins a sentence."""
    return word.strip(vocabulary.EDGES) in contexts.STARTERS


def is_saint(phrase: Phrase) -> bool:
    """Whether "St." is one, rather than a street: before a name, and not behind that of a street."""
    following, previous = phrase.following.strip(vocabulary.EDGES), phrase.previous.strip(vocabulary.EDGES)
    if not following[:1].isupper() or begins_sentence(following):
        return False
    return not previous[:1].isdigit() and previous not in contexts.STREET_NAMES


def _tags(context: Context, position: int, end: int) -> Iterator[Tag | str]:
    text = context.text
    while position < end:
        character = text[position]
        found, rule = None, None
        for rule in _candidates(text, position, character):
            found = rule.pattern.match(text, position, end)
            if found and found.end() > position and (rule.where is None or rule.where(found, context)):
                break
            found = None
        if found is None:
            run = _RUN.match(text, position, end)
            assert run is not None, text
            yield run[0]
            position = run.end()
        else:
            assert rule is not None
            yield Tag(rule.form, found[0], found.groupdict())
            position = found.end()


def _candidates(text: str, position: int, character: str) -> tuple[Rule, ...]:
    before = text[position - 1] if position else ""
    if character.isdigit() and character.isascii():
        return _DIGITS_OF_CODE if before.isalpha() else _DIGITS
    if character.isspace():
        return _BLANKS
    if character.isascii() and character.isalpha():
        return _AFTER_DIGIT if before.isdigit() else _LETTERS if not before.isalnum() else ()
    if character in units.SIGNS:
        return _CURRENCIES
    if character == "-" and before.isalpha() and before.isascii():
        return _HYPHENS_OF_CODE
    return _SLASHES if character == "/" else _OTHERS
