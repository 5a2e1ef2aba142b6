"""Tag the numbers of a phrase in one of the languages: dates, times, money, measures, ordinals, cardinals."""

# ruff: noqa: RUF001  Cyrillic letters and signs are meant

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from firstword.app.text.multilingual.locales import ARTICLES, COUNTERS, FRACTIONS, LOCALES
from firstword.app.text.phrases import Phrase
from firstword.app.text.rules import alternatives


@dataclass(frozen=True, slots=True)
class Tag:
    """form: such as "date.numeric". fields: what the pattern found."""

    form: str
    text: str
    fields: dict[str, str | None]


@lru_cache(maxsize=len(LOCALES))
def _rules(language: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    locale = LOCALES[language]
    separator = r"[ \u00a0\u202f.]" if locale.separator == " " else re.escape(locale.separator)
    decimal = re.escape(locale.decimal)
    whole = rf"\d{{1,3}}(?:{separator}\d{{3}})+(?!\d)|\d+"
    amount = rf"(?P<whole>{whole})(?:{decimal}(?P<decimals>\d+))?"
    sign = f"(?P<sign>{alternatives(locale.currencies)})"
    months = f"(?P<name>{alternatives(locale.months)})" if locale.months else r"(?P<name>(?!))"
    of = " de | del " if language == "es" else " "
    ending = r"(?: г(?:\.|ода\b))?" if language == "ru" else ""
    rows = [
        (
            "telephone.number",
            r"(?<![\w.,])(?:\+\d[\d ()/-]{6,18}\d|0\d{2,5}[ /-]\d{3,9}(?:[ -]\d{2,6})*"
            r"|0\d{1,4}-\d{2,4}-\d{3,4}|\d{12,})(?![\w.,]\d)",
        ),
        ("date.iso", r"(?<!\d)(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?!\d)"),
        (
            "date.numeric",
            r"(?<![\d.,/])(?P<day>\d{1,2})(?P<sep>[./-])(?P<month>\d{1,2})(?P=sep)(?P<year>\d{4}"
            r"|\d\d)(?![\d/-])",
        ),
        (
            "date.named",
            rf"(?<![\d.,/])(?P<day>\d{{1,2}})(?:er|º"
            rf"|\.)?(?:{of}){months}(?!\w)(?:(?:{of})(?P<year>\d{{4}}))?{ending}",
        ),
        ("time.letter", r"(?<![\d.,])(?P<hour>\d{1,2}) ?h ?(?P<minutes>\d\d)?(?!\w)"),
        (
            "time.clock",
            r"(?<![\d:])(?P<hour>\d{1,2}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?(?P<uhr> "
            r"Uhr)?(?![\d:])",
        ),
        ("money.before", rf"{sign}\s?{amount}"),
        ("money.behind", rf"(?<![\w.,]){amount}\s?{sign}(?!\w)"),
        ("measure.percent", rf"(?<![\w.,]){amount}\s?%"),
        ("measure.unit", rf"(?<![\w.,]){amount}\s?(?P<unit>{alternatives(locale.units)})(?![\w²³/])"),
        ("range.to", rf"(?<=\d)\s?[-–{'~〜～' if language in ('ja', 'ko') else ''}]\s?(?=\d)"),
        (
            "fraction.common",
            rf"(?<![\w.,/])(?P<fraction>{alternatives(FRACTIONS[language])})(?![0-9A-Za-z/])",
        ),
        ("cardinal.minus", r"(?<![\w)])[-−](?=\d)"),
        ("cardinal.decimal", rf"(?<![\w.,])(?P<whole>{whole}){decimal}(?P<decimals>\d+)(?![\d.])"),
        ("cardinal.number", rf"(?P<whole>{whole})"),
    ]
    if language == "fr":
        rows = [row for row in rows if row[0] != "time.clock"] + [rows[5]]
        rows.insert(
            0, ("ordinal.number", r"(?<!\w)(?P<number>\d+)(?P<ending>ers?|ère|re|es?|ème|nde?)(?!\w)")
        )
    elif language in ("es", "it"):
        rows = [row for row in rows if row[0] != "time.letter"]
        rows.insert(0, ("ordinal.number", r"(?<!\w)(?P<number>\d+)\.?(?P<ending>[ºª°](?!\s?C))"))
    elif language == "de":
        rows = [row for row in rows if row[0] != "time.letter"]
        rows.append(("ordinal.number", r"(?<![\w.,])(?P<number>\d{1,3})\.(?=$|\s[A-ZÄÖÜ])"))
        rows.insert(0, rows.pop())
        rows.insert(0, rows.pop(rows.index(next(row for row in rows if row[0] == "date.named"))))
    elif language == "ru":
        rows = [row for row in rows if row[0] != "time.letter"]
        rows.insert(0, ("ordinal.number", r"(?<!\w)(?P<number>\d+)-(?P<ending>й|я|е|го|му|м|ю)(?!\w)"))
        rows.insert(0, ("date.year", r"(?<!\d)(?P<year>1\d{3}|20\d\d) (?P<case>год[ауе]?|г\.)(?!\w)"))
    elif language == "ja":
        rows = [row for row in rows if row[0] not in ("time.letter", "date.named")]
    elif language == "ko":
        rows = [row for row in rows if row[0] not in ("time.letter", "date.named")]
        rows.insert(
            0, ("cardinal.native", rf"(?<![\d.,:제])(?P<number>[1-9]\d?) ?(?P<counter>{COUNTERS})(?!간의)")
        )
        rows.insert(0, ("date.month", r"(?<!\d)(?P<month>6|10)월"))
    return tuple((form, re.compile(pattern)) for form, pattern in rows)  # fmt: skip


_FIRST = re.compile(r"[0-9+\-−–~〜～\s€$£₽¥￥₩]|CHF")


def tag(text: str, phrase: Phrase, language: str) -> Iterator[Tag | str]:
    """Yield the tagged parts of a phrase and, as strings, what stands between them; together the text."""
    start = position = 0
    rules = _rules(language)
    while found := _FIRST.search(text, position):
        position = found.start()
        for form, pattern in rules:
            match = pattern.match(text, position)
            if match and _is_meant(form, match, phrase):
                if start < position:
                    yield text[start:position]
                yield Tag(form, match[0], match.groupdict())
                start = position = match.end()
                break
        else:
            position += 1
    if start < len(text):
        yield text[start:]


def _is_meant(form: str, found: re.Match[str], phrase: Phrase) -> bool:
    if form == "date.numeric" or form == "date.iso":
        return 1 <= int(found["month"]) <= 12 and 1 <= int(found["day"]) <= 31
    if form == "ordinal.number" and "ending" not in found.groupdict():
        return phrase.previous.lower() in ARTICLES
    return form != "cardinal.native" or phrase.previous != "제"  # "the second"
