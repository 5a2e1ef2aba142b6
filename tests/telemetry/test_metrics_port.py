"""The port of the metrics alone, on a real socket."""

import asyncio
import logging
import sys
import threading
from contextlib import suppress

import httpx
import pytest

from firstword.app.http import connection_limits
from firstword.app.http.metrics_port import metrics_server
from firstword.app.http.protocols import HttpProtocol
from firstword.app.options import InvalidOptions
from tests.support.serving import PATIENCE_S, make_services

pytestmark = pytest.mark.anyio

NUM_HALF_REQUESTS = 100


async def test_it_shows_the_metrics_without_a_key_and_nothing_else() -> None:
    service = make_services(keys=["ann:secret"])
    async with metrics_server(0, "127.0.0.1", service) as port, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{port}"
        shown = await client.get(f"{url}/metrics")
        others = [(await client.get(url + path)).status_code for path in ("/", "/livez", "/openapi.json")]
        posted = await client.post(f"{url}/metrics", content=b"a" * 100_000)
    assert (shown.status_code, posted.status_code, others) == (200, 405, [404, 404, 404])
    assert shown.headers["content-type"].startswith("text/plain")
    assert "tts_requests_total" in shown.text


async def test_half_requests_get_no_thread_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEAD_TIMEOUT_S", 1.5)
    async with metrics_server(0, "127.0.0.1", make_services()) as port:
        num_threads = threading.active_count()
        opened = []
        for _ in range(NUM_HALF_REQUESTS):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(b"GET /metrics HTTP/1.1\r\nHost: ")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/metrics")).status_code == 200
        assert threading.active_count() <= num_threads + 1  # the one that writes the metrics
        async with asyncio.timeout(PATIENCE_S):
            for reader, writer in opened:
                with suppress(ConnectionError):
                    assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()


async def test_an_endless_head_is_refused() -> None:
    async with metrics_server(0, "127.0.0.1", make_services()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: "
        writer.write(head + b"a" * connection_limits.MAX_HEAD_BYTES)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_what_is_being_answered_ends_with_the_server() -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with metrics_server(0, "127.0.0.1", make_services()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readline()
        assert (await reader.read()).endswith(b"\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop, of which a write may raise")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_who_leaves_with_scrapes_sent_ahead_leaves_no_error_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = make_services()
    loop, began, is_lost = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    answers = iter((b"first 1\n", b"second 1\n"))

    def write(accept: str) -> tuple[bytes, str]:
        answer = next(answers)
        if answer.startswith(b"second"):
            loop.call_soon_threadsafe(began.set)
            assert is_lost.wait(PATIENCE_S)
        return answer, "text/plain"

    def lose(protocol: HttpProtocol, exc: Exception | None) -> None:
        connection_lost(protocol, exc)
        is_lost.set()

    connection_lost = HttpProtocol.connection_lost
    monkeypatch.setattr(HttpProtocol, "connection_lost", lose)
    monkeypatch.setattr(service.metrics, "exposition", write)
    async with asyncio.timeout(PATIENCE_S), metrics_server(0, "127.0.0.1", service) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(3 * b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await began.wait()
        writer.close()
        await writer.wait_closed()
    assert is_lost.is_set()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_port_that_is_taken_is_refused_in_words() -> None:
    service = make_services()
    async with metrics_server(0, "127.0.0.1", service) as port:
        with pytest.raises(InvalidOptions, match="FIRSTWORD_METRICS_PORT"):
            async with metrics_server(port, "127.0.0.1", service):
                pass
