"""A real Caddy with the committed Caddyfile: TLS in front, audio as it is made, WebSockets."""

import asyncio
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import websockets

from tests.support.fake_engine import FakeEngine, speech
from tests.support.serving import HELLO, PATIENCE_S, make_services, serving
from tests.support.ws_client import Client, pcm_of, received_audio

PROXY_STARTS_WITHIN_S = 60  # it makes two keys, on a machine that does something else too
CADDYFILE = Path(__file__).parents[2] / "deploy/compose/Caddyfile"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("caddy") is None, reason="needs Caddy: make setup-deploy"),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def proxied(url: str, folder: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Gives host and port of the proxy, and a context that trusts the certificate it made for itself."""
    port, outer = free_port(), folder / "Caddyfile"
    options = f"admin off\n skip_install_trust\n http_port {free_port()}\n https_port {port}"
    outer.write_text(f"{{\n {options}\n}}\nimport {CADDYFILE}\n", encoding="utf-8")
    own = {"SITE": "localhost", "UPSTREAM": url.removeprefix("http://"), "XDG_DATA_HOME": str(folder)}
    words = ["run", "--config", str(outer), "--adapter", "caddyfile"]
    process = await asyncio.create_subprocess_exec(
        "caddy", *words, env=os.environ | own, stderr=asyncio.subprocess.DEVNULL
    )
    root = folder / "caddy/pki/authorities/local/root.crt"
    try:
        async with asyncio.timeout(PROXY_STARTS_WITHIN_S):
            while not (root.exists() and await answers(port, root)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # it tells nobody that its certificate is made
        yield f"localhost:{port}", ssl.create_default_context(cafile=root)
    finally:
        process.terminate()
        await process.wait()


async def answers(port: int, root: Path) -> bool:
    try:
        context = ssl.create_default_context(cafile=root)
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
    except OSError:  # ssl.SSLError among them
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_proxy_passes_audio_as_it_is_made(tmp_path: Path) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with (
        serving(make_services(engine)) as url,
        proxied(url, tmp_path) as (address, context),
        httpx.AsyncClient(base_url=f"https://{address}", verify=context, timeout=PATIENCE_S) as http,
        http.stream("POST", "/tts", json={"text": HELLO, "format": "pcm"}) as answer,
    ):
        pieces = answer.aiter_raw()
        received = await anext(pieces)  # while the stream waits: nothing buffers it
        assert 0 < len(received) < len(pcm_of(speech(HELLO)))
        engine.pause.set()
        async for piece in pieces:
            received += piece
    assert received == pcm_of(speech(HELLO))


async def test_proxy_passes_websockets(tmp_path: Path) -> None:
    async with (
        serving(make_services()) as url,
        proxied(url, tmp_path) as (address, context),
        websockets.connect(f"wss://{address}/tts/stream", ssl=context) as ws,
    ):
        client = Client(ws)
        await client.send_turn(HELLO)
        messages = await client.receive_until("done")
    assert received_audio(messages) == pcm_of(speech(HELLO))
