"""Single English numbers in words, by wetext, whose slips with thousands are mended here."""

import re
from collections.abc import Callable

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_DIGITS = 15  # of a number that is said as one; longer ones are read digit by digit


def by_digits(digits: str) -> str:
    return " ".join(DIGITS[int(digit)] for digit in digits)


def set_apart(found: re.Match[str], said: str) -> str:
    """What a number is said as, with blanks between it and the letters and digits it touches."""
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return f"{' ' if before.isalnum() else ''}{said}{' ' if after.isalnum() else ''}"


class NumberWords:
    """wetext: its English normaliser, a function of text."""

    def __init__(self, wetext: Callable[[str], str]) -> None:
        self._wetext = wetext

    def cardinal(self, digits: str) -> str:
        digits = digits.replace(",", "")
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
            return by_digits(digits)
        said = self._wetext(f"{int(digits):,}")
        return f"one {said}" if said.startswith("thousand") else said

    def number(self, number: str) -> str:
        """Digits with or without thousands separators and a decimal point."""
        whole, point, decimals = number.partition(".")
        said = self.cardinal(whole) if whole else ""
        return f"{said} point {by_digits(decimals)}".lstrip() if point else said

    def ordinal(self, digits: str) -> str:
        digits = digits.replace(",", "")
        if len(digits) > MAX_DIGITS:
            return f"{by_digits(digits)}th"
        last = int(digits[-2:])
        ending = "th" if 10 < last < 14 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
        return self._wetext(f"{int(digits)}{ending}")

    def year(self, digits: str) -> str:
        """Four digits: "nineteen oh five", "two thousand four", "twenty twenty four"."""
        century, rest = int(digits[:2]), int(digits[2:])
        if century % 10 == 0 and rest < 10:
            return self.cardinal(digits).replace(" and ", " ")
        if rest == 0:
            return f"{self.cardinal(str(century))} hundred"
        end = f"oh {DIGITS[rest]}" if rest < 10 else self.cardinal(str(rest))
        return f"{self.cardinal(str(century))} {end}"

    def pairs(self, digits: str) -> str:
        """A code such as a flight's: two digits at a time where that comes out even, else one by one."""
        is_even = len(digits) == 4 and "0" not in digits[::2]
        if len(digits) <= 3 and digits[0] != "0":
            return self.cardinal(digits)
        return self.year(digits) if is_even else by_digits(digits)
