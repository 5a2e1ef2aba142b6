"""Build the FastAPI application and run the server that serves it.

Puts the routes, the middlewares and the error handlers together into one application.

The sockets: uvicorn that drains before it stops, and /metrics on a port of its own.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from prometheus_client import start_http_server
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from firstword.app.api import openai, operations, speakers
from firstword.app.api import tts as speech
from firstword.app.api.dependencies import Services
from firstword.app.api.errors import FaultMiddleware, install_error_handlers
from firstword.app.api.middleware import AuthMiddleware, BodyLimitMiddleware, TimingMiddleware
from firstword.app.api.ws import session as websocket
from firstword.app.telemetry.metrics import Metrics

EXPOSED_HEADERS = ("X-Request-Id", "X-Sample-Rate", "X-Channels", "Server-Timing", "Retry-After")


def build_app(
    services: Services, *, cors_origins: Sequence[str] = (), metrics_on_main_port: bool = True
) -> FastAPI:
    """The transport over the given parts. It starts and stops none of them.

    cors_origins: whose pages may call from a browser; "*" for all.
    """
    app = FastAPI(title="Firstword", description="Low-latency text to speech.", redoc_url=None)
    app.state.services = services
    install_error_handlers(app)
    routers = [speech.router, websocket.router, openai.router, speakers.router, operations.router]
    if metrics_on_main_port:
        routers.append(operations.metrics_router)
    for router in routers:
        app.include_router(router)
    _add_middlewares(app, services, cors_origins)
    return app


def _add_middlewares(app: FastAPI, services: Services, cors_origins: Sequence[str]) -> None:
    """Innermost first. A key is asked for before a body is read; every answer gets an id and a time."""
    app.add_middleware(BodyLimitMiddleware, limits=services.limits, metrics=services.metrics)
    app.add_middleware(AuthMiddleware, keys=services.keys, metrics=services.metrics)
    app.add_middleware(FaultMiddleware)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=list(EXPOSED_HEADERS),
        )
    app.add_middleware(TimingMiddleware, clock=services.clock)


_FAREWELL_S = 5  # for what is still being sent once the streams have ended


def server_config(app: ASGIApp, host: str, port: int, max_message_bytes: int) -> uvicorn.Config:
    """max_message_bytes: of a WebSocket; a longer one closes it with 1009."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=max_message_bytes,
        ws_per_message_deflate=False,  # audio does not shrink, and the event loop would compress it
        timeout_graceful_shutdown=_FAREWELL_S,
    )


class DrainingServer(uvicorn.Server):
    """At the first signal `drain` runs while the server still answers; then it stops as uvicorn does."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Callable[[], Awaitable[None]],
        on_listening: Callable[[int], None],
        unread_timeout_s: float | None = None,
    ) -> None:
        """on_listening: told the port once it is open.

        unread_timeout_s: when the system drops a connection whose other side takes nothing, be it that it is
        cut off; without it one that was closed waits for hours with what it still holds. None: as it does.
        """
        super().__init__(config)
        self._unread_timeout_s = unread_timeout_s
        self._drain, self._on_listening = drain, on_listening
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()  # first: a signal may come as soon as it has started
        await super().startup(sockets)
        if self.started:
            self._limit_silence()
            self._on_listening(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn would raise the signal once more at its end, which leaves no time to close anything."""
        if self._draining is None and self.started:
            self._loop.call_soon_threadsafe(self._begin_to_drain)
        else:
            self.should_exit = self.force_exit = True

    def _begin_to_drain(self) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        try:
            await self._drain()
        finally:
            self.should_exit = True

    def _limit_silence(self) -> None:
        """Connections take the option over from the socket that accepts them. Only Linux has it."""
        if self._unread_timeout_s is None or not hasattr(socket, "TCP_USER_TIMEOUT"):
            return
        timeout_ms = round(1000 * self._unread_timeout_s)
        for listener in (listener for server in self.servers for listener in server.sockets):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


@asynccontextmanager
async def metrics_server(port: int | None, host: str, metrics: Metrics) -> AsyncIterator[None]:
    """/metrics on its own port, if one is set, in prometheus_client's own thread."""
    if port is None:
        yield
        return
    server, thread = start_http_server(port, host, metrics.registry)
    try:
        yield
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        await asyncio.to_thread(thread.join)
