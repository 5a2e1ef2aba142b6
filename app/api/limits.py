"""How much one client may ask for, in requests per minute and in streams at once."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firstword.app.errors import RateLimited
from firstword.app.options import Limits
from firstword.app.speakers.interface import max_bundle_bytes


def max_file_bytes(limits: Limits, path: str) -> int | None:
    """The largest file that may be uploaded to a path; None where none is."""
    match path.rstrip("/"):
        case "/speakers":
            return limits.max_upload_bytes
        case "/speakers/import":
            return max_bundle_bytes(limits.max_upload_bytes)
    return None


class Quotas:
    """Counts what each key's owner asks for; used within one event loop. clock: seconds, monotonic."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}  # by owner; as many as there are keys
        self._num_streams: Counter[str] = Counter()

    def charge(self, owner: str) -> None:
        """Counts one request. Raises RateLimited."""
        limit = self._limits.requests_per_minute
        if not limit:
            return
        bucket = self._buckets.setdefault(owner, TokenBucket(limit, limit / 60, limit, self._clock()))
        wait_s = bucket.take(self._clock())
        if wait_s > 0:
            retry_after_s = math.ceil(wait_s)
            raise RateLimited(
                f"More than {limit} requests came within a minute; wait {retry_after_s} s.", retry_after_s
            )

    @contextmanager
    def admitted(self, owner: str) -> Iterator[None]:
        """Counts one request, and one stream while it is held. Raises RateLimited."""
        limit = self._limits.streams_per_key
        if limit and self._num_streams[owner] >= limit:
            raise RateLimited(f"{limit} streams of this key are open already; let one end.", retry_after_s=1)
        self.charge(owner)
        self._num_streams[owner] += 1
        try:
            yield
        finally:
            self._num_streams[owner] -= 1


@dataclass(slots=True)
class TokenBucket:
    """Allows `capacity` requests at once and `per_second` in the long run."""

    capacity: float
    per_second: float
    level: float
    at_s: float  # when `level` was right

    def take(self, now_s: float) -> float:
        """0 and one request is taken; or the seconds until one could be, and none is."""
        self.level = min(self.capacity, self.level + (now_s - self.at_s) * self.per_second)
        self.at_s = now_s
        if self.level < 1:
            return (1 - self.level) / self.per_second
        self.level -= 1
        return 0.0
