"""Say the money, measures and fractions of English."""

from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.context import Fields, value_of
from firstword.app.text.english.numbers import cardinal, counted, number, ordinal, plural

_MAX_DENOMINATOR = 10
_COMMON_DENOMINATORS = frozenset({"12", "16", "20", "32", "64", "100", "1000"})
_PARTS = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
_CURRENCIES = {**units.CODES, **units.PREFIXED, **units.MONEY}


def _scaled(fields: Fields, text: str) -> str:
    return f"{number(value_of(fields, 'number'))} {vocabulary.SCALES[value_of(fields, 'scale')]}"


def _fraction(fields: Fields, text: str) -> str:
    """ "1/2" and "2 3/4"; where it is no common fraction ("24/7"), one number after the other."""
    whole, above, below = fields["whole"], value_of(fields, "above"), value_of(fields, "below")
    is_common = 2 <= int(below) <= _MAX_DENOMINATOR or below in _COMMON_DENOMINATORS
    is_common = is_common or text[-1:].isalpha()  # "1/50th"
    if whole and (above, below) == ("1", "2"):
        return f"{cardinal(whole)} and a half"
    if not is_common or int(above) >= int(below):
        return " ".join(cardinal(part) for part in (whole, above, below) if part)
    one_of = ordinal(below).removeprefix("one ")
    part, parts = _PARTS.get(below, (one_of, f"{one_of}s"))
    spoken = f"{cardinal(above)} {part if above == '1' else parts}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


def _part_of_second(fields: Fields, text: str) -> str:
    if (fields["above"], fields["below"]) == ("1", "2"):
        return "half a second"
    return f"{_fraction({**fields, 'whole': None}, text)} of a second"


def _parts_of(fields: Fields, text: str) -> str:
    """ "1/4s": quarters."""
    above, below = value_of(fields, "above"), value_of(fields, "below")
    parts = _PARTS.get(below, ("", f"{ordinal(below)}s"))[1]
    return parts if above == "1" else f"{cardinal(above)} {parts}"


def _rare_fraction(fields: Fields, text: str) -> str:
    whole, above, below = fields["whole"], value_of(fields, "above"), value_of(fields, "below")
    if below == "1":
        return f"{cardinal(above)} over one"
    one_of = ordinal(below).removeprefix("one ")
    part, parts = _PARTS.get(below, (one_of, f"{one_of}s"))
    spoken = f"{cardinal(above)} {part if above == '1' else parts}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


def _money(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, sign, scale = value_of(fields, "number"), value_of(fields, "sign"), fields.get("scale")
    if fields.get("minus"):
        return f"minus {_money({**fields, 'minus': None}, previous, is_counted)}"
    sign = {"USD": "US$"}.get(code, code) if (code := fields.get("code")) else sign
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
    spoken = f"{cardinal(whole or '0')} {one if whole == '1' else several}"
    if not cents:
        return spoken + per
    return f"{spoken} {of_cents}{per}" if len(decimals) == 1 else f"{spoken} and {of_cents}{per}"


def _money_with_comma(fields: Fields, previous: str, is_counted: bool) -> str:
    return _money(
        {
            **fields,
            "number": f"{value_of(fields, 'whole').replace('.', '')}.{fields['cents'] or ''}".rstrip("."),
        },
        previous,
        is_counted,
    )


def _range_of_money(fields: Fields, text: str) -> str:
    if "." in text and not (fields["scale"] or fields["low_scale"]):
        return " to ".join(
            _money(
                {**fields, "number": value_of(fields, name), "per": fields["per"] if is_last else None},
                "",
                False,
            )
            for name, is_last in (("low", False), ("number", True))
        )
    scale, low = fields["scale"], number(value_of(fields, "low"))
    if fields["low_scale"]:
        low += f" {vocabulary.SCALES[value_of(fields, 'low_scale')]}"
    high = number(value_of(fields, "number")) + (f" {vocabulary.SCALES[scale]}" if scale else "")
    return f"{low} to {high} {_CURRENCIES[value_of(fields, 'sign')][1]}{_per(fields)}"


def _money_with_part(fields: Fields, text: str) -> str:
    """ "$2 1/2 million"."""
    scale = f" {vocabulary.SCALES[fields['scale']]}" if fields["scale"] else ""
    return f"{_fraction(fields, '')}{scale} {_CURRENCIES[value_of(fields, 'sign')][1]}{_per(fields)}"


def _measure(fields: Fields, previous: str, is_counted: bool) -> str:
    amount, scale = value_of(fields, "number"), fields.get("scale")
    whole_unit = units.UNITS.get(f"{fields['unit']}/{fields.get('per')}")
    one, several = whole_unit or units.UNITS[value_of(fields, "unit")]
    per = "" if whole_unit else _per(fields)
    spoken = f"{number(amount)} {scale}" if scale else number(amount)
    return f"{spoken} {one if (amount == '1' and not scale) or is_counted else several}{per}"


def _measured_fraction(fields: Fields, previous: str, is_counted: bool) -> str:
    one, several = (
        ("inch", "inches") if fields["unit"] in ('"', "″") else units.UNITS[value_of(fields, "unit")]
    )
    return f"{_fraction(fields, '')} {several if fields['whole'] and not is_counted else one}"


def _unit(fields: Fields, text: str) -> str:
    whole = units.UNITS.get(text)
    return whole[1] if whole else f"{units.UNITS[value_of(fields, 'unit')][1]}{_per(fields)}"


def _feet_and_inches(fields: Fields, text: str) -> str:
    inches = value_of(fields, "inches")
    with_part = _fraction({**fields, "whole": inches}, "") if fields.get("above") else cardinal(inches)
    return f"{cardinal(value_of(fields, 'feet'))} foot {with_part}"


def _pressure(fields: Fields, text: str) -> str:
    spoken = f"{cardinal(value_of(fields, 'above'))} over {cardinal(value_of(fields, 'below'))}"
    return f"{spoken} millimeters of mercury" if fields["unit"] else spoken


def _latitude(fields: Fields, text: str) -> str:
    parts = [
        counted(digits, one)
        for one, digits in (
            ("degree", fields["number"]),
            ("minute", fields["minutes"]),
            ("second", fields["seconds"]),
        )
        if digits
    ]
    return f"{' '.join(parts)} {contexts.COMPASS[value_of(fields, 'compass')].lower()}"


def _several(digits: str) -> str:
    """ "twenties", "hundreds"."""
    return plural(cardinal(digits)).removeprefix("one " if digits[1:] else "\0")


def _many(fields: Fields, text: str) -> str:
    """ "saved $100s"."""
    spoken = _several(value_of(fields, "number").replace(",", ""))
    return f"{spoken} of {_CURRENCIES[value_of(fields, 'sign')][1]}"


def _basis_points(fields: Fields, previous: str, is_counted: bool) -> str:
    amount = value_of(fields, "number")
    return f"{number(amount)} basis {'point' if amount == '1' or is_counted else 'points'}"


def _inches(fields: Fields, previous: str, is_counted: bool) -> str:
    amount = value_of(fields, "number")
    return f"{number(amount)} {'inch' if amount == '1' or is_counted else 'inches'}"


def _degrees(fields: Fields, text: str) -> str:
    scale = "Celsius" if fields["unit"] == "C" else "Fahrenheit"
    return f"{number(value_of(fields, 'number'))} degrees {scale}"


def _per(fields: Fields) -> str:
    per = fields.get("per")
    if not per:
        return ""
    if per == "ea":
        return " each"
    return "".join(
        f" per {_several_units(one) or units.PERIODS.get(one) or units.UNITS.get(one, (one,))[0]}"
        for one in per.split("/")
    )


def _several_units(per: str) -> str:
    """ "100g" of "$2/100g"; "" where there is no number."""
    digits = per[: len(per) - len(per.lstrip("0123456789"))]
    return counted_unit(digits, per[len(digits) :].strip()) if digits else ""


def counted_unit(digits: str, unit: str) -> str:
    one, several = units.UNITS[unit]
    return f"{number(digits)} {one if digits == '1' else several}"


FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "cardinal.scaled": _scaled,
    "cardinal.scaled_apart": _scaled,
    "cardinal.per": lambda fields, text: f"{_per(fields)} ",
    "money.range": _range_of_money,
    "money.fraction": _money_with_part,
    "money.many": _many,
    "money.decade": lambda fields, text: _several(value_of(fields, "number")),
    "cardinal.european": lambda fields, text: number(
        f"{value_of(fields, 'number').replace('.', ',')}.{fields['decimals']}"
    ),
    "measure.type": lambda fields, text: f"{number(value_of(fields, 'number'))} point",
    "measure.rate": lambda fields, text: _unit(fields, text),
    "measure.feet_and_inches": _feet_and_inches,
    "measure.foot": lambda fields, text: f"{cardinal(value_of(fields, 'number'))} foot",
    "measure.feet": lambda fields, text: f"{cardinal(value_of(fields, 'number'))} feet",
    "measure.degrees": _degrees,
    "measure.pressure": _pressure,
    "measure.latitude": _latitude,
    "fraction.common": _fraction,
    "fraction.rare": _rare_fraction,
    "fraction.parts": _parts_of,
    "duration.fraction": _part_of_second,
    "fraction.score": lambda fields, text: (
        f"{number(value_of(fields, 'above'))} out of {number(value_of(fields, 'below'))}"
    ),
    "fraction.part": lambda fields, text: (
        f"{cardinal(value_of(fields, 'above'))} of {cardinal(value_of(fields, 'below'))}"
    ),
    "measure.percentage": lambda fields, text: counted(value_of(fields, "number"), "percentage point"),
    "measure.points": lambda fields, text: f"{number(value_of(fields, 'number'))} points",
    "measure.unit": _unit,
    "measure.stone": lambda fields, text: f"{number(value_of(fields, 'number'))} stone",
    "measure.karat": lambda fields, text: f"{number(value_of(fields, 'number'))} karat",
}
WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    "measure.basis": _basis_points,
    "money.cents": lambda fields, previous, is_counted: counted(
        value_of(fields, "number"), "cent"
    ).removesuffix("s" if is_counted else "\0"),
    "money.amount": _money,
    "money.behind": _money,
    "money.comma": _money_with_comma,
    "money.grouped": _money_with_comma,
    "measure.amount": _measure,
    "measure.inches": _inches,
    "measure.fraction": _measured_fraction,
}
