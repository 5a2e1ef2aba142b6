"""Build the FastAPI application and the uvicorn server that drains before it stops."""

import asyncio
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from firstword.app.http.auth import GuardMiddleware
from firstword.app.http.bodies import BodyLimitMiddleware
from firstword.app.http.connection_limits import max_waiting
from firstword.app.http.errors import install_error_handlers
from firstword.app.http.middleware import InternalErrorMiddleware, TimingMiddleware
from firstword.app.http.origin import OriginCheck
from firstword.app.http.protocols import HttpProtocol, WebSocketProtocol
from firstword.app.http.routes import Guard, RouteMiddleware, RouteTable
from firstword.app.http.service import Service
from firstword.app.http.streaming import PROVENANCE, SYNTHETIC
from firstword.app.http.surface import HttpSurface, Surface

DESCRIPTION = (
    "Low-latency text to speech. Text that is still being written goes over a [WebSocket](/asyncapi)."
)
MAX_NAME_CHARS = 100  # of an operation, in its description
_SHUTDOWN_TIMEOUT_S = 1  # for what is still being sent once the streams have ended
EXPOSED_HEADERS = (
    *("X-Request-Id", "X-Sample-Rate", "X-Channels", "Server-Timing", "Retry-After", "X-Firstword-Warnings"),
    *(SYNTHETIC, PROVENANCE),
)


def build_app(
    service: Service,
    surfaces: Sequence[Surface],
    *,
    cors_origins: Sequence[str] = (),
    allowed_hosts: Sequence[str] | None = None,
) -> FastAPI:
    """Build the transport over the given parts; it starts and stops none of them.

    cors_origins: origins whose web pages may call the server; "*" for all. allowed_hosts: names of the server
    besides loopback ones; None: any. Raise UndeclaredRoute.
    """
    app = FastAPI(title="Firstword", description=DESCRIPTION, docs_url=None, redoc_url=None)
    app.state.service = service
    app.state.surfaces = surfaces
    install_error_handlers(app)
    for route in app.routes:  # its own description of itself
        Guard("any key")(cast(Route, route).endpoint)
    app.openapi = partial(_named_by_docstrings, app.openapi)  # type: ignore[method-assign]
    own = HttpSurface("openapi", list(app.routes))
    routes = [(surface, surface.routes(service)) for surface in (own, *surfaces)]
    table = RouteTable(routes, service.limits)
    # As they are: `include_router` would analyze each route anew, which takes 1 ms.
    app.router.routes[:] = [route for _, routes_of_surface in routes for route in routes_of_surface]
    app.router.middleware_stack = table.dispatch
    # Innermost first: a key is checked before a body is read; every response gets an id and a time.
    app.add_middleware(BodyLimitMiddleware, service=service)
    origins = OriginCheck(cors_origins, allowed_hosts)
    app.add_middleware(GuardMiddleware, auth=service.auth, origins=origins, metrics=service.metrics)
    app.add_middleware(InternalErrorMiddleware)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=list(EXPOSED_HEADERS),
        )
    app.add_middleware(RouteMiddleware, table=table)
    app.add_middleware(TimingMiddleware, clock=service.clock)
    return app


def raise_file_limit() -> None:
    """Let the process open as many files as the system allows it to."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS calls its limit infinite and refuses that
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def server_config(app: ASGIApp, host: str, port: int, max_message_bytes: int) -> uvicorn.Config:
    """max_message_bytes: of a WebSocket; a longer message closes it with 1009."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        lifespan="off",
        http=cast(Any, partial(HttpProtocol, waiting={}, max_waiting=max_waiting())),
        ws=WebSocketProtocol,
        ws_max_size=max_message_bytes,
        ws_per_message_deflate=False,  # audio does not compress, and the event loop would do the work
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )


def drop_unread(listeners: Sequence[socket.socket], timeout_s: float) -> None:
    """Let the system drop a connection whose other side acknowledges nothing for so long."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # only on Linux
        for listener in listeners:  # connections inherit it from the socket that accepts them
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * timeout_s))


class DrainingServer(uvicorn.Server):
    """Run `drain` at the first signal, while the server still answers; then stop as uvicorn does."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Callable[[], Awaitable[None]],
        on_listening: Callable[[int], None],
        unread_timeout_s: float | None = None,
    ) -> None:
        """on_listening: called with the port once it is open.

        unread_timeout_s: after which the system drops a connection whose other side acknowledges nothing;
        by default (None) a closed one waits for hours with its unsent data.
        """
        super().__init__(config)
        self._drain = drain
        self._on_listening = on_listening
        self._unread_timeout_s = unread_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None  # None: not started
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()  # first: a signal may come as soon as it has started
        await super().startup(sockets)
        if self.started:
            if self._unread_timeout_s is not None:
                for server in self.servers:
                    drop_unread(server.sockets, self._unread_timeout_s)
            self._on_listening(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn's own would raise the signal again at its end, which leaves no time to close anything."""

        async def drain_and_exit() -> None:
            try:
                await self._drain()
            finally:
                self.should_exit = True

        def begin_to_drain() -> None:
            if self._draining is None:
                self._draining = asyncio.create_task(drain_and_exit())

        if self._draining is None and self.started:
            assert self._loop is not None, "started without a loop"
            self._loop.call_soon_threadsafe(begin_to_drain)
        else:
            self.should_exit = self.force_exit = True


def _named_by_docstrings(describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call each operation by the first sentence of what it does, not by its function's name."""
    spec = describe()
    for operations in spec["paths"].values():
        for operation in operations.values():
            operation["summary"] = operation["summary"].capitalize()
            sentence = re.split(r"[.;:]\s|\.$", operation.get("description", ""), maxsplit=1)[0]
            if 0 < len(sentence) <= MAX_NAME_CHARS:
                operation["summary"] = " ".join(sentence.split())
    return spec
