"""ASGI middleware: request timing, internal errors, API keys, body limits."""

import asyncio
import hashlib
import hmac
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.api.errors import count_rejection, error_response, route_of
from firstword.app.api.limits import BodyLimit
from firstword.app.errors import (
    InvalidApiKey,
    InvalidRequest,
    OriginNotAllowed,
    Overloaded,
    StreamTimeout,
    TextTooLong,
    TtsError,
)
from firstword.app.options import Limits
from firstword.app.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_ACCEPTED_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_RESPONSE_STARTS = {"http.response.start", "websocket.accept", "websocket.http.response.start"}


class TimingMiddleware:
    """Give every HTTP and WebSocket request an id and a time, and its response the headers that report them.

    It puts `request_id` and `received_s` (seconds of `clock`) into scope["state"]. The response carries
    X-Request-Id and, where the route set no Server-Timing, the time from request to response. A WebSocket
    refused by a bare close has no response to carry them; refuse it by a response.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        received_s = self._clock()
        request_id = Headers(scope=scope).get("X-Request-Id", "")
        if not _ACCEPTED_REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        # A dict of its own: a server may give every request the same one.
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "received_s": received_s}

        async def send_timed(message: Message) -> None:
            if message["type"] in _RESPONSE_STARTS:
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers["X-Request-Id"] = request_id
                if message["type"] == "http.response.start":
                    headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Server-Timing", f"total;dur={1000 * (self._clock() - received_s):.1f}")
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_timed)


class PathMiddleware:
    """Treat a path with trailing slashes as the one without, and HEAD as GET without a body.

    It puts `is_head` into scope["state"], for a route whose body costs something.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        scope["path"] = scope["path"].rstrip("/") or "/"
        if scope.get("method") != "HEAD":
            return await self._app(scope, receive, send)

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        state = {**scope.get("state", {}), "is_head": True}
        await self._app({**scope, "method": "GET", "state": state}, receive, send_without_body)


class InternalErrorMiddleware:
    """Turn unhandled exceptions into a generic 500 and log them.

    It belongs inside the middlewares that add headers to every response. Once a response has started, the
    exception is passed on and the server drops the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_started = False

        async def note_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except Exception as error:
            if has_started:
                raise
            logger.exception("%s %s failed", scope["method"], route_of(scope))
            await error_response(error)(scope, receive, send)


OPEN_PATHS = frozenset({"/livez", "/health", "/readyz", "/v2/health/live", "/v2/health/ready"})
ANONYMOUS = ""  # the owner of every request where no keys are set

_ENTRY = re.compile(r"(?P<name>[^:\s]+):(?P<secret>[!-~]+)")  # ASCII, as headers are
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class KeyRing:
    """The clients' API keys, as digests only. Without any, every request is admitted."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """entries: `name:sha256` (64 hexadecimal digits) or `name:plain`. ValueError for anything else."""
        self._digests = [_parse_key(number, entry) for number, entry in enumerate(entries, start=1)]

    @property
    def is_open(self) -> bool:
        return not self._digests

    def owner_of(self, key: str) -> str | None:
        """Return the name of the key's owner, None for an unknown key; in the same time for both."""
        digest = hashlib.sha256(key.encode()).digest()
        owners = [name for name, known in self._digests if hmac.compare_digest(digest, known)]
        return owners[0] if owners else None

    def checked_owner(self, authorization: str, api_key: str) -> str:
        """Return whose key came, by its header `Authorization` or, without it, by itself.

        Raises InvalidApiKey.
        """
        if self.is_open:
            return ANONYMOUS
        scheme, _, credentials = authorization.partition(" ")
        key = credentials.strip() if scheme.lower() == "bearer" and credentials else api_key
        if not key:
            raise InvalidApiKey("no API key; send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`")
        owner = self.owner_of(key)
        if owner is None:
            raise InvalidApiKey("unknown API key; check it, or ask for a new one")
        return owner


class AuthMiddleware:
    """Refuse requests without a known key with 401, WebSockets at their upgrade.

    It puts `key_owner` into scope["state"].
    """

    def __init__(self, app: ASGIApp, keys: KeyRing, metrics: Metrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN_PATHS:
            try:
                headers = Headers(scope=scope)
                # A browser cannot set headers on a WebSocket. Elsewhere a key in a URL would end up in logs.
                query = QueryParams(scope["query_string"] if scope["type"] == "websocket" else "")
                api_key = headers.get("x-api-key") or query.get("api_key") or ""
                owner = self._keys.checked_owner(headers.get("authorization", ""), api_key)
                scope.setdefault("state", {})["key_owner"] = owner
            except InvalidApiKey as error:
                count_rejection(self._metrics, error)
                return await error_response(error)(scope, receive, send)
        await self._app(scope, receive, send)


def _parse_key(number: int, entry: str) -> tuple[str, bytes]:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        raise ValueError(
            f"API key number {number} is not of the form name:key or name:sha256, all printable ASCII"
        )
    secret = match["secret"]
    if _SHA256.fullmatch(secret):
        return match["name"], bytes.fromhex(secret)
    return match["name"], hashlib.sha256(secret.encode()).digest()


REPLAY_BYTES = 256 * 1024  # of a body at a time: the application parses it on the event loop

# A client that is still sending when the connection closes may never see the response: this much of the
# rest is read and discarded.
LINGER_BYTES = 16 * 1024 * 1024
LINGER_S = 5.0


class ClientDisconnected(Exception):
    """The client left before it had sent its body."""


_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_UNCHECKED_PATHS = OPEN_PATHS | {"/metrics"}
_LOOPBACK_HOST = re.compile(r"localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\]")


class OriginMiddleware:
    """Refuse web pages of other origins, which a browser lets send requests without asking the server.

    A page may change something or open a WebSocket only if its `Origin` is an allowed one, or this server's
    own by the `Host` header (the scheme is ignored, as proxies end TLS). That would not help against a page
    whose name resolves to this server (DNS rebinding), so `Host` itself is checked as well.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        allowed_origins: Sequence[str] = (),
        allowed_hosts: Sequence[str] | None = None,
    ) -> None:
        """allowed_origins: "*" for all. allowed_hosts: besides loopback names, without ports; None: any."""
        self._app = app
        self._metrics = metrics
        self._allowed_origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        self._allowed_hosts = None if allowed_hosts is None else {host.lower() for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in _UNCHECKED_PATHS:
            try:
                self._check(scope)
            except TtsError as error:
                count_rejection(self._metrics, error)
                return await error_response(error)(scope, receive, send)
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise InvalidRequest(f"the request has {len(hosts)} Host headers; send one")
        host = hosts[0].lower()
        name = re.sub(r":\d*$", "", host)
        is_known = (
            self._allowed_hosts is None or name in self._allowed_hosts or _LOOPBACK_HOST.fullmatch(name)
        )
        if not is_known:
            raise OriginNotAllowed(
                f"the server does not answer to the host {name[:60]!r}; add it to FIRSTWORD_ALLOWED_HOSTS"
            )
        origin = headers.get("origin", "").lower()
        if not origin or "*" in self._allowed_origins or scope.get("method", "upgrade") in _SAFE_METHODS:
            return
        if origin.partition("://")[2] != host and origin not in self._allowed_origins:
            raise OriginNotAllowed(
                f"a web page of {origin[:60]!r} may not do this; add the origin to FIRSTWORD_CORS_ORIGINS"
            )


class BodyLimitMiddleware:
    """Read each request's body before the application sees the request, within a size and a time.

    Of a body that is too large, no more is kept than shows that; then the connection closes. Bodies are held
    in memory, all of them together within `max_bodies_bytes`; a body counts until its response starts.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        body_limits: Sequence[BodyLimit] = (),
    ) -> None:
        """body_limits: of routes that have one of their own."""
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._body_limits = body_limits
        self._num_held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        body = bytearray()
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._num_held_bytes -= len(body)

        async def send_and_release(message: Message) -> None:
            if message["type"] == "http.response.start":
                release()
            await send(message)

        timeout_s = self._limits.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._read(body, scope, receive)
        except ClientDisconnected:
            return
        except TimeoutError:
            error = StreamTimeout(f"the request body took longer than {timeout_s:g} s; send it faster")
            await self._refuse(error, scope, receive, send_and_release)
        except TtsError as error:
            await self._refuse(error, scope, receive, _lingering(receive, send_and_release))
        else:
            await self._app(scope, _replay(body, receive), send_and_release)
        finally:
            release()

    async def _read(self, body: bytearray, scope: Scope, receive: Receive) -> None:
        """body: empty, to be read into. Raise TextTooLong, UploadTooLarge, Overloaded, ClientDisconnected."""
        max_bytes = self._limits.max_body_bytes
        too_large: TtsError = TextTooLong(f"the body is larger than {max_bytes} bytes; send a shorter text")
        for limit in self._body_limits:
            if limit.route.matches(scope)[0] is Match.FULL:
                max_bytes = limit.max_bytes
                too_large = limit.error()
        # The server has refused a Content-Length that is not a number.
        lengths = (int(value) for name, value in scope["headers"] if name == b"content-length")
        if next(lengths, 0) > max_bytes:
            raise too_large
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            part = message.get("body", b"")
            body += part
            self._num_held_bytes += len(part)
            more_body = message.get("more_body", False)
            if len(body) > max_bytes:
                raise too_large
            is_alone = len(body) == self._num_held_bytes
            if self._num_held_bytes > self._limits.max_bodies_bytes and not is_alone:
                raise Overloaded("the server is receiving too many uploads at once; retry later", 1)

    async def _refuse(self, error: TtsError, scope: Scope, receive: Receive, send: Send) -> None:
        count_rejection(self._metrics, error)
        response = error_response(error)
        response.headers["Connection"] = "close"  # or the server would read the rest, however long
        await response(scope, receive, send)


def _lingering(receive: Receive, send: Send) -> Send:
    """Send the response at once, then drain the request's body before the end that closes the connection."""

    async def send_and_linger(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            num_bytes = 0
            more_body = True
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while more_body and num_bytes < LINGER_BYTES:
                        part = await receive()
                        num_bytes += len(part.get("body", b""))
                        more_body = part.get("more_body", False)
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_and_linger


def _replay(body: bytearray, receive: Receive) -> Receive:
    """Return a `receive` that gives the body in parts, other tasks running in between, then `receive`'s."""
    view = memoryview(body)
    starts = iter(range(0, max(1, len(body)), REPLAY_BYTES))

    async def replay() -> Message:
        start = next(starts, None)
        if start is None:
            return await receive()
        if start > 0:
            await asyncio.sleep(0)
        end = start + REPLAY_BYTES
        return {"type": "http.request", "body": bytes(view[start:end]), "more_body": end < len(body)}

    return replay
