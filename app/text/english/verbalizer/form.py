"""Forms that are said by one field, or always alike."""

from collections.abc import Callable

from firstword.app.text.english.context import Fields, value_of


def named(name: str, spoken: Callable[[str], str]) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken(value_of(fields, name))


def fixed(spoken: str) -> Callable[[Fields, str], str]:
    return lambda fields, text: spoken
