"""What rules of Chinese need in a text, so that few of them are tried."""

from typing import Final

from firstword.app.text.chinese.rules.patterns import DASHES

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

NEEDS: Final = {
    "formula.to": "^",
    **dict.fromkeys(("fraction.mixed", "fraction.plain", "measure.pressure"), "/"),
    **dict.fromkeys(
        (
            "measure.speed",
            "measure.hourly",
            "measure.share",
            "measure.beside",
            "time.always",
            "serial.slashes",
            "serial.tire",
            "date.day",
            "serial.page",
            "range.degrees",
        ),
        "/",
    ),
    **dict.fromkeys(("time.clock", "duration.clock", "duration.lap", "serial.hex"), ":"),
    **{"fraction.division": "=", "cardinal.result": "=", "formula.minus": "-–−", "cardinal.thousands": "k"},
    **dict.fromkeys(("date.era_year", "date.short_year", "date.years"), "年"),
    **dict.fromkeys(("range.figure", "serial.groups", "serial.size", "range.numbers"), "-"),
    "serial.range": DASHES,
    "date.either_way": "-/",
    "date.span": DASHES,
    "date.next_month": "/",
    "time.halves": "mM",
    **dict.fromkeys(("fraction.measured", "fraction.letter"), "/"),
    **dict.fromkeys(("date.holidays", "money.range", "range.to"), DASHES),
    **dict.fromkeys(("time.range", "serial.version", "serial.dotted"), "."),
    **dict.fromkeys(("formula.plus", "cardinal.plus"), "+"),
    **dict.fromkeys(("cardinal.pair", "cardinal.two"), "2"),
    **{
        "measure.inches": '"″n',
        "time.minute": "'′",
        "decimal.scientific": "eE",
        "fraction.thousandths": "‰",
        "fraction.percents": "%",
        "fraction.percent": "%",
        "formula.both": "±",
        "measure.degrees": "°",
        "cardinal.spaced": " \u00a0\u202f",
        "date.quarter": "QH",
        "date.decade": "s",
        "serial.to": "2",
        "serial.mask": "/-",
        "duration.units": "m",
        "range.till": "今",
    },
    **{
        "cardinal.separated": ",",
        "formula.divided": "÷/",
        "formula.beside": "/",
        "formula.power": "^",
        "date.zeros": "0",
    },
    **{"range.versus": "vV", "range.score": "-–:", "range.verse": ":："},
    **{"date.season": f"/{DASHES}", "time.half": "mM"},
    **{"measure.feet": "'′f", "duration.primes": "'’′", "measure.minutes": "°", "date.event": "·./"},
    **{"formula.times": "·×", "formula.cross": "xX", "serial.model": "-−", "date.era": "AB"},
    **{
        "serial.apostrophe": "'’",
        "date.written": ".-",
        "date.after": "年",
        "date.months": ".",
        "time.told": ":",
    },
    **{"decimal.number": ".", "money.whole": ".", "cardinal.multiplied": "kK", "serial.hyphen": "-"},
    **{"ordinal.latin": "tdh", "cardinal.ten_thousands": "wW", "date.year_and_month": "-/"},
}
"""By form, characters of which whatever is so written has one."""
