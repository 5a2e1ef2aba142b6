"""What a rule is, and the patterns that several rules are made of."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.conditions.condition import Condition

# ruff: noqa: RUF001  typographic dashes and signs are meant


@dataclass(frozen=True, slots=True)
class Rule:
    """A form, how it is written, and where it is meant; None: everywhere.

    needs: a character that whatever is so written has, which is looked for first, since that is quicker.
    """

    form: str
    pattern: re.Pattern[str]
    where: Condition | None = None
    needs: str = ""


_NEEDS = {
    **{
        "date.week": "W",
        "time.offset": ":",
        "date.stamp": "T",
        "measure.pressure": "/",
        "measure.fraction": "/",
        "fraction.rare": "/",
    },
    **{"fraction.common": "/", "date.month_and_day": "/", "range.verse": ":", "range.ratio": ":"},
    **{"duration.clock": ":", "measure.latitude": "°", "serial.network": ".", "serial.version": "."},
    **{
        "money.comma": ",",
        "serial.models": "7s",
        "measure.type": "pt",
        "digits.long_zip": "-",
        "date.year_and_month": "-",
        "date.season": "-",
        "time.on_hour": ":",
        "cardinal.scaled_apart": "n",
        "date.joined_day_first": "-",
        "date.joined_month_first": "-",
        "abbreviation.counted": ".",
        "measure.rate": "/",
        "range.pair": "/",
        "range.workdays": "F",
        "telephone.toll_free": "1-8",
        "time.short_hour": "p",
        "measure.foot": "'",
        "abbreviation.number": "o. ",
        "date.joined_short_year": "-",
        "telephone.letters": "-",
        "serial.year": "-",
        "serial.model": "-",
    },
    **{"range.halves": "-", "formula.times": "x", "electronic.handle": "@"},
    **dict.fromkeys(("fraction.score", "fraction.part", "date.days", "date.month_of_year"), "/"),
    **{
        "cardinal.all_year": "/",
        "cardinal.always": "24-7",
        "cardinal.european": ",",
        "date.decade": "s",
        "cardinal.plural": "s",
        "serial.record": "-",
    },
    **{"serial.hyphen": "-", "formula.ion": "-", "serial.standard": ":", "cardinal.letters": "401"},
    **{"measure.points": "pts", "measure.percentage": "pp", "duration.aged": "y", "duration.age": "y"},
    **{"formula.triangle": "△", "range.circa": "c.", "abbreviation.book": ".", "address.street": " "},
    **{"formula.root": "√", "cardinal.hash": "#", "formula.function": "(", "serial.sharp": "#"},
}


def compile_rules(*rows: tuple[str, str] | tuple[str, str, Condition]) -> tuple[Rule, ...]:
    return tuple(
        Rule(row[0], re.compile(row[1], re.ASCII), row[2] if len(row) == 3 else None, _NEEDS.get(row[0], ""))
        for row in rows
    )


def alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d)+,\d{3}|\d+)(?:\.\d+)?(?!\d)"
NUMBER = f"(?P<number>{AMOUNT})"
SIGN = f"[{units.SIGNS}]"
PREFIXED = alternatives(units.PREFIXED)
CODE = rf"(?:US\$|[A-Z]{{3,4}}\b|(?:{'|'.join(units.SMALL_CODES)})\b|Rs\b\.?|RM\b|kr\b|zł(?!\w)|Kč(?!\w))"
SCALE = rf"(?P<scale>{alternatives(vocabulary.SCALES)})(?![\w²³])"
# Any letters: whether they are a unit is looked up, which takes less time than so many branches.
UNIT = (
    r"(?P<unit>N[·⋅]m|ft-lbs?|lb-ft|[lL]/100\s?km|(?:(?:sq|cu)\.?[ -]|fl\.? )?[A-Za-zµμ\u2126\u03a9]+[²³23]?"
    r"|°\s?[CF]\b|[°º][CF]?|[℃℉%‰★⭐])(?![\w°²³])"
)
PER = r"(?:/(?P<per>(?:(?:sq|cu)\.?[ -])?[A-Za-zµμ]+[²³23]?(?:/[A-Za-z]+)?)(?![\w/]))?"
_PERIOD = alternatives(units.PERIODS)
PER_PRICE = (
    r"(?:(?:/|(?<=\d)(?=pp\b))"
    rf"(?P<per>(?:{alternatives({*units.PERIODS, *units.UNIT_WORDS, *units.PRICED})})/[A-Za-z]+"
    rf"|[A-Za-z]+/(?:{_PERIOD})|(?:(?:sq|cu)\.?[ -])?[A-Za-zµμ]+[²³23]?)(?![\w/]))?"
)
NOUN = r"(?P<noun>-(?:dollar|euro|pound|yen|rupee))?"
MIXED = r"(?:\s|-(?=(?:1/2|[12]/3|[13]/4|[1357]/8|\d\d?/(?:16|32))(?![\d/])))"
"""Between a whole number and a fraction: "1 3/4", "1-3/4"."""
MONTH = rf"(?P<month>{vocabulary.MONTH})"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|ST|ND|RD|TH)?(?![\d:.%]\d|[\d:%]|,\d|\w|/)"
LAST_DAY = r"(?:\s?[-–]\s?(?P<last>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%/]|\w))?"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d|2100)(?![\d:]|,\d|\.\d)"
HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"
ZONE = rf"(?:\s(?P<zone>{contexts.ZONES}|{contexts.SMALL_ZONES})\b)?"
WEEKDAY = rf"(?:{alternatives(vocabulary.WEEKDAYS)})(?:(?:s|nes|rs|ur)?day)?"
STATE = "|".join(contexts.STATES)
STREET = rf"(?P<street>(?:{alternatives(contexts.STREETS)})\b\.?|(?:{alternatives(contexts.STREET_WORDS)})\b)"
COMPASS = r"(?:N\.?[EW]|S\.?[EW]|[NSEW])\b\.?"
