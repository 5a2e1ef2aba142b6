"""Say a tagged part of an English phrase: one function for each form that the tagger knows."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.addresses import ENGLISH_MARKS, say_address
from firstword.app.text.english import contexts, dates, units, vocabulary
from firstword.app.text.english.context import Fields, Tag, value_of
from firstword.app.text.english.numbers import (
    by_digits,
    cardinal,
    counted,
    in_parts,
    number,
    ordinal,
    pairs,
    plural,
    roman_value,
    with_oh,
    year,
)

# ruff: noqa: RUF001  signs are meant


MAX_DENOMINATOR = 10
COMMON_DENOMINATORS = frozenset({"12", "16", "20", "32", "64", "100", "1000"})
_PARTS = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
_YOUNGER = {"Jr": "Junior", "Sr": "Senior"}
_CURRENCIES = {**units.CODES, **units.PREFIXED, **units.MONEY}


def verbalize(tag: Tag, previous: str, is_counted: bool) -> str:
    """Return what is spoken for a tag.

    previous: the word before it. is_counted: it stands before a noun that it measures, as in "a 5 km run".
    """
    fields = tag.fields
    if tag.form in _WITH_NEIGHBORS:
        return _WITH_NEIGHBORS[tag.form](fields, previous, is_counted)
    return _FORMS[tag.form](fields, tag.text)


# --- Numbers


def _grouped(fields: Fields, text: str) -> str:
    return cardinal(value_of(fields, "number").replace(" ", ","))


def _scaled(fields: Fields, text: str) -> str:
    return f"{number(value_of(fields, 'number'))} {vocabulary.SCALES[value_of(fields, 'scale')]}"


def _ordinal(fields: Fields, text: str) -> str:
    return ordinal(value_of(fields, "number"))


def _fraction(fields: Fields, text: str) -> str:
    """ "1/2" and "2 3/4"; where it is no common fraction ("24/7"), one number after the other."""
    whole, above, below = fields["whole"], value_of(fields, "above"), value_of(fields, "below")
    is_common = 2 <= int(below) <= MAX_DENOMINATOR or below in COMMON_DENOMINATORS
    if not is_common or int(above) >= int(below):
        return " ".join(cardinal(part) for part in (whole, above, below) if part)
    one_of = ordinal(below).removeprefix("one ")
    part, parts = _PARTS.get(below, (one_of, f"{one_of}s"))
    spoken = f"{cardinal(above)} {part if above == '1' else parts}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


def _rare_fraction(fields: Fields, text: str) -> str:
    whole, above, below = fields["whole"], value_of(fields, "above"), value_of(fields, "below")
    spoken = f"{cardinal(above)} {'halve' if below == '2' else ordinal(below)}{'' if above == '1' else 's'}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


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


# --- Money and measures


def _money(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, sign, scale = value_of(fields, "number"), value_of(fields, "sign"), fields.get("scale")
    one, several, hundredth, hundredths = _CURRENCIES[sign]
    several = one if is_counted else several
    per = _per(fields)
    whole, _, decimals = amount.partition(".")
    if scale:
        return f"{number(amount)} {vocabulary.SCALES[scale]} {several}{per}"
    if not hundredth or len(decimals) > 2 or not decimals:
        return f"{number(amount)} {one if amount == '1' else several}{per}"
    cents = int(decimals.ljust(2, "0"))
    of_cents = f"{cardinal(str(cents))} {hundredth if cents == 1 or is_counted else hundredths}"
    if cents and not whole.strip("0"):
        return of_cents + per
    spoken = f"{cardinal(whole)} {one if whole == '1' else several}"
    if not cents:
        return spoken + per
    return f"{spoken} {of_cents}{per}" if len(decimals) == 1 else f"{spoken} and {of_cents}{per}"


def _money_with_comma(fields: Fields, previous: str, is_counted: bool) -> str:
    return _money({**fields, "number": f"{fields['whole']}.{fields['cents']}"}, previous, is_counted)


def _range_of_money(fields: Fields, text: str) -> str:
    scale = fields["scale"]
    low = number(value_of(fields, "low"))
    if fields["low_scale"]:
        low += f" {vocabulary.SCALES[value_of(fields, 'low_scale')]}"
    high = number(value_of(fields, "number")) + (f" {vocabulary.SCALES[scale]}" if scale else "")
    return f"{low} to {high} {_CURRENCIES[value_of(fields, 'sign')][1]}{_per(fields)}"


def _measure(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, scale = value_of(fields, "number"), fields.get("scale")
    whole_unit = units.UNITS.get(f"{fields['unit']}/{fields['per']}")
    one, several = whole_unit or units.UNITS[value_of(fields, "unit")]
    per = "" if whole_unit else _per(fields)
    spoken = f"{number(amount)} {scale}" if scale else number(amount)
    return f"{spoken} {one if (amount == '1' and not scale) or is_counted else several}{per}"


def _measured_fraction(fields: Fields, previous: str, is_counted: bool) -> str:
    one, several = (
        ("inch", "inches") if fields["unit"] in ('"', "″") else units.UNITS[value_of(fields, "unit")]
    )
    return f"{_fraction(fields, '')} {several if fields['whole'] and not is_counted else one}"


def _feet_and_inches(fields: Fields, text: str) -> str:
    inches = value_of(fields, "inches")
    with_part = _fraction({**fields, "whole": inches}, "") if fields.get("above") else cardinal(inches)
    return f"{cardinal(value_of(fields, 'feet'))} foot {with_part}"


def _pressure(fields: Fields, text: str) -> str:
    spoken = f"{cardinal(value_of(fields, 'above'))} over {cardinal(value_of(fields, 'below'))}"
    return f"{spoken} millimeters of mercury" if fields["unit"] else spoken


def _latitude(fields: Fields, text: str) -> str:
    minutes = fields["minutes"]
    parts = [
        counted(value_of(fields, "number"), "degree"),
        *([counted(minutes, "minute")] if minutes else []),
    ]
    return f"{' '.join(parts)} {contexts.COMPASS[value_of(fields, 'compass')].lower()}"


def _inches(fields: Fields, previous: str, is_counted: bool) -> str:
    amount = value_of(fields, "number")
    return f"{number(amount)} {'inch' if amount == '1' or is_counted else 'inches'}"


def _per(fields: Fields) -> str:
    per = fields.get("per")
    if not per:
        return ""
    if per == "ea":
        return " each"
    return f" per {units.PERIODS.get(per) or units.UNITS.get(per, (per,))[0]}"


def _degrees(fields: Fields, text: str) -> str:
    scale = "Celsius" if fields["unit"] == "C" else "Fahrenheit"
    return f"{number(value_of(fields, 'number'))} degrees {scale}"


# --- Codes


def _groups(fields: Fields, text: str) -> str:
    return ", ".join(by_digits(run) for run in re.findall(r"[0-9]+", text))


def _telephone(fields: Fields, text: str) -> str:
    extension = fields.get("extension")
    text = text.removesuffix(f"x{extension}")
    runs = re.findall(r"[0-9]+", text)
    area = 1 if runs[0] == "1" else 0
    is_free = len(runs) > 2 or (area == 1 and len(runs) > 1)
    blocks = [
        f"{cardinal(run[0])} hundred"
        if is_free and at == area and run[0] != "0" and run[1:] == "00"
        else by_digits(run)
        for at, run in enumerate(runs)
    ]
    blocks += [f"extension {by_digits(extension)}"] if extension else []
    return f"plus {', '.join(blocks)}" if text.startswith("+") else ", ".join(blocks)


def _lettered_telephone(fields: Fields, text: str) -> str:
    name = value_of(fields, "name")
    digits = text.removesuffix(f"-{name}")
    return f"{_telephone(fields, digits)}, {name.replace('-', ' ')}"


def _year_and_code(fields: Fields, text: str) -> str:
    letters = f"{fields['letters']} " if fields.get("letters") else ""
    return f"{letters}{year(value_of(fields, 'year'))}, {by_digits(value_of(fields, 'digits'))}"


def _bank(fields: Fields, text: str) -> str:
    return f"{fields['letters']} {_groups(fields, value_of(fields, 'digits'))}"


def _hexadecimal(fields: Fields, text: str) -> str:
    return " ".join(by_digits(one) if one.isdecimal() else one.upper() for one in text if one != ":")


def _network(fields: Fields, text: str) -> str:
    return " dot ".join(by_digits(part) for part in value_of(fields, "digits").split("."))


def _version(fields: Fields, text: str) -> str:
    spoken = " point ".join(cardinal(part) for part in value_of(fields, "version").split("."))
    return f"version {spoken}" if fields.get("v") else spoken


def _code(fields: Fields, text: str) -> str:
    return f" {pairs(value_of(fields, 'digits'))}"


# --- The rest


def _roman(fields: Fields, text: str) -> str:
    return cardinal(str(roman_value(value_of(fields, "roman").upper())))


def _reign(fields: Fields, previous: str, is_counted: bool) -> str:
    return f"the {ordinal(str(roman_value(value_of(fields, 'roman'))))}"


def _street(fields: Fields, text: str) -> str:
    building = in_parts(value_of(fields, "house")) + (f" {fields['letter']}" if fields["letter"] else "")
    words = [_street_word(word) for word in value_of(fields, "name").split()]
    street = value_of(fields, "street")
    kind = contexts.STREETS.get(street.rstrip("."), street)
    compass = fields["compass"]
    return " ".join([building, *words, kind, *([contexts.COMPASS[compass]] if compass else [])])


def _unit(fields: Fields, text: str) -> str:
    whole = units.UNITS.get(text)
    return whole[1] if whole else f"{units.UNITS[value_of(fields, 'unit')][1]}{_per(fields)}"


def _path(fields: Fields, text: str) -> str:
    spoken = say_address({"host": None, "user": None, "path": text}, ENGLISH_MARKS, by_digits)
    return f"{spoken} slash " if text.endswith("/") else spoken


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


def _power(fields: Fields, text: str) -> str:
    power = (fields.get("power") or fields.get("raised") or "").translate(_RAISED)
    if power in ("2", "3"):
        return " squared" if power == "2" else " cubed"
    minus = "minus " if power.startswith("-") else ""
    bare = power.lstrip("-")
    return f" to the power of {minus}{cardinal(bare) if bare.isdecimal() else bare}"


def _scientific(fields: Fields, text: str) -> str:
    power = _power({"power": value_of(fields, "power").lstrip("+")}, "").replace(
        " squared", " to the power of two"
    )
    return (
        f"{number(value_of(fields, 'number'))} times ten{power.replace(' cubed', ' to the power of three')}"
    )


def _operator(fields: Fields, text: str) -> str:
    return f" {vocabulary.OPERATORS.get(value_of(fields, 'sign')) or 'about'} "


def _compared(fields: Fields, previous: str, is_counted: bool) -> str:
    """ "x <3", and "if x is <3", which has its verb."""
    spoken = _operator(fields, "")
    return spoken.replace(" is ", " ") if previous.lower() in contexts.COMPARED_BEHIND else spoken


def _named(name: str, spoken: Callable[[str], str]) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken(value_of(fields, name))


def _fixed(spoken: str) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken


_FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    **dates.FORMS,
    "cardinal.number": _named("number", number),
    "cardinal.grouped": _grouped,
    "cardinal.plural": lambda fields, text: plural(cardinal(value_of(fields, "digits"))),
    "cardinal.letters": lambda fields, text: (
        f"{by_digits(value_of(fields, 'number')).replace('zero', 'oh')} K"
    ),
    "cardinal.parts": _named("digits", in_parts),
    "cardinal.scaled": _scaled,
    "cardinal.minus": _fixed(" minus "),
    "cardinal.comma": _fixed(","),
    "cardinal.hash": _fixed("number "),
    "cardinal.about": _fixed("about "),
    "cardinal.per": lambda fields, text: f"{_per(fields)} ",
    "ordinal.number": _ordinal,
    "digits.code": _named("digits", by_digits),
    "money.range": _range_of_money,
    "money.decade": lambda fields, text: plural(cardinal(value_of(fields, "number"))),
    "measure.feet_and_inches": _feet_and_inches,
    "measure.feet": lambda fields, text: f"{cardinal(value_of(fields, 'number'))} feet",
    "measure.degrees": _degrees,
    "measure.pressure": _pressure,
    "measure.latitude": _latitude,
    "range.to": _fixed(" to "),
    "range.ratio": _ratio,
    "range.verse": _verse,
    "range.names": _names,
    "range.letters": lambda fields, text: f"{text[0]} to {text[2]}",
    "telephone.number": _telephone,
    "telephone.letters": _lettered_telephone,
    "serial.year": _year_and_code,
    "serial.groups": _groups,
    "serial.groups_behind": _year_and_code,
    "serial.bank": _bank,
    "serial.network": _network,
    "serial.version": _version,
    "serial.code": _code,
    "serial.mixed": lambda fields, text: " ".join(
        by_digits(run) if run.isdecimal() else run for run in re.findall(r"\d+|\D+", text)
    ),
    "serial.inner": lambda fields, text: (
        f" {cardinal(text) if len(text) == 3 and text.endswith('00') else by_digits(text)}"
    ),
    "serial.craft": lambda fields, text: f" {in_parts(value_of(fields, 'digits'))}",
    "serial.plural": lambda fields, text: f" {plural(cardinal(value_of(fields, 'digits')))}",
    "serial.pixels": lambda fields, text: (
        f"{in_parts(value_of(fields, 'wide'))} by {in_parts(value_of(fields, 'high'))}"
    ),
    "serial.road": lambda fields, text: (
        f"{' '.join(value_of(fields, 'letters'))} {in_parts(value_of(fields, 'digits'))}"
    ),
    "serial.war": lambda fields, text: f"World War {cardinal(value_of(fields, 'number'))}",
    "serial.sharp": lambda fields, text: f"{fields['letter']} sharp",
    "serial.model": lambda fields, text: (
        f"{in_parts(value_of(fields, 'digits'))} {in_parts(value_of(fields, 'variant'))}"
    ),
    "range.halves": _fixed("fifty fifty"),
    "serial.lines": lambda fields, text: (
        f"{in_parts(value_of(fields, 'digits'))} {value_of(fields, 'letter').upper()}"
    ),
    "serial.hexadecimal": _hexadecimal,
    "digits.zip": lambda fields, text: ", ".join(map(with_oh, value_of(fields, "zip").split("-"))),
    "cardinal.sign": lambda fields, text: cardinal(str(int(unicodedata.numeric(text)))),
    "roman.sign": lambda fields, text: cardinal(
        str(roman_value(unicodedata.normalize("NFKC", text).upper()))
    ),
    "fraction.common": _fraction,
    "fraction.rare": _rare_fraction,
    "fraction.score": lambda fields, text: (
        f"{number(value_of(fields, 'above'))} out of {number(value_of(fields, 'below'))}"
    ),
    "roman.number": _roman,
    "roman.year": lambda fields, text: year(str(roman_value(text))),
    "roman.range": lambda fields, text: (
        f"{_roman(fields, text)} to {cardinal(str(roman_value(value_of(fields, 'last'))))}"
    ),
    "address.street": _street,
    "address.state": _state,
    "electronic.address": lambda fields, text: say_address(fields, ENGLISH_MARKS, by_digits),
    "electronic.path": _path,
    "electronic.dot": _fixed(" dot "),
    "electronic.handle": lambda fields, text: (
        f" at {say_address({**fields, 'user': None, 'path': None}, {**ENGLISH_MARKS, '_': ''}, by_digits)}"
    ),
    "formula.function": lambda fields, text: f"{fields['name']} of {fields['of']}",
    "formula.power": _power,
    "formula.scientific": _scientific,
    "formula.sign": _operator,
    "formula.times": _fixed(" times "),
    "formula.by": _fixed(" by "),
    "formula.multiple": _fixed(" times"),
    "formula.minus": _fixed(" minus "),
    "formula.root": _fixed("the square root of "),
    "measure.unit": _unit,
    "initialism.dotted": lambda fields, text: " ".join(text.replace(".", "")),
    "initialism.letters": lambda fields, text: " ".join(text),
    "abbreviation.route": _fixed("Route"),
    "abbreviation.word": _named("spoken", str),
}
_WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    **dates.WITH_NEIGHBORS,
    "money.amount": _money,
    "money.behind": _money,
    "money.comma": _money_with_comma,
    "measure.amount": _measure,
    "measure.inches": _inches,
    "measure.fraction": _measured_fraction,
    "formula.compare": _compared,
    "roman.ordinal": _reign,
    "roman.century": lambda fields, previous, is_counted: _reign(fields, previous, is_counted).removeprefix(
        "the " if previous.lower() == "the" else "\0"
    ),
}
