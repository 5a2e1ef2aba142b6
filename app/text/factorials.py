"""Tell "5!=120", a factorial, from "5!=6", which is not equal: by what it comes to."""

import math
import re
from typing import Final

# ruff: noqa: RUF001, RUF002  signs are meant

LETTERS: Final = ("k!", "m!", "n!")
"""Factorials where an operator follows."""
_MIN: Final = 3  # "1!=1" and "2!=2" are code
_MAX: Final = 30  # longer products are written out by nobody
_FACTORIAL = re.compile(
    r"(?<![\w.!])(?P<of>\d{1,2})!=(?P<product>\d[\d,]{0,40}(?:[×*·]\d{1,9}){0,30})(?![\w.]\w)"
)


def part_factorials(text: str) -> str:
    """Put a blank behind the mark of each factorial that comes to what stands behind it.

    >>> part_factorials("5!=120, 3!=3×2×1"), part_factorials("5!=6")
    ('5! =120, 3! =3×2×1', '5!=6')
    """
    return _FACTORIAL.sub(lambda found: found[0].replace("!=", "! =") if _is_equal(found) else found[0], text)


def _is_equal(found: re.Match[str]) -> bool:
    number = int(found["of"])
    factors = re.split("[×*·]", found["product"].replace(",", ""))
    return _MIN <= number <= _MAX and math.factorial(number) == math.prod(map(int, factors))
