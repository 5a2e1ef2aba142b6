"""Bytes that are no message: framing, unread rests, control frames; on real sockets."""

import asyncio
import json
import logging
import struct
from contextlib import suppress

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from firstword.app.http import connection_limits
from tests.http.test_protocols import UPGRADE, answer_to, connected, write_forever
from tests.support.serving import HELLO, PATIENCE_S, make_services, serving
from tests.support.ws_client import connect_client, ws_client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CHUNKED = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
PING = b"\x89\x80\x00\x00\x00\x00"
PONG = b"\x8a\x80\x00\x00\x00\x00"
EMPTY_FRAGMENT = b"\x00\x80\x00\x00\x00\x00"
FIRST_FRAGMENT = b"\x01\x80\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("start", "unit", "status"),
    [
        (b"0\r\n", b"a" * 1000, 400),
        (b"0\r\na: ", b"a" * 1000, 400),
        (b"0\r\n", b"a: b\r\n" * 100, 431),
        (b"1;", b"a" * 1000, 400),
        (b"", b"0" * 1000, 400),
    ],
    ids=["trailer-name", "trailer-value", "trailers", "extension", "zeros"],
)
async def test_framing_without_end_is_refused(start: bytes, unit: bytes, status: int) -> None:
    async with serving(make_services()) as url, connected(url) as streams:
        got, headers, _ = await answer_to(streams, CHUNKED + start, *[unit] * 160)
    assert got == status
    assert headers["connection"] == "close"


async def test_a_request_that_is_answered_gets_no_second_answer() -> None:
    async with serving(make_services(keys=["alice:secret"])) as url, connected(url) as (reader, writer):
        writer.write(CHUNKED)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 401 ")
        writer.write(b"no size\r\n")
        with suppress(ConnectionError):
            assert b"HTTP/1.1" not in await reader.read()


async def test_framing_without_end_is_not_read_on() -> None:
    async with serving(make_services()) as url, connected(url) as (_, writer):
        writer.write(CHUNKED + b"0\r\na: ")
        with pytest.raises(ConnectionError):
            await write_forever(writer, b"a" * 100_000)


async def test_a_body_of_small_chunks_and_a_trailer_is_served() -> None:
    body = json.dumps({"text": HELLO}).encode()
    chunks = b"".join(b"1;x=y\r\n" + body[i : i + 1] + b"\r\n" for i in range(len(body)))
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n")
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(head + chunks + b"0\r\nDigest: none\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_of_an_answered_request_only_a_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "LINGER_S", 0.2)
    head = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    async with serving(make_services(keys=["alice:secret"])) as url, connected(url) as (reader, writer):
        writer.write(head)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(ConnectionError):
            await write_forever(writer, b"a" * 100_000)


async def test_after_the_rest_of_a_request_the_connection_goes_on() -> None:
    head = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    async with serving(make_services(keys=["alice:secret"])) as url, connected(url) as (reader, writer):
        writer.write(head)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.write(b"a" * 100_000 + GET + b"\r\n")
        assert b"HTTP/1.1 200 " in await reader.readuntil(b"200 ")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (CHUNKED + b"no size\r\n", 400, "invalid_request"),
        (CHUNKED + b"1\r\nab\r\n", 400, "invalid_request"),
        (CHUNKED + b"1\r\na0\r\n", 400, "invalid_request"),
        (CHUNKED.replace(b"chunked", b"gzip, chunked"), 501, "unsupported_transfer_coding"),
        (CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "invalid_request"),
        (GET + b"Expect: banana\r\n\r\n", 417, "expectation_failed"),
        (UPGRADE.replace(b"Version: 13", b"Version: 8") + b"\r\n", 426, "upgrade_required"),
        (UPGRADE.replace(b"ZQ==", b"") + b"\r\n", 400, "invalid_request"),
    ],
    ids=["size", "long", "joined", "gzip", "1.0", "expect", "version", "key"],
)
async def test_what_http_does_not_allow_is_answered(sent: bytes, status: int, code: str) -> None:
    async with serving(make_services()) as url, connected(url) as streams:
        got, headers, error = await answer_to(streams, sent)
    assert (got, error["code"]) == (status, code)
    assert headers["connection"] == "close"
    if status == 426:
        assert headers["sec-websocket-version"] == "13"


async def test_an_upgrade_of_http_1_0_is_ignored() -> None:
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 426 ")


@pytest.mark.parametrize("frame", [PING, PONG, EMPTY_FRAGMENT], ids=["ping", "pong", "fragment"])
async def test_frames_that_carry_nothing_close_the_socket_and_starve_nobody(
    frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(make_services()) as url, connected(url) as (reader, writer):
        writer.write(UPGRADE + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FIRST_FRAGMENT)
        flood = asyncio.create_task(write_forever(writer, frame * 100_000))
        async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(PATIENCE_S):
            assert (await client.get("/livez")).status_code == 200
        with pytest.raises(ConnectionError):
            await flood
        received = b""
        with suppress(ConnectionError):
            received = await reader.read(-1)
    # A close with 1008, unless the system dropped what was sent with the connection.
    assert not received or (b"\x88" in received and struct.pack("!H", 1008) in received)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_burst_of_pings_below_the_limit_is_answered() -> None:
    async with ws_client(make_services()) as client, asyncio.timeout(PATIENCE_S):
        for _ in range(connection_limits.FRAME_BURST - 10):
            await client.socket.ping()
        await client.still_answers()


def test_a_ping_a_second_never_meets_the_limit() -> None:
    budget = connection_limits.frame_budget(0.0)
    assert all(budget.take(float(second)) == 0.0 for second in range(24 * 3600))


async def test_a_long_message_goes_through_in_slices() -> None:
    text = "word " * 700
    async with serving(make_services()) as url, connect_client(url) as client:
        await client.socket.send(json.dumps({"type": "nothing", "text": text * 10}))
        assert (await client.receive_error())["error"]["code"] == "invalid_request"
        await client.send_turn(text)
        assert (await client.receive_until("done"))[-1]["type"] == "done"


async def test_text_that_is_not_utf_8_closes_with_1007(caplog: pytest.LogCaptureFixture) -> None:
    async with ws_client(make_services()) as client:
        with suppress(ConnectionClosed):
            await client.socket.send(b"\xff\xfe", text=True)
        assert await client.closed_with() == 1007
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_fragment_that_passes_the_limit_closes_with_1009() -> None:
    services = make_services()
    limit = services.limits.max_message_bytes
    async with ws_client(services) as client:
        parts = ["x" * (limit // 2), "x" * (limit // 2), "x" * 1000]
        max_bytes = max(services.limits.max_message_bytes, services.limits.max_reference_bytes)
        parts += ["x" * limit] * (max_bytes // limit + 1)
        with suppress(ConnectionClosed):
            await client.socket.send(parts)
        assert await client.closed_with() == 1009
