"""Kinds of settings that are read from text: lists, pairs, paths."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, SecretStr

# What "$A,$B" is with both empty: of keys it would let everybody in.
_ONLY_SEPARATORS = "there is nothing between the commas; give a value, or leave the setting empty"


def _split(given: object) -> object:
    """ "a, b" -> ("a", "b"). Anything but text is left for the type check."""
    if not isinstance(given, str):
        return given
    parts = tuple(part.strip() for part in given.split(",") if part.strip())
    if given and not parts:
        raise ValueError(_ONLY_SEPARATORS)
    return parts


def _pairs(given: object) -> object:
    """ "a=b, c=d" -> {"a": "b", "c": "d"}."""
    if not isinstance(given, str):
        return given
    pairs: dict[str, str] = {}
    parts = [part for part in given.split(",") if part.strip()]
    if given and not parts:
        raise ValueError(_ONLY_SEPARATORS)
    for part in parts:
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value) or "=" in value:
            raise ValueError("expected name=speaker pairs with commas between, such as alloy=alder,onyx=wren")
        pairs[name] = value
    return pairs


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


def _expand_home(given: object) -> object:
    return Path(given).expanduser() if isinstance(given, str | Path) else given


Digits = BeforeValidator(lambda given: int(given) if str(given).isdecimal() else given)
"""Reads a number before a `Literal`, which takes no text."""
HomePath = Annotated[Path, BeforeValidator(_expand_home)]
TextList = Annotated[tuple[str, ...], BeforeValidator(_split)]
SecretList = Annotated[tuple[SecretStr, ...], BeforeValidator(_split)]
TextMap = Annotated[dict[str, str], BeforeValidator(_pairs)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
