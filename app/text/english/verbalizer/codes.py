"""Say the telephone numbers, serials, versions and addresses of the web that English has."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.addresses import ENGLISH_MARKS, say_address
from firstword.app.text.english.context import Fields, value_of
from firstword.app.text.english.numbers import by_digits, cardinal, in_parts, pairs, plural, with_oh, year
from firstword.app.text.english.verbalizer.form import fixed, named


def _groups(fields: Fields, text: str) -> str:
    return ", ".join(by_digits(run) if run.isdecimal() else run for run in re.findall(r"[0-9]+|[A-Z]", text))


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


def _standard(fields: Fields, text: str) -> str:
    part = f" {cardinal(fields['part'][1:])}" if fields["part"] else ""
    return f"{cardinal(value_of(fields, 'number'))}{part} {year(value_of(fields, 'year'))}"


def _network(fields: Fields, text: str) -> str:
    host = " dot ".join(by_digits(part) for part in value_of(fields, "digits").split("."))
    path = fields["path"]
    if path and path[1:].isdecimal():
        return f"{host} slash {cardinal(path[1:])}"
    return f"{host} {_path(fields, path)}" if path else host


def _version(fields: Fields, text: str) -> str:
    spoken = " point ".join(cardinal(part) for part in value_of(fields, "version").split("."))
    return f"version {spoken}" if fields.get("v") else spoken


def _code(fields: Fields, text: str) -> str:
    return f" {pairs(value_of(fields, 'digits'))}"


def _path(fields: Fields, text: str) -> str:
    spoken = say_address({"host": None, "user": None, "path": text}, ENGLISH_MARKS, by_digits)
    return f"{spoken} slash " if text.endswith("/") else spoken


_KEYS = {
    "Ctrl": "Control",
    "Cmd": "Command",
    "Del": "Delete",
    "Esc": "Escape",
    "Win": "Windows",
    "Ins": "Insert",
}


def _keys(fields: Fields, text: str) -> str:
    """ "Ctrl+Alt+Del", "Alt+F4"."""
    parts = re.findall(r"[A-Za-z]+|\d+", text)
    return " ".join(cardinal(part) if part.isdecimal() else _KEYS.get(part, part) for part in parts)


FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "digits.code": named("digits", by_digits),
    "telephone.number": _telephone,
    "telephone.toll_free": _telephone,
    "telephone.letters": _lettered_telephone,
    "serial.year": _year_and_code,
    "serial.groups": _groups,
    "serial.groups_behind": _year_and_code,
    "serial.bank": _bank,
    "serial.standard": _standard,
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
    "serial.plural": lambda fields, text: f" {plural(in_parts(value_of(fields, 'digits')))}",
    "serial.pixels": lambda fields, text: (
        f"{in_parts(value_of(fields, 'wide'))} by {in_parts(value_of(fields, 'high'))}"
    ),
    "serial.road": lambda fields, text: (
        f"{' '.join(value_of(fields, 'letters'))} {in_parts(value_of(fields, 'digits'))}"
    ),
    "serial.series": lambda fields, text: f"{fields['letter']} {in_parts(value_of(fields, 'digits'))}",
    "serial.hyphen": fixed(" "),
    "serial.models": lambda fields, text: plural(in_parts(value_of(fields, "digits"))),
    "serial.war": lambda fields, text: f"World War {cardinal(value_of(fields, 'number'))}",
    "serial.sharp": lambda fields, text: f"{fields['letter']} sharp",
    "serial.model": lambda fields, text: (
        f"{in_parts(value_of(fields, 'digits'))} {in_parts(value_of(fields, 'variant'))}"
    ),
    "serial.letter": lambda fields, text: f"{cardinal(value_of(fields, 'digits'))} {fields['letter']}",
    "serial.record": lambda fields, text: " ".join(cardinal(part) for part in text.split("-")),
    "serial.tally": lambda fields, text: " and ".join(
        "oh" if fields[name] == "0" else cardinal(value_of(fields, name)) for name in ("won", "lost")
    ),
    "serial.lines": lambda fields, text: (
        f"{in_parts(value_of(fields, 'digits'))} {value_of(fields, 'letter').upper()}"
    ),
    "serial.hexadecimal": _hexadecimal,
    **dict.fromkeys(
        ("digits.zip", "digits.long_zip"),
        lambda fields, text: ", ".join(map(with_oh, value_of(fields, "zip").split("-"))),
    ),
    "electronic.address": lambda fields, text: say_address(fields, ENGLISH_MARKS, by_digits),
    "electronic.keys": _keys,
    "electronic.path": _path,
    "electronic.community": lambda fields, text: f"{fields['at']} slash ",
    "electronic.dot": fixed(" dot "),
    "electronic.note": fixed(""),
    "electronic.handle": lambda fields, text: (
        f" at {say_address({**fields, 'user': None, 'path': None}, {**ENGLISH_MARKS, '_': ''}, by_digits)}"
    ),
}
