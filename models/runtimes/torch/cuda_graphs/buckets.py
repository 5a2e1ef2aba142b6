"""The few shapes that runs are padded to, so that each is recorded once."""

from bisect import bisect_left
from collections.abc import Sequence

BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Streams at once."""


def bucket(sizes: Sequence[int], size: int) -> int | None:
    """Return the smallest of the sorted `sizes` that holds `size`; None: it is larger than all."""
    index = bisect_left(sizes, size)
    return sizes[index] if index < len(sizes) else None
