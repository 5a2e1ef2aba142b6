"""Against uvicorn and a real socket, since what it logs and which headers it sends are its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from firstword.app.api.middleware import TimingMiddleware
from firstword.app.telemetry.logs import configure_logging


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(await websocket.receive_text())
    await websocket.close()


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[int]:
    """Yields the port. Without uvicorn's loop, which only watches for signals and limits."""
    config = uvicorn.Config(TimingMiddleware(app), port=0, log_config=None, lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


@pytest.mark.anyio
@pytest.mark.usefixtures("_loggers_as_before")
async def test_websocket_tells_its_id_and_neither_its_key_nor_its_text_is_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("debug", "text")
    async with serving(Starlette(routes=[WebSocketRoute("/socket", echo)])) as port:
        url, headers = f"ws://127.0.0.1:{port}", {"X-Request-Id": "mine"}
        async with connect(f"{url}/socket?api_key=hush", additional_headers=headers) as client:
            assert client.response is not None
            assert client.response.headers["X-Request-Id"] == "mine"
            await client.send("what somebody speaks")
            assert await client.recv() == "what somebody speaks"
        with pytest.raises(InvalidStatus):
            await connect(f"{url}/nowhere?api_key=hush")
    log = capsys.readouterr().err
    assert "Uvicorn running" in log
    assert "hush" not in log
    assert "what somebody speaks" not in log
