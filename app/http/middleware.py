"""ASGI middleware: request timing, internal errors, API keys, body limits."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.clients import ANYBODY, STRANGER, Client
from firstword.app.clients import Scope as KeyScope
from firstword.app.errors import (
    InvalidApiKey,
    InvalidRequest,
    MissingScope,
    OriginNotAllowed,
    Overloaded,
    StreamTimeout,
    TextTooLong,
    TtsError,
)
from firstword.app.http.errors import count_rejection, error_response, route_of
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.limits import BodyLimit
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
HEADERS_WANTED = "send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`"

# By method and path, WEBSOCKET for an upgrade. What is not here takes any key.
SCOPES_OF_ROUTES: Final[Mapping[KeyScope, re.Pattern[str]]] = {
    "speak": re.compile(
        r"(GET|POST) /tts|WEBSOCKET /tts/stream|"
        r"(GET|POST|DELETE) /v1/audio/batches(/.*)?|"
        r"POST /v1/(audio/speech|signed-urls|speech-tokens|text|token2wav|tokens|voice-conversion)|"
        r"POST /v2/models/.*",
        re.DOTALL,
    ),
    "enrol": re.compile(
        r"(POST|PATCH|DELETE) /speakers.*|GET /speakers/[^/]+/export|"
        r"(POST|DELETE) /v1/audio/voices.*|(GET|POST|DELETE) /v1/audio/voice_consents.*",
        re.DOTALL,
    ),
    "admin": re.compile(r"GET /metrics"),
}
PUBLIC_LISTS = re.compile(r"GET (/v1|/v1/models(/.*)?|/v1/audio/voices|/speakers)", re.DOTALL)
# What a browser or a player can only be given an address for. Elsewhere a key in a URL would end up in logs.
TAKES_KEY_IN_URL = re.compile(r"GET /tts|WEBSOCKET /tts/stream")


class AuthMiddleware:
    """Refuse who has no known key with 401, and whose key is not for this with 403; WebSockets too.

    It puts `client` into scope["state"].
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyRing,
        signer: UrlSigner,
        metrics: Metrics,
        is_open: Callable[[Scope], bool],
        has_public_lists: bool = False,
    ) -> None:
        """is_open: whether a request needs no key, besides the probes. has_public_lists: models, voices and
        speakers are listed without a key."""
        self._app = app
        self._keys = keys
        self._signer = signer
        self._metrics = metrics
        self._is_open = is_open
        self._has_public_lists = has_public_lists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_request = scope["type"] in ("http", "websocket")
        if is_request and scope["path"] not in OPEN_PATHS and not self._is_open(scope):
            try:
                client = ANYBODY if self._keys.is_open else await self._authenticate(scope)
                scope.setdefault("state", {})["client"] = client
            except TtsError as error:
                count_rejection(self._metrics, error)
                return await error_response(error)(scope, receive, send)
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> Client:
        """Raises InvalidApiKey, InvalidSignature, MissingScope."""
        await self._keys.refresh()
        request = f"{scope.get('method', 'WEBSOCKET')} {scope['path']}"
        query = QueryParams(scope["query_string"])
        takes_key_in_url = TAKES_KEY_IN_URL.fullmatch(request) is not None
        key = _key_in_headers(Headers(scope=scope)) or (query.get("api_key", "") if takes_key_in_url else "")
        if key:
            client = self._keys.client_of(key)
            if client is None:
                raise InvalidApiKey("unknown API key; check it, or ask for a new one")
        elif request == "GET /tts" and "signature" in query:
            client = self._signer.client_of(scope["query_string"].decode("latin-1"))
        elif self._has_public_lists and PUBLIC_LISTS.fullmatch(request):
            return STRANGER
        elif "api_key" in query and not takes_key_in_url:
            raise InvalidApiKey(f"only GET /tts and WebSockets take a key in the address; {HEADERS_WANTED}")
        else:
            raise InvalidApiKey(f"no API key; {HEADERS_WANTED}")
        for needed, routes in SCOPES_OF_ROUTES.items():
            if routes.fullmatch(request) and not client.may(needed):
                scopes = " and ".join(sorted(client.scopes))
                raise MissingScope(
                    f"the key of {client.name!a} has the scope {scopes}, and this takes {needed}; ask for "
                    "a key with it",
                    needed,
                )
        return client


def _key_in_headers(headers: Headers) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    return headers.get("x-api-key", "")


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
