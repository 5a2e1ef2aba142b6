"""The port of the metrics alone: the same event loop and the same limits of a connection as the main port."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.server import ServerState

from firstword.app.http.app import drop_unread, server_config
from firstword.app.http.service import Service
from firstword.app.options import InvalidOptions

MAX_MESSAGE_BYTES: Final = 1024  # of a WebSocket, which has no route here
SHUTDOWN_TIMEOUT_S: Final = 1.0  # for scrapes that are being answered


@asynccontextmanager
async def metrics_server(port: int | None, host: str, service: Service) -> AsyncIterator[int | None]:
    """Serve GET /metrics, without a key, and nothing else; give the port. port: None serves nothing.

    Raise InvalidOptions where it cannot listen.
    """
    if port is None:
        yield None
        return
    config = server_config(_app(service), host, port, MAX_MESSAGE_BYTES)
    config.load()
    state = ServerState()
    protocol = partial(cast(Any, config.http_protocol_class), config=config, server_state=state, app_state={})
    try:
        server = await asyncio.get_running_loop().create_server(protocol, host, port)
    except OSError as error:
        raise InvalidOptions(
            f"the metrics cannot be shown on {host}:{port}: {error.strerror}; stop what listens there, or "
            "set FIRSTWORD_METRICS_PORT to another"
        ) from error
    drop_unread(server.sockets, service.limits.slow_listener_timeout_s)
    try:
        yield _port_of(server.sockets[0])
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=SHUTDOWN_TIMEOUT_S)
        for connection in list(state.connections):
            cast(Any, connection).transport.abort()


def _app(service: Service) -> Starlette:
    one_at_a_time = asyncio.Lock()  # scrapes without end take one thread of those that all share

    async def show(request: Request) -> Response:
        async with one_at_a_time:
            return await metrics_answer(request, service)

    return Starlette(routes=[Route("/metrics", show)])


async def metrics_answer(request: Request, service: Service) -> Response:
    """Return the metrics in Prometheus' text format; with traces, as OpenMetrics to whom accepts it."""
    accept = request.headers.get("accept", "") if service.tracing.is_on else ""
    body, content_type = await asyncio.to_thread(service.metrics.exposition, accept)
    return Response(body, headers={"Content-Type": content_type})


def _port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port
