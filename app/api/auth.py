"""Who may come in: keys of clients, and the middleware that asks for one before anything is read."""

import hashlib
import hmac
import re
from collections.abc import Iterable

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import InvalidApiKey, count_rejection, error_response
from app.telemetry.metrics import Metrics

OPEN_PATHS = frozenset({"/livez", "/health", "/readyz"})
ANONYMOUS = ""  # whose key a request bears where none is asked for

_ENTRY = re.compile(r"(?P<name>[^:\s]+):(?P<secret>[!-~]+)")  # ASCII, as headers are
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class KeyRing:
    """The clients' keys, as digests only. Empty: everybody may come in."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """entries: `name:sha256` (64 hexadecimal digits) or `name:plain`. ValueError for anything else."""
        self._digests = [_parsed(place, entry) for place, entry in enumerate(entries, start=1)]

    @property
    def is_open(self) -> bool:
        return not self._digests

    def owner_of(self, key: str) -> str | None:
        """The name of the key's owner; None if nobody has it. A wrong key takes as long as a right one."""
        digest = hashlib.sha256(key.encode()).digest()
        owners = [name for name, known in self._digests if hmac.compare_digest(digest, known)]
        return owners[0] if owners else None

    def admit(self, scope: Scope) -> str:
        """The owner of the key that a request or a WebSocket's upgrade bears. Raises InvalidApiKey."""
        if self.is_open:
            return ANONYMOUS
        key = _key_in(scope)
        if key is None:
            raise InvalidApiKey(
                "No API key came; send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`."
            )
        owner = self.owner_of(key)
        if owner is None:
            raise InvalidApiKey("The API key that came is not known here; check it, or ask for a new one.")
        return owner


class AuthMiddleware:
    """Refuses who has no key with a 401, a WebSocket at its upgrade; puts `key_owner` into scope["state"]."""

    def __init__(self, app: ASGIApp, keys: KeyRing, metrics: Metrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN_PATHS:
            try:
                scope.setdefault("state", {})["key_owner"] = self._keys.admit(scope)
            except InvalidApiKey as error:
                count_rejection(self._metrics, error)
                return await error_response(error)(scope, receive, send)
        await self._app(scope, receive, send)


def _parsed(place: int, entry: str) -> tuple[str, bytes]:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        raise ValueError(
            f"API key number {place} is not of the form name:key or name:sha256, all printable ASCII."
        )
    secret = match["secret"]
    if _SHA256.fullmatch(secret):
        return match["name"], bytes.fromhex(secret)
    return match["name"], hashlib.sha256(secret.encode()).digest()


def _key_in(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials:
        return credentials.strip()
    # A browser can give a WebSocket no header. Elsewhere a key in a URL would end in logs.
    query = QueryParams(scope["query_string"]) if scope["type"] == "websocket" else QueryParams()
    return headers.get("x-api-key") or query.get("api_key")
