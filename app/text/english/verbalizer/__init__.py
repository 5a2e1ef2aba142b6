"""Say a tagged part of an English phrase: one function for each form that the tagger knows."""

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.context import Fields, Tag, value_of
from firstword.app.text.english.numbers import (
    by_digits,
    cardinal,
    in_parts,
    number,
    ordinal,
    plural,
    roman_value,
    with_oh,
    year,
)
from firstword.app.text.english.verbalizer import amounts, codes, dates, formulas
from firstword.app.text.english.verbalizer.form import fixed, named

_DAYS = {
    **{"M": "Monday", "T": "Tuesday", "Tu": "Tuesday", "W": "Wednesday", "Th": "Thursday", "F": "Friday"},
    **{"Sa": "Saturday", "Su": "Sunday"},
}
_PLACES = {**vocabulary.PLACES, **vocabulary.PLACES_OF_MEMBERS, **contexts.STATES}
_YOUNGER = {"Jr": "Junior", "Sr": "Senior"}


def verbalize(tag: Tag, previous: str, is_counted: bool) -> str:
    """Return what is spoken for a tag.

    previous: the word before it. is_counted: it stands before a noun that it measures, as in "a 5 km run".
    """
    fields = tag.fields
    if tag.form in _WITH_NEIGHBORS:
        return _WITH_NEIGHBORS[tag.form](fields, previous, is_counted)
    return _FORMS[tag.form](fields, tag.text)


def _grouped(fields: Fields, text: str) -> str:
    return cardinal(value_of(fields, "number").replace(" ", ",").replace(".", ","))


def _ordinal(fields: Fields, text: str) -> str:
    return ordinal(value_of(fields, "number")) + (fields["several"] or "")


def _verse(fields: Fields, text: str) -> str:
    last = fields["last"]
    spoken = f"{cardinal(value_of(fields, 'chapter'))} {cardinal(value_of(fields, 'verse'))}"
    return f"{spoken} to {cardinal(last)}" if last else spoken


def _names(fields: Fields, text: str) -> str:
    def whole(name: str) -> str:
        return vocabulary.MONTHS.get(name[:3].lower()) or vocabulary.WEEKDAYS[name[:3]]

    return f"{whole(value_of(fields, 'first'))} to {whole(value_of(fields, 'last'))}"


def _ratio(fields: Fields, text: str) -> str:
    return f"{cardinal(value_of(fields, 'low'))} to {cardinal(value_of(fields, 'high'))}"


def _roman(fields: Fields, text: str) -> str:
    return cardinal(str(roman_value(value_of(fields, "roman").upper())))


def _reign(fields: Fields, previous: str, is_counted: bool) -> str:
    return f"the {ordinal(str(roman_value(value_of(fields, 'roman').upper())))}"


def _street(fields: Fields, text: str) -> str:
    building = in_parts(value_of(fields, "house")) + (f" {fields['letter']}" if fields["letter"] else "")
    words = [_street_word(word) for word in value_of(fields, "name").split()]
    street = value_of(fields, "street")
    kind = contexts.STREETS.get(street.rstrip("."), street)
    compass = fields["compass"]
    return " ".join([building, *words, kind, *([contexts.COMPASS[compass]] if compass else [])])


def _street_word(word: str) -> str:
    if word[0].isdigit():
        return ordinal(word[:-2])
    if word == "St.":
        return "Saint"
    return contexts.COMPASS.get(word) or _YOUNGER.get(word.rstrip("."), word)


def _state(fields: Fields, text: str) -> str:
    state = contexts.STATES[value_of(fields, "state")]
    digits = fields["zip"]
    return f"{state} {', '.join(map(with_oh, digits.split('-')))}" if digits else state


_FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    **amounts.FORMS,
    **codes.FORMS,
    **dates.FORMS,
    **formulas.FORMS,
    "cardinal.number": named("number", number),
    "cardinal.grouped": _grouped,
    "cardinal.plural": lambda fields, text: plural(cardinal(value_of(fields, "digits"))).removeprefix(
        "one " if len(text) > 2 else "\0"
    ),
    "cardinal.team": lambda fields, text: f"{cardinal(value_of(fields, 'digits')).removesuffix('e')}ers",
    "cardinal.letters": lambda fields, text: (
        f"{by_digits(value_of(fields, 'number')).replace('zero', 'oh')} K"
    ),
    "cardinal.parts": named("digits", in_parts),
    "cardinal.minus": fixed(" minus "),
    "cardinal.comma": fixed(", "),
    "money.for": fixed(" for "),
    "measure.per": fixed(" per "),
    "cardinal.hash": fixed("number "),
    "cardinal.about": fixed("about "),
    "ordinal.number": _ordinal,
    "range.to": fixed(" to "),
    "range.circa": fixed(" to circa "),
    "cardinal.always": fixed("twenty four seven"),
    "cardinal.all_year": fixed("twenty four seven three sixty five"),
    "range.ratio": _ratio,
    "range.verse": _verse,
    "range.wickets": lambda fields, text: " for ".join(cardinal(part) for part in text.split("/")),
    "range.names": _names,
    "range.weekdays": lambda fields, text: " ".join(_DAYS[day] for day in text.split("/")),
    "range.workdays": lambda fields, text: " to ".join(
        _DAYS[value_of(fields, at)] for at in ("first", "last")
    ),
    "abbreviation.month": lambda fields, text: vocabulary.MONTHS[text[:3].lower()],
    "abbreviation.number": lambda fields, text: f"{text[0]}umber",
    "range.pair": lambda fields, text: _names(fields, text).replace(" to ", " "),
    "range.letters": lambda fields, text: f"{text[0]} to {text[2]}",
    "range.halves": fixed("fifty fifty"),
    "cardinal.sign": lambda fields, text: cardinal(str(int(unicodedata.numeric(text)))),
    "roman.sign": lambda fields, text: cardinal(
        str(roman_value(unicodedata.normalize("NFKC", text).upper()))
    ),
    "roman.number": _roman,
    "roman.lettered": lambda fields, text: f"{_roman(fields, text)} {fields['letter']}",
    "roman.year": lambda fields, text: year(str(roman_value(text))),
    "roman.range": lambda fields, text: (
        f"{_roman(fields, text)} to {cardinal(str(roman_value(value_of(fields, 'last'))))}"
    ),
    "address.street": _street,
    "address.state": _state,
    "address.compass": lambda fields, text: contexts.COMPASS[value_of(fields, "compass")],
    "initialism.dotted": lambda fields, text: " ".join(text.replace(".", "")),
    "initialism.letters": lambda fields, text: " ".join(text),
    "abbreviation.party": lambda fields, text: f"{fields['party']} {_PLACES[value_of(fields, 'place')]}",
    "abbreviation.route": lambda fields, text: "Highway" if fields["road"] == "Hwy" else "Route",
    "abbreviation.floor": fixed("floor"),
    "abbreviation.hours": fixed("hours"),
    "abbreviation.counted": lambda fields, text: f"{vocabulary.COUNTED[text]} ",
    "abbreviation.book": lambda fields, text: vocabulary.NUMBERED_BOOKS[value_of(fields, "book")],
    "abbreviation.word": named("spoken", str),
}
_WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    **amounts.WITH_NEIGHBORS,
    **dates.WITH_NEIGHBORS,
    **formulas.WITH_NEIGHBORS,
    "roman.ordinal": _reign,
    "roman.raised": lambda fields, previous, is_counted: _reign(fields, previous, is_counted).removeprefix(
        "\0"
        if contexts.NAMES_BEFORE_ROMAN.fullmatch(previous) and previous not in contexts.NO_NAMES
        else "the "
    ),
    "roman.century": lambda fields, previous, is_counted: _reign(fields, previous, is_counted).removeprefix(
        "the " if previous.lower() == "the" else "\0"
    ),
}
