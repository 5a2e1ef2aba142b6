"""Say a tagged part of an English phrase: one function for each form that the tagger knows."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.addresses import ENGLISH_MARKS, say_address
from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.context import Tag
from firstword.app.text.english.numbers import (
    by_digits,
    cardinal,
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

Fields = Mapping[str, str | None]

MAX_DENOMINATOR = 10
COMMON_DENOMINATORS = frozenset({"12", "16", "20", "32", "64", "100", "1000"})
_PARTS = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
_NAMES = tuple(vocabulary.MONTHS.values())
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
_CURRENCIES = {**units.CODES, **units.PREFIXED, **units.MONEY}


def verbalize(tag: Tag, previous: str, is_counted: bool) -> str:
    """Return what is spoken for a tag.

    previous: the word before it. is_counted: it stands before a noun that it measures, as in "a 5 km run".
    """
    fields = tag.fields
    if tag.form in _WITH_NEIGHBORS:
        return _WITH_NEIGHBORS[tag.form](fields, previous, is_counted)
    return _FORMS[tag.form](fields, tag.text)


def _of(fields: Fields, name: str) -> str:
    """A field that the form's pattern always has."""
    value = fields[name]
    assert value is not None, name
    return value


# --- Numbers


def _grouped(fields: Fields, text: str) -> str:
    return cardinal(_of(fields, "number").replace(" ", ","))


def _scaled(fields: Fields, text: str) -> str:
    return f"{number(_of(fields, 'number'))} {vocabulary.SCALES[_of(fields, 'scale')]}"


def _ordinal(fields: Fields, text: str) -> str:
    return ordinal(_of(fields, "number"))


def _fraction(fields: Fields, text: str) -> str:
    """ "1/2" and "2 3/4"; where it is no common fraction ("24/7"), one number after the other."""
    whole, above, below = fields["whole"], _of(fields, "above"), _of(fields, "below")
    is_common = 2 <= int(below) <= MAX_DENOMINATOR or below in COMMON_DENOMINATORS
    if not is_common or int(above) >= int(below):
        return " ".join(cardinal(part) for part in (whole, above, below) if part)
    one_of = ordinal(below).removeprefix("one ")
    part, parts = _PARTS.get(below, (one_of, f"{one_of}s"))
    spoken = f"{cardinal(above)} {part if above == '1' else parts}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


def _rare_fraction(fields: Fields, text: str) -> str:
    whole, above, below = fields["whole"], _of(fields, "above"), _of(fields, "below")
    spoken = f"{cardinal(above)} {'halve' if below == '2' else ordinal(below)}{'' if above == '1' else 's'}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


def _verse(fields: Fields, text: str) -> str:
    last = fields["last"]
    spoken = f"{cardinal(_of(fields, 'chapter'))} {cardinal(_of(fields, 'verse'))}"
    return f"{spoken} to {cardinal(last)}" if last else spoken


def _names(fields: Fields, text: str) -> str:
    def whole(name: str) -> str:
        return vocabulary.MONTHS.get(name[:3].lower()) or vocabulary.WEEKDAYS[name[:3]]

    return f"{whole(_of(fields, 'first'))} to {whole(_of(fields, 'last'))}"


def _ratio(fields: Fields, text: str) -> str:
    return f"{cardinal(_of(fields, 'low'))} to {cardinal(_of(fields, 'high'))}"


# --- Money and measures


def _money(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, sign, scale = _of(fields, "number"), _of(fields, "sign"), fields.get("scale")
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
    low = number(_of(fields, "low"))
    if fields["low_scale"]:
        low += f" {vocabulary.SCALES[_of(fields, 'low_scale')]}"
    high = number(_of(fields, "number")) + (f" {vocabulary.SCALES[scale]}" if scale else "")
    return f"{low} to {high} {_CURRENCIES[_of(fields, 'sign')][1]}{_per(fields)}"


def _measure(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, scale = _of(fields, "number"), fields.get("scale")
    whole_unit = units.UNITS.get(f"{fields['unit']}/{fields['per']}")
    one, several = whole_unit or units.UNITS[_of(fields, "unit")]
    per = "" if whole_unit else _per(fields)
    spoken = f"{number(amount)} {scale}" if scale else number(amount)
    return f"{spoken} {one if (amount == '1' and not scale) or is_counted else several}{per}"


def _measured_fraction(fields: Fields, previous: str, is_counted: bool) -> str:
    one, several = ("inch", "inches") if fields["unit"] in ('"', "″") else units.UNITS[_of(fields, "unit")]
    return f"{_fraction(fields, '')} {several if fields['whole'] and not is_counted else one}"


def _pressure(fields: Fields, text: str) -> str:
    spoken = f"{cardinal(_of(fields, 'above'))} over {cardinal(_of(fields, 'below'))}"
    return f"{spoken} millimeters of mercury" if fields["unit"] else spoken


def _latitude(fields: Fields, text: str) -> str:
    minutes = fields["minutes"]
    parts = [_counted(_of(fields, "number"), "degree"), *([_counted(minutes, "minute")] if minutes else [])]
    return f"{' '.join(parts)} {contexts.COMPASS[_of(fields, 'compass')].lower()}"


def _inches(fields: Fields, previous: str, is_counted: bool) -> str:
    amount = _of(fields, "number")
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
    return f"{number(_of(fields, 'number'))} degrees {scale}"


# --- Dates and times


def _month_first(fields: Fields, text: str) -> str:
    day = _days(fields)
    return _with_year(f"{_month(fields)} {day}", fields)


def _day_first(fields: Fields, previous: str, is_counted: bool) -> str:
    article = "" if previous.lower() == "the" else "the "
    return _with_year(f"{article}{_days(fields)} of {_month(fields)}", fields)


def _days(fields: Fields) -> str:
    last = fields.get("last")
    return ordinal(_of(fields, "day")) + (f" to {ordinal(last)}" if last else "")


def _month(fields: Fields) -> str:
    return vocabulary.MONTHS[_of(fields, "month")[:3].lower()]


def _with_year(spoken: str, fields: Fields) -> str:
    digits = fields.get("year")
    return f"{spoken} {year(digits)}" if digits else spoken


def _numeric_date(fields: Fields, previous: str, is_counted: bool) -> str:
    """Month before day, behind a dot the other way, unless only one order makes a date."""
    month, day = int(_of(fields, "first")), int(_of(fields, "second"))
    is_day_first = fields.get("sign") == "."
    if is_day_first:
        month, day = day, month
    if month > 12:
        month, day, is_day_first = day, month, False
    digits = fields.get("year")
    if digits and len(digits) == 2:
        digits = f"{'20' if digits < '70' else '19'}{digits}"
    spoken = f" {year(digits)}" if digits else ""
    if is_day_first:
        article = "" if previous.lower() == "the" else "the "
        return f"{article}{ordinal(str(day))} of {_NAMES[month - 1]}{spoken}"
    return f"{_NAMES[month - 1]} {ordinal(str(day))}{spoken}"


def _decade(fields: Fields, text: str) -> str:
    digits = _of(fields, "digits")
    if digits.endswith("00"):
        return f"{year(digits)}s"
    return plural(year(digits) if len(digits) == 4 else cardinal(digits))


def _era(fields: Fields, text: str) -> str:
    digits = _of(fields, "digits")
    letters = " ".join(_of(fields, "era").replace(".", ""))
    return f"{year(digits) if len(digits) == 4 else cardinal(digits)} {letters}"


def _range_of_years(fields: Fields, text: str) -> str:
    last = _of(fields, "last")
    return f"{year(_of(fields, 'year'))} to {year(last) if len(last) == 4 else _short_year(last)}"


def _short_year(digits: str) -> str:
    return f"oh {cardinal(digits[1])}" if digits[0] == "0" else cardinal(digits)


def _time(fields: Fields, text: str) -> str:
    minutes, seconds, half = fields.get("minutes"), fields.get("seconds"), fields.get("half")
    hour = cardinal(str(int(_of(fields, "hour"))))
    ending = f" {half.upper()} M" if half else ""
    zone = fields.get("zone")
    ending += f" {' '.join(zone)}" if zone else ""
    if minutes is None or (half and minutes == "00" and not seconds):
        return hour + ending
    if minutes == "00" and not seconds:
        on_the_hour = f"{hour} o'clock" if 0 < int(_of(fields, "hour")) <= 12 else f"{hour} hundred"
        return on_the_hour + ending
    spoken = f"oh {cardinal(minutes[1])}" if minutes[0] == "0" else cardinal(minutes)
    if seconds and seconds != "00":
        spoken += f" and {_counted(str(int(seconds)), 'second')}"
    return f"{hour} {spoken}{ending}"


def _military(fields: Fields, text: str) -> str:
    hour, minutes = _of(fields, "hour"), _of(fields, "minutes")
    spoken = by_digits(hour) if hour[0] == "0" else cardinal(hour)
    spoken += " hundred" if minutes == "00" else f" {_short_year(minutes)}"
    return f"{spoken} hours" if fields["unit"] else spoken


def _stamp(fields: Fields, previous: str, is_counted: bool) -> str:
    seconds = None if fields["seconds"] == "00" else fields["seconds"]
    time = _time({**fields, "seconds": seconds, "zone": "UTC" if fields["zone"] else None}, "")
    return f"{_numeric_date(fields, previous, is_counted)}, {time}"


def _counted(digits: str, one: str) -> str:
    return f"{number(digits)} {one if digits == '1' else f'{one}s'}"


def _duration(fields: Fields, text: str) -> str:
    parts = [
        _counted(digits, one)
        for one in ("day", "hour", "minute", "second")
        if (digits := fields.get(f"{one}s"))
    ]
    rest = fields.get("rest")
    return " ".join([*parts, cardinal(rest)] if rest else parts)


def _elapsed(fields: Fields, text: str) -> str:
    hours, minutes, seconds = (str(int(_of(fields, name))) for name in ("hours", "minutes", "seconds"))
    parts = [_counted(hours, "hour")] if hours != "0" else []
    parts += [_counted(minutes, "minute")] if minutes != "0" else []
    spoken = " ".join(parts)
    if spoken and seconds == "0":
        return spoken
    return f"{spoken} and {_counted(seconds, 'second')}" if spoken else _counted(seconds, "second")


# --- Codes


def _groups(fields: Fields, text: str) -> str:
    return ", ".join(by_digits(run) for run in re.findall(r"[0-9]+", text))


def _telephone(fields: Fields, text: str) -> str:
    extension = fields.get("extension")
    text = text.removesuffix(f"x{extension}")
    runs = re.findall(r"[0-9]+", text)
    is_free = len(runs) > 1 and runs[0] == "1"
    blocks = [
        f"{cardinal(run[0])} hundred" if is_free and at == 1 and run[1:] == "00" else by_digits(run)
        for at, run in enumerate(runs)
    ]
    blocks += [f"extension {by_digits(extension)}"] if extension else []
    return f"plus {', '.join(blocks)}" if text.startswith("+") else ", ".join(blocks)


def _lettered_telephone(fields: Fields, text: str) -> str:
    name = _of(fields, "name")
    digits = text.removesuffix(f"-{name}")
    return f"{_telephone(fields, digits)}, {name.replace('-', ' ')}"


def _year_and_code(fields: Fields, text: str) -> str:
    letters = f"{fields['letters']} " if fields.get("letters") else ""
    return f"{letters}{year(_of(fields, 'year'))}, {by_digits(_of(fields, 'digits'))}"


def _bank(fields: Fields, text: str) -> str:
    return f"{fields['letters']} {_groups(fields, _of(fields, 'digits'))}"


def _hexadecimal(fields: Fields, text: str) -> str:
    return " ".join(by_digits(one) if one.isdecimal() else one.upper() for one in text if one != ":")


def _network(fields: Fields, text: str) -> str:
    return " dot ".join(by_digits(part) for part in _of(fields, "digits").split("."))


def _version(fields: Fields, text: str) -> str:
    spoken = " point ".join(cardinal(part) for part in _of(fields, "version").split("."))
    return f"version {spoken}" if fields.get("v") else spoken


def _code(fields: Fields, text: str) -> str:
    return f" {pairs(_of(fields, 'digits'))}"


# --- The rest


def _roman(fields: Fields, text: str) -> str:
    return cardinal(str(roman_value(_of(fields, "roman").upper())))


def _reign(fields: Fields, previous: str, is_counted: bool) -> str:
    return f"the {ordinal(str(roman_value(_of(fields, 'roman'))))}"


def _street(fields: Fields, text: str) -> str:
    building = in_parts(_of(fields, "house")) + (f" {fields['letter']}" if fields["letter"] else "")
    words = [_street_word(word) for word in _of(fields, "name").split()]
    street = _of(fields, "street")
    kind = contexts.STREETS.get(street.rstrip("."), street)
    compass = fields["compass"]
    return " ".join([building, *words, kind, *([contexts.COMPASS[compass]] if compass else [])])


def _street_word(word: str) -> str:
    if word[0].isdigit():
        return ordinal(word[:-2])
    if word == "St.":
        return "Saint"
    return contexts.COMPASS.get(word, word)


def _state(fields: Fields, text: str) -> str:
    state = contexts.STATES[_of(fields, "state")]
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
    power = _power({"power": _of(fields, "power").lstrip("+")}, "").replace(
        " squared", " to the power of two"
    )
    return f"{number(_of(fields, 'number'))} times ten{power.replace(' cubed', ' to the power of three')}"


def _operator(fields: Fields, text: str) -> str:
    return f" {vocabulary.OPERATORS.get(_of(fields, 'sign')) or 'about'} "


def _named(name: str, spoken: Callable[[str], str]) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken(_of(fields, name))


def _fixed(spoken: str) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken


_FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "cardinal.number": _named("number", number),
    "cardinal.grouped": _grouped,
    "cardinal.plural": lambda fields, text: plural(cardinal(_of(fields, "digits"))),
    "cardinal.letters": lambda fields, text: f"{by_digits(_of(fields, 'number')).replace('zero', 'oh')} K",
    "cardinal.parts": _named("digits", in_parts),
    "cardinal.scaled": _scaled,
    "cardinal.minus": _fixed(" minus "),
    "cardinal.comma": _fixed(","),
    "cardinal.hash": _fixed("number "),
    "cardinal.about": _fixed("about "),
    "cardinal.per": lambda fields, text: f"{_per(fields)} ",
    "ordinal.number": _ordinal,
    "digits.code": _named("digits", by_digits),
    "date.month_first": _month_first,
    "date.month_and_year": lambda fields, text: _with_year(_month(fields), fields),
    "date.decade": _decade,
    "date.era": _era,
    "date.era_first": lambda fields, text: f"A D {_era({**fields, 'era': ''}, text)}".strip(),
    "date.range": _range_of_years,
    "date.year": _named("year", year),
    "date.short_year": _named("digits", lambda digits: _short_year(digits)),
    "time.clock": _time,
    "time.military": _military,
    "time.hour": _time,
    "duration.parts": _duration,
    "duration.minutes": _duration,
    "duration.clock": _elapsed,
    "money.range": _range_of_money,
    "money.decade": lambda fields, text: plural(cardinal(_of(fields, "number"))),
    "measure.feet_and_inches": lambda fields, text: (
        f"{cardinal(_of(fields, 'feet'))} foot {cardinal(_of(fields, 'inches'))}"
    ),
    "measure.feet": lambda fields, text: f"{cardinal(_of(fields, 'number'))} feet",
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
    "serial.inner": lambda fields, text: f" {by_digits(_of(fields, 'digits'))}",
    "serial.plural": lambda fields, text: f" {plural(cardinal(_of(fields, 'digits')))}",
    "serial.pixels": lambda fields, text: (
        f"{in_parts(_of(fields, 'wide'))} by {in_parts(_of(fields, 'high'))}"
    ),
    "serial.road": lambda fields, text: (
        f"{' '.join(_of(fields, 'letters'))} {in_parts(_of(fields, 'digits'))}"
    ),
    "serial.war": lambda fields, text: f"World War {cardinal(_of(fields, 'number'))}",
    "serial.sharp": lambda fields, text: f"{fields['letter']} sharp",
    "serial.model": lambda fields, text: (
        f"{in_parts(_of(fields, 'digits'))} {in_parts(_of(fields, 'variant'))}"
    ),
    "range.halves": _fixed("fifty fifty"),
    "serial.lines": lambda fields, text: f"{in_parts(_of(fields, 'digits'))} {_of(fields, 'letter').upper()}",
    "serial.hexadecimal": _hexadecimal,
    "digits.zip": lambda fields, text: ", ".join(map(with_oh, _of(fields, "zip").split("-"))),
    "cardinal.sign": lambda fields, text: cardinal(str(int(unicodedata.numeric(text)))),
    "roman.sign": lambda fields, text: cardinal(
        str(roman_value(unicodedata.normalize("NFKC", text).upper()))
    ),
    "fraction.common": _fraction,
    "fraction.rare": _rare_fraction,
    "roman.number": _roman,
    "roman.year": lambda fields, text: year(str(roman_value(text))),
    "roman.range": lambda fields, text: (
        f"{_roman(fields, text)} to {cardinal(str(roman_value(_of(fields, 'last'))))}"
    ),
    "address.street": _street,
    "address.state": _state,
    "electronic.address": lambda fields, text: say_address(fields, ENGLISH_MARKS, by_digits),
    "electronic.handle": lambda fields, text: (
        f" at {say_address({**fields, 'user': None, 'path': None}, {**ENGLISH_MARKS, '_': ''}, by_digits)}"
    ),
    "formula.function": lambda fields, text: f"{fields['name']} of {fields['of']}",
    "formula.power": _power,
    "formula.scientific": _scientific,
    "formula.sign": _operator,
    "formula.compare": _operator,
    "formula.times": _fixed(" times "),
    "formula.by": _fixed(" by "),
    "formula.multiple": _fixed(" times"),
    "formula.minus": _fixed(" minus "),
    "formula.root": _fixed("the square root of "),
    "initialism.letters": lambda fields, text: " ".join(text),
    "abbreviation.route": _fixed("Route"),
    "abbreviation.word": _named("spoken", str),
}
_WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    "date.day_first": _day_first,
    "date.numeric": _numeric_date,
    "date.iso": _numeric_date,
    "date.stamp": _stamp,
    "date.month_and_day": _numeric_date,
    "money.amount": _money,
    "money.behind": _money,
    "money.comma": _money_with_comma,
    "measure.amount": _measure,
    "measure.inches": _inches,
    "measure.fraction": _measured_fraction,
    "roman.ordinal": _reign,
    "roman.century": lambda fields, previous, is_counted: _reign(fields, previous, is_counted).removeprefix(
        "the " if previous.lower() == "the" else "\0"
    ),
}
