"""Reads the arguments of the commands of this package."""

import argparse
import math

from firstword.bench.client import PROTOCOLS, Protocol


class BadArgument(argparse.ArgumentTypeError, ValueError):
    """The message says what came and what was expected."""


def count(word: str) -> int:
    """Read "3" as 3. Raises BadArgument for what is not at least 1."""
    if not word.isdecimal() or int(word) < 1:
        raise BadArgument(f"{word!r}; expected a count from 1 on")
    return int(word)


def counts(words: str) -> tuple[int, ...]:
    """Read "1, 2, 4" as (1, 2, 4) and "" as (). Raises BadArgument."""
    return tuple(count(word.strip()) for word in words.split(",") if word.strip())


def amount(word: str) -> float:
    """Read "0.5" as 0.5. Raises BadArgument for what is not over 0."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BadArgument(f"{word!r}; expected a number over 0")
    return number


def rates(words: str) -> tuple[float, ...] | None:
    """Read "0.5, 2" as (0.5, 2.0), "" as (), "auto" as None. Raises BadArgument."""
    if words == "auto":
        return None
    return tuple(amount(word.strip()) for word in words.split(",") if word.strip())


def protocols(words: str) -> tuple[Protocol, ...]:
    """Read "http, ws" as ("http", "ws"). Raises BadArgument."""
    wanted = [word.strip() for word in words.split(",")]
    if unknown := [word for word in wanted if word not in PROTOCOLS]:
        raise BadArgument(
            f"{unknown[0]!r} is no protocol; expected {', '.join(PROTOCOLS)}, or several with commas between"
        )
    return tuple(known for known in PROTOCOLS if known in wanted)
