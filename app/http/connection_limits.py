"""What one connection may send beside its messages, and how long it may take: the limits of every door."""

from typing import Final

from firstword.app.http.limits import TokenBucket

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers
MAX_HEADERS: Final = 200
HEAD_TIMEOUT_S = 10.0  # from the connection, or the first byte of a later request, to the end of its head

FRAMING_BYTES: Final = 64 * 1024  # trailers, sizes and extensions of chunks, beside a share of the body
FRAMING_SHARE: Final = 8  # one byte of framing for so many of the body

MAX_REST_BYTES: Final = 1 << 20  # of a request, once it is answered
LINGER_S = 1.0  # for that rest: a client still sending when its connection closes may not see the answer
DRAIN_LINGER_S = 0.5  # the same at the end of the server, which waits a second for its connections

SLICE_BYTES: Final = 4 * 1024  # of a WebSocket, worked off before the event loop serves others
SMALL_FRAME_BYTES: Final = 64  # a fragment below it counts as one that carries nothing
FRAMES_PER_S: Final = 50  # control frames and those that carry next to nothing, in the long run
FRAME_BURST: Final = 100  # the same, at once


def max_framing_bytes(num_body_bytes: int) -> int:
    """Return how many bytes may come that are neither head nor body, beside so many of the body."""
    return FRAMING_BYTES + num_body_bytes // FRAMING_SHARE


def frame_budget(now_s: float) -> TokenBucket:
    """Return what a WebSocket may spend on frames that are no message. now_s: the clock of its `take`."""
    return TokenBucket(FRAME_BURST, FRAMES_PER_S, FRAME_BURST, now_s)
