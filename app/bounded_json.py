"""JSON of clients, of so few values that neither parsing nor checking it keeps an event loop busy."""

import json
from typing import Any, Final

MAX_VALUES: Final = 200_000  # some 50 ms, in which the parser lets no other thread run
MAX_FIELDS: Final = 100  # of an object whose fields have names of ours; each unknown one is an error
TOO_MANY: Final = "it has"  # how TooManyValues begins: the rest of the body may be as it should be
_BEFORE_VALUES: Final = ",:[{"


class TooManyValues(json.JSONDecodeError):
    """Its `msg` is a sentence about what was sent, without a subject."""


def loads(raw: bytes | str, max_values: int = MAX_VALUES) -> Any:
    """Raise ValueError and RecursionError as `json.loads` does, and TooManyValues."""
    check_values(raw, max_values)
    return json.loads(raw)


def check_values(raw: bytes | str, max_values: int) -> None:
    """Raise TooManyValues.

    What stands before a value is counted; where that is too much, without what texts have of it.
    """
    text = raw if isinstance(raw, str) else raw.decode("latin-1")  # bytes as they are
    num_values = sum(map(text.count, _BEFORE_VALUES))
    if num_values > max_values:
        text = text.replace("\\\\", "").replace('\\"', "")
        if text.count('"') <= 2 * max_values + 2:  # each of two has such a sign before it
            text = "".join(text.split('"')[::2])
            num_values = sum(map(text.count, _BEFORE_VALUES))
    if num_values > max_values:
        raise TooManyValues(f"{TOO_MANY} about {num_values} values, at most {max_values} are taken", "", 0)


def request_of(raw: bytes | str) -> Any:
    """Return a request's body. Raise as `loads` does, TooManyValues also for more than MAX_FIELDS fields."""
    content = loads(raw)
    if isinstance(content, dict) and len(content) > MAX_FIELDS:
        raise TooManyValues(f"{TOO_MANY} {len(content)} fields, at most {MAX_FIELDS} are taken", "", 0)
    return content
