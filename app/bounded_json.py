"""JSON of clients, of so few values that neither parsing nor checking it keeps an event loop busy."""

import json
from typing import Any, Final

MAX_VALUES: Final = 200_000  # some 50 ms, in which the parser lets no other thread run
MAX_FIELDS: Final = 100  # of an object whose fields have names of ours; each unknown one is an error
TOO_MANY: Final = "it has"  # how TooManyValues begins: the rest of the body may be as it should be


class TooManyValues(json.JSONDecodeError):
    """Its `msg` is a sentence about what was sent, without a subject."""


def loads(raw: bytes | str, max_values: int = MAX_VALUES) -> Any:
    """Raise ValueError and RecursionError as `json.loads` does, and TooManyValues."""
    check_values(raw, max_values)
    return json.loads(raw)


def check_values(raw: bytes | str, max_values: int, max_lists: int | None = None) -> None:
    """Raise TooManyValues. max_lists: of lists and objects; None: as many as values.

    What stands before a value is counted; where that is too much, without what texts have of it.
    """
    text = raw if isinstance(raw, str) else raw.decode("latin-1")  # bytes as they are
    max_lists = max_values if max_lists is None else max_lists
    num_values, num_lists = _counted(text)
    if num_values > max_values or num_lists > max_lists:
        text = text.replace("\\\\", "").replace('\\"', "")
        if text.count('"') <= 2 * max_values + 2:  # each of two has such a sign before it
            num_values, num_lists = _counted("".join(text.split('"')[::2]))
    for number, most, what in ((num_values, max_values, "values"), (num_lists, max_lists, "lists")):
        if number > most:
            raise TooManyValues(f"{TOO_MANY} about {number} {what}, at most {most} are taken", "", 0)


def _counted(text: str) -> tuple[int, int]:
    """-> values, and lists and objects among them."""
    num_lists = text.count("[") + text.count("{")
    return num_lists + text.count(",") + text.count(":"), num_lists


def request_of(raw: bytes | str) -> Any:
    """Return a request's body. Raise as `loads` does, TooManyValues also for more than MAX_FIELDS fields."""
    content = loads(raw)
    if isinstance(content, dict) and len(content) > MAX_FIELDS:
        raise TooManyValues(f"{TOO_MANY} {len(content)} fields, at most {MAX_FIELDS} are taken", "", 0)
    return content
