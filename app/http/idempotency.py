"""`Idempotency-Key`: what a client sends so that a request it repeats makes nothing twice."""

import hashlib
import re

from starlette.requests import Request

from firstword.app.errors import InvalidRequest
from firstword.app.speakers.interface import RequestKey

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[!-~]{1,255}")


def request_key(request: Request, *content: bytes) -> RequestKey | None:
    """Return the key with the digest of all that the request says; None: it has none.

    Raises InvalidRequest.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidRequest(
            f"an {HEADER} of {len(key)} characters; expected 1 to 255 of printable ASCII, such as a UUID",
            HEADER,
        )
    digest = hashlib.sha256(request.url.path.encode())
    for part in content:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return RequestKey(key, digest.digest())
