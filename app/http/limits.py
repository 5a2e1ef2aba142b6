"""Size limits of uploads, and quotas of requests and streams for each API key."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firstword.app.errors import RateLimited, TextTooLong, TtsError, UploadTooLarge
from firstword.app.server_options import Limits

FORM_BYTES = 64 * 1024  # what an upload's form may add to its file


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How large the body of a route's requests may be, and the error for a larger one."""

    max_bytes: int
    error: Callable[[], TtsError]


LimitOfBody = Callable[[Limits], BodyLimit]
"""How a route declares its limit: the settings are known when the server is built."""


def text_body(limits: Limits) -> BodyLimit:
    """Limit a body without a recording: what a route has that declares nothing else."""
    max_bytes = limits.max_body_bytes
    return BodyLimit(
        max_bytes, lambda: TextTooLong(f"the body is larger than {max_bytes} bytes; send a shorter text")
    )


def speech_body(error: Callable[[int], TtsError]) -> LimitOfBody:
    """Limit a body with a text and, as base64 or in a form, a recording; error: by the most bytes."""

    def limit(limits: Limits) -> BodyLimit:
        max_bytes = speech_body_bytes(limits)
        return BodyLimit(max_bytes, lambda: error(max_bytes))

    return limit


def upload_body(bytes_of_file: Callable[[Limits], int], num_form_bytes: int = FORM_BYTES) -> LimitOfBody:
    """Limit a body that is a file within a form; the error names the file's limit."""

    def limit(limits: Limits) -> BodyLimit:
        max_bytes = bytes_of_file(limits)
        return BodyLimit(max_bytes + num_form_bytes, lambda: upload_too_large(max_bytes))

    return limit


def check_upload(content: bytes, max_bytes: int) -> None:
    """Raise UploadTooLarge: a form's own limit is higher than its file's."""
    if len(content) > max_bytes:
        raise upload_too_large(max_bytes)


def check_recording(num_bytes: int, max_bytes: int) -> None:
    """Raise UploadTooLarge for the recording of a request."""
    if num_bytes > max_bytes:
        raise UploadTooLarge(
            f"a recording of {num_bytes} bytes; expected {max_bytes} at most: send a shorter or compressed "
            "one"
        )


def upload_too_large(max_bytes: int) -> UploadTooLarge:
    max_mib = max_bytes / 1024**2
    return UploadTooLarge(f"the upload is larger than {max_mib:g} MiB; send a shorter or compressed file")


def speech_body_bytes(limits: Limits) -> int:
    """The largest body of a request with a text and, as base64 or in a form, a recording."""
    return limits.max_body_bytes + 4 * -(-limits.max_reference_bytes // 3)


class Quotas:
    """Count requests and streams of each key's owner, in one event loop. clock: monotonic seconds."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}  # by owner: at most as many as there are keys
        self._num_streams: Counter[str] = Counter()

    def charge(self, owner: str) -> None:
        """Count one request. Raises RateLimited."""
        limit = self._limits.requests_per_minute
        if not limit:
            return
        bucket = self._buckets.setdefault(owner, TokenBucket(limit, limit / 60, limit, self._clock()))
        wait_s = bucket.take(self._clock())
        if wait_s > 0:
            retry_after_s = math.ceil(wait_s)
            raise RateLimited(
                f"more than {limit} requests within a minute; retry in {retry_after_s} s", retry_after_s
            )

    @contextmanager
    def admitted(self, owner: str) -> Iterator[None]:
        """Count one request, and one stream while it is held. Raises RateLimited."""
        limit = self._limits.streams_per_key
        if limit and self._num_streams[owner] >= limit:
            raise RateLimited(
                f"{limit} streams of this API key are open already; wait for one to end", retry_after_s=1
            )
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
    updated_s: float  # when `level` was computed

    def take(self, now_s: float) -> float:
        """Take one request and return 0; where there is none, return the seconds until there will be one."""
        self.level = min(self.capacity, self.level + (now_s - self.updated_s) * self.per_second)
        self.updated_s = now_s
        if self.level < 1:
            return (1 - self.level) / self.per_second
        self.level -= 1
        return 0.0
