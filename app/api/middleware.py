"""ASGI middleware: request timing, API keys, body limits.

Gives every request an id and a time, and every answer the headers that tell them.

Who may come in: keys of clients, and the middleware that asks for one before anything is read.

Reads a request's body before the application sees the request: so much, in so much time, no more.
"""

import asyncio
import hashlib
import hmac
import re
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.api.errors import InvalidApiKey, count_rejection, error_response
from firstword.app.api.limits import max_file_bytes
from firstword.app.errors import StreamTimeout, TextTooLong, TtsError, UploadTooLarge
from firstword.app.options import Limits
from firstword.app.telemetry.metrics import Metrics

SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
ANSWER_STARTS = {"http.response.start", "websocket.accept", "websocket.http.response.start"}


class TimingMiddleware:
    """Pure ASGI, for HTTP and WebSocket: messages go through as they come, as do cancels and errors.

    It puts `request_id` and `received_s` (seconds of `clock`) into scope["state"]. The answer bears
    X-Request-Id and, where the route set no Server-Timing, the time from request to answer. A WebSocket
    refused by a bare close has no answer to bear them; refuse it by a response.

    Wrap it round the whole application: Starlette makes its answer to an unhandled error outside of the
    middlewares that were added to it.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        received_s = self._clock()
        request_id = _request_id(Headers(scope=scope))
        # A dict of its own: a server may give every request the same one.
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "received_s": received_s}

        async def send_timed(message: Message) -> None:
            if message["type"] in ANSWER_STARTS:
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers["X-Request-Id"] = request_id
                headers.setdefault("Server-Timing", f"total;dur={1000 * (self._clock() - received_s):.1f}")
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_timed)


def _request_id(headers: Headers) -> str:
    """The client's own if it is sane, else a new one."""
    theirs = headers.get("X-Request-Id", "")
    return theirs if SANE_REQUEST_ID.fullmatch(theirs) else uuid.uuid4().hex


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


FORM_BYTES = 64 * 1024  # what an upload's form may add to its file

# A client that is still sending when the connection closes may never see the answer: so much of the rest is
# taken and thrown away.
LINGER_BYTES = 16 * 1024 * 1024
LINGER_S = 5.0

PIECE_BYTES = 256 * 1024  # of a body on its way to the application, which parses it on the event loop


class ClientGone(Exception):
    """The client left before it had sent its body."""


class BodyLimitMiddleware:
    """Pure ASGI. Of a body that is too large it keeps no more than shows that; then the connection closes.

    Bodies are small against what a stream needs, so each is held in memory.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            body = await self._read(scope, receive)
        except ClientGone:
            return
        except TtsError as error:
            return await self._refuse(error, scope, receive, send)
        await self._app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytearray:
        """Raises TextTooLong, UploadTooLarge, StreamTimeout, ClientGone."""
        timeout_s = self._limits.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._read_within_limit(scope, receive)
        except TimeoutError:
            raise StreamTimeout(f"The body did not come within {timeout_s:g} s; send it faster.") from None

    async def _read_within_limit(self, scope: Scope, receive: Receive) -> bytearray:
        too_large, max_bytes = self._limit_of(scope)
        if _declared_bytes(scope) > max_bytes:
            raise too_large
        body = bytearray()
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            more_body = message.get("more_body", False)
            if len(body) > max_bytes:
                raise too_large
        return body

    def _limit_of(self, scope: Scope) -> tuple[TtsError, int]:
        file_bytes = max_file_bytes(self._limits, scope["path"])
        if file_bytes is not None:
            return upload_too_large(file_bytes), file_bytes + FORM_BYTES
        max_bytes = self._limits.max_body_bytes
        return TextTooLong(f"The body is larger than {max_bytes} bytes; send a shorter text."), max_bytes

    async def _refuse(self, error: TtsError, scope: Scope, receive: Receive, send: Send) -> None:
        count_rejection(self._metrics, error)
        response = error_response(error)
        response.headers["Connection"] = "close"  # or the server would read the rest, however long
        is_silent = isinstance(error, StreamTimeout)
        await response(scope, receive, send if is_silent else _lingering(receive, send))


def upload_too_large(max_bytes: int) -> UploadTooLarge:
    max_mib = max_bytes / 1024**2
    return UploadTooLarge(f"The upload is larger than {max_mib:g} MiB; send a shorter or compressed file.")


def _declared_bytes(scope: Scope) -> int:
    """What Content-Length says; 0 without one. The server has refused one that is no number."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _lingering(receive: Receive, send: Send) -> Send:
    """Sends an answer at once, and its end, which closes the connection, when the client has had its say."""

    async def send_and_linger(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            await _take_rest(receive)
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_and_linger


async def _take_rest(receive: Receive) -> None:
    taken_bytes = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while taken_bytes < LINGER_BYTES:
                message = await receive()
                taken_bytes += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _replayed(body: bytearray, receive: Receive) -> Receive:
    """Gives the body piece by piece, others running in between, then what the server gives."""
    view = memoryview(body)
    pieces = (view[start : start + PIECE_BYTES] for start in range(0, max(1, len(body)), PIECE_BYTES))
    num_given_bytes = 0

    async def replay() -> Message:
        nonlocal num_given_bytes
        piece = next(pieces, None)
        if piece is None:
            return await receive()
        if num_given_bytes:
            await asyncio.sleep(0)
        num_given_bytes += len(piece)
        return {"type": "http.request", "body": bytes(piece), "more_body": num_given_bytes < len(body)}

    return replay
