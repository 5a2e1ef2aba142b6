"""Against uvicorn and a real socket, since what it logs and which headers it sends are its own."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from firstword.app.http.middleware import TimingMiddleware
from firstword.app.telemetry.logs import configure_logging
from tests.support.fake_engine import FakeEngine
from tests.support.serving import make_services
from tests.support.serving import serving as serving_all


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


@pytest.mark.anyio
@pytest.mark.usefixtures("_loggers_as_before")
@pytest.mark.parametrize("level", ["debug", "info"])
async def test_no_key_and_no_signature_is_logged_whatever_fails(
    level: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging(level, "text")
    for name in ("httpx", "httpcore.connection", "httpcore.http11"):  # the client's own
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    key, engine = "hush-hush", FakeEngine()
    async with (
        serving_all(make_services(engine, keys=[f"anna:{key}"])) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        answer = await client.post(
            "/v1/signed-urls", json={"text": "Hello."}, headers={"Authorization": f"Bearer {key}"}
        )
        address = answer.json()["url"]
        signature = address.rpartition("=")[2]
        good = f"/tts?text=Hello.&api_key={key}"
        for path in (good, f"{good}&bad=1", f"{good}&speaker=nobody", f"{good}x", address, f"{address}x"):
            await client.get(path)
        await client.put(good)
        await client.get(f"/nowhere?api_key={key}")
        host, port = url.removeprefix("http://").split(":")
        for head in (f"GET {good} HTTP/9.9\r\nAuthorization: {key}\r\n\r\n", f"GET {good}{'x' * 70_000}"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head.encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 4")
            writer.close()
        async with connect(f"{url.replace('http', 'ws')}/tts/stream?api_key={key}"):
            pass
        with pytest.raises(InvalidStatus):
            await connect(f"{url.replace('http', 'ws')}/tts/stream?api_key={key}x")
        engine.failure = RuntimeError("the network broke")
        for path in (good, address):
            assert (await client.get(path)).status_code == 500
        engine.fails_after_chunks = 1
        for path in (good, address):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(path)
    log = capsys.readouterr().err
    assert log.count("the network broke") >= 4
    assert key not in log
    assert signature not in log
