"""Say the formulas of English."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.context import Fields, value_of
from firstword.app.text.english.numbers import cardinal, number
from firstword.app.text.english.verbalizer.form import fixed

# ruff: noqa: RUF001  signs are meant

_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")


def _power(fields: Fields, text: str) -> str:
    power = (fields.get("power") or fields.get("raised") or "").translate(_RAISED)
    if power in ("2", "3"):
        return " squared" if power == "2" else " cubed"
    minus = "minus " if power.startswith("-") else ""
    bare = power.lstrip("-")
    parts = (cardinal(part) if part.isdecimal() else part for part in re.findall(r"\d+|\D+", bare))
    return f" to the power of {minus}{' '.join(parts)}"


def _charge(fields: Fields, text: str) -> str:
    sign = " ".join("plus" if sign in "⁺+" else "minus" for sign in value_of(fields, "sign"))
    raised = value_of(fields, "raised").translate(_RAISED)
    return f" {cardinal(raised)} {sign}" if raised else f" {sign}"


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
    bare = previous.strip(vocabulary.EDGES)
    if value_of(fields, "sign") in "≤≥≈" and (len(bare) == 1 or not bare[-1:].isalpha()) and bare:
        spoken = f" is{spoken}"
    return spoken.replace(" is ", " ") if previous.lower() in contexts.COMPARED_BEHIND else spoken


def _limited(fields: Fields, previous: str, is_counted: bool) -> str:
    """ "took <5 minutes", and "p <0.05", which has no other verb."""
    bare = previous.strip(vocabulary.EDGES)
    is_variable = bare[:1].isalpha() and (bare[-1:].isdigit() or (len(bare) == 1 and bare.lower() != "a"))
    return _operator(fields, "") if is_variable else _operator(fields, "").replace(" is ", " ")


def _chemical(fields: Fields, text: str) -> str:
    parts = re.findall(r"[A-Z][a-z]?|\d+", text)
    return " ".join(cardinal(part) if part.isdecimal() else part for part in parts)


def _operand(fields: Fields) -> str:
    operand = value_of(fields, "of")
    return cardinal(operand) if operand.isdecimal() else operand


FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "formula.function": lambda fields, text: f"{fields['name']} of {_operand(fields)}",
    "formula.call": lambda fields, text: f"{vocabulary.FUNCTIONS[text]} of ",
    "formula.chemical": _chemical,
    "formula.logarithm": lambda fields, text: f"log base {cardinal(value_of(fields, 'base'))} ",
    "formula.factorial": fixed(" factorial "),
    "formula.charge": _charge,
    "formula.power": _power,
    "formula.scientific": _scientific,
    "formula.sign": _operator,
    "formula.times": fixed(" times "),
    "formula.by": fixed(" by "),
    "formula.multiple": fixed(" times"),
    "formula.minus": fixed(" minus "),
    "formula.ion": fixed(" minus"),
    "formula.grade": fixed(" minus"),
    "formula.triangle": fixed("triangle "),
    "formula.root": fixed("the square root of "),
}
WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    "formula.compare": _compared,
    "formula.limit": _limited,
}
