"""The few shapes that runs are padded to, so that each is recorded once."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Streams at once."""

MAX_RECORDED = 16  # shapes of one network


def bucket(sizes: Sequence[int], size: int) -> int | None:
    """Return the smallest of the sorted `sizes` that holds `size`; None: it is larger than all."""
    index = bisect_left(sizes, size)
    return sizes[index] if index < len(sizes) else None


def doubled(first: int, size: int) -> int:
    """Return the first of first, 2 first, 4 first, … that holds `size`."""
    while first < size:
        first *= 2
    return first


class LastUsed(Generic[Key, Value]):
    """Keeps the MAX_RECORDED values that were used last, and makes what is missing."""

    def __init__(self) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        if key not in self._values:
            if len(self._values) == MAX_RECORDED:
                self._values.popitem(last=False)
            self._values[key] = make()
        self._values.move_to_end(key)
        return self._values[key]

    def clear(self) -> None:
        self._values.clear()
