"""Connections that send no request, half of one or far too much, on real sockets."""

import asyncio
import json
import logging
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from firstword.app.http import connection_limits
from tests.support.fake_engine import FakeEngine
from tests.support.serving import HELLO, PATIENCE_S, draining_server, make_services, serving, serving_app
from tests.support.ws_client import ws_client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
UPGRADE = (
    b"GET /tts/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answer_to(streams: Streams, *parts: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and error of the answer, after which the server has closed the connection."""
    reader, writer = streams
    for part in parts:
        writer.write(part)
        await writer.drain()
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body)["error"]


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"a" * 70_000, 431, "headers_too_large"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\na: " + b"b" * 70_000, 431, "headers_too_large"),
        (b"GET /livez HTTP/1.1\r\n" + b"a:b\r\n" * 201 + b"\r\n", 431, "headers_too_large"),
        (b"POST /tts HTTP/1.1\r\nContent-Type: a" + b";" * 2000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET /" + b"a" * 70_000, 414, "url_too_long"),
        (b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n", 400, "invalid_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "invalid_request"),
        (UPGRADE + b"Content-Length: 5\r\n\r\nHello", 400, "invalid_request"),
        (UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "invalid_request"),
        (UPGRADE + b"X: " + b"x" * 10_000 + b"\r\n\r\n", 400, "invalid_request"),
    ],
    ids=["name", "value", "lines", "parameters", "url", "version", "tls", "length", "chunked", "long"],
)
async def test_a_head_that_cannot_be_served_is_answered_at_once(head: bytes, status: int, code: str) -> None:
    async with serving(make_services()) as url, connected(url) as streams:
        got, headers, error = await answer_to(streams, head)
    assert (got, error["code"]) == (status, code)
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-request-id"]
    assert headers["connection"] == "close"


@pytest.mark.parametrize("num_requests", [1, 2])
async def test_an_upgrade_behind_a_running_stream_ends_both(num_requests: int) -> None:
    """A WebSocket there would have the answer between its frames, and the stream no client."""
    body = json.dumps({"text": HELLO, "format": "pcm"}).encode()
    head = b"POST /tts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
    async with serving(make_services(engine)) as url, connected(url) as (reader, writer):
        for _ in range(num_requests):  # the second waits behind the first
            writer.write(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(UPGRADE + b"\r\n")
        with suppress(ConnectionError):
            assert b"HTTP/1.1" not in await reader.read()
        await engine.streams[0].closed.wait()
    assert [stream.cancels for stream in engine.streams] == [["disconnect"]]


async def test_an_upgrade_behind_an_answer_that_is_whole_waits_for_its_application() -> None:
    """Of a HEAD the client has all with the headers, before the application has sent its body."""
    may_end = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await may_end.wait()
            await send({"type": "http.response.body", "body": b"ok"})

    async with serving_app(app) as url, connected(url) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(UPGRADE + b"\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        may_end.set()
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 101 ")


async def write_forever(writer: asyncio.StreamWriter, data: bytes) -> None:
    while True:
        writer.write(data)
        await writer.drain()


@pytest.mark.parametrize("unit", [b"a", b"a:b\r\n"])
async def test_a_head_without_end_is_not_read_on(unit: bytes) -> None:
    async with serving(make_services()) as url, connected(url) as (_, writer):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        with pytest.raises(ConnectionError):
            await write_forever(writer, unit * 100_000)


async def test_a_large_head_within_the_limits_is_served() -> None:
    async with serving(make_services()) as url, httpx.AsyncClient(base_url=url) as client:
        headers = [(f"X-{number}", "x" * 300) for number in range(150)]
        for _ in range(2):  # on one connection
            assert (await client.get("/livez", headers=headers)).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"\r\n\r\n"])
async def test_a_head_may_take_only_so_long(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEAD_TIMEOUT_S", 0.1)
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(sent)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 " if sent else b"")
    assert bool(answer) == bool(sent)


async def test_a_later_head_on_a_connection_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEAD_TIMEOUT_S", 0.1)
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /livez HTTP/1.1\r\n")
        assert b"HTTP/1.1 408 " in await reader.read()


async def test_a_body_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEAD_TIMEOUT_S", 0.05)
    body = json.dumps({"text": HELLO}).encode()
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(
            b"POST /tts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
        )
        await asyncio.to_thread(time.sleep, 0.2)
        writer.write(body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_silent_connections_give_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.http.app.max_waiting", lambda: 5)
    async with serving(make_services()) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        silent = [await asyncio.open_connection(host, port) for _ in range(20)]
        async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(PATIENCE_S):
            assert (await client.get("/livez")).status_code == 200
            for reader, _ in silent[:15]:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            assert (await client.get("/livez")).status_code == 200
        for _, writer in silent:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize(
    "head", [UPGRADE + b"Content-Length: 5\r\n\r\n", UPGRADE, b"GET / HTTP/1.1\r\n", b""]
)
async def test_the_server_ends_whatever_is_open(head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with draining_server() as (server, port, running), connected(f"http://127.0.0.1:{port}") as streams:
        streams[1].write(head)
        await streams[1].drain()
        await asyncio.to_thread(time.sleep, 0.1)  # until the server has what was sent
        server.handle_exit(signal.SIGTERM, None)
        await running
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_refused_upgrade_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    head = UPGRADE.replace(b"/tts/stream", b"/nowhere")
    async with serving(make_services()) as url, connected(url) as streams:
        status, _, error = await answer_to(streams, head + b"\r\n")
    assert (status, error["code"]) == (404, "not_found")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("num_parts", [1, 4, 40])
async def test_a_message_that_is_too_large_closes_with_1009_however_it_is_cut(
    num_parts: int, caplog: pytest.LogCaptureFixture
) -> None:
    services = make_services()
    size = 20 * services.limits.max_message_bytes
    async with ws_client(services) as client:
        parts = ["x" * (size // num_parts)] * num_parts
        with suppress(ConnectionClosed):
            await client.socket.send(parts if num_parts > 1 else parts[0])
        assert await client.closed_with() == 1009
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
