"""Numbers as they are said: counts, years, clock times, money, digits, ordinals. All in words."""

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import inflect

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def in_words(number: int) -> str:
    return str(_engine().number_to_words(number, andword=""))  # type: ignore[arg-type]


def count(rng: random.Random) -> str:
    return _plain(in_words(rng.randrange(10 ** rng.choice([1, 2, 2, 2, 3, 3, 4, 5, 6]))))


def digit(rng: random.Random) -> str:
    return rng.choice(DIGITS)


def digits(rng: random.Random) -> str:
    said = [rng.choice(DIGITS) for _ in range(rng.choice([3, 4, 5, 6, 7, 10]))]
    if len(said) > 4:
        said[len(said) // 2 - 1] += ","
    return " ".join(said)


def year(rng: random.Random) -> str:
    century, rest = rng.choice([17, 18, 19, 19, 19, 20, 20]), rng.randrange(100)
    if rest == 0:
        return "two thousand" if century == 20 else f"{in_words(century)} hundred"
    if century == 20 and rest < 10:
        return f"two thousand {in_words(rest)}"
    return _plain(f"{in_words(century)} {'oh ' if rest < 10 else ''}{in_words(rest)}")


def clock(rng: random.Random) -> str:
    hour, minute = rng.randrange(1, 13), rng.randrange(0, 60, 5 if rng.random() < 0.7 else 1)
    if minute == 0 or rng.random() < 0.25:
        return f"{in_words(hour)} o'clock"
    if rng.random() < 0.2:
        return rng.choice(["half past ", "a quarter past ", "a quarter to "]) + in_words(hour)
    half = rng.choice(["", " in the morning", " in the evening", " tonight"])
    return _plain(f"{in_words(hour)} {'oh ' if minute < 10 else ''}{in_words(minute)}{half}")


def money(rng: random.Random) -> str:
    whole, cents = rng.randrange(1, 10 ** rng.choice([1, 2, 2, 3, 4])), rng.randrange(1, 100)
    unit = rng.choice(["dollar", "dollar", "euro", "pound"])
    said = f"{in_words(whole)} {unit}{'' if whole == 1 else 's'}"
    if rng.random() < 0.4:
        said += f" and {in_words(cents)} cent{'' if cents == 1 else 's'}"
    return _plain(said)


def ordinal(rng: random.Random) -> str:
    return _plain(str(_engine().ordinal(in_words(rng.randrange(1, 32)))))


@cache
def _engine() -> "inflect.engine":
    import inflect  # takes seconds, and few who import this ask for a number

    return inflect.engine()


def _plain(words: str) -> str:
    return words.replace("-", " ").replace(",", "")


WORDS: Mapping[str, Callable[[random.Random], str]] = {
    "count": count,
    "digit": digit,
    "digits": digits,
    "year": year,
    "clock": clock,
    "money": money,
    "ordinal": ordinal,
}
