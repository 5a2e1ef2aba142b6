"""The server's own doings: how it begins, how it drains, and which connections it gives up."""

import asyncio
import signal
import socket
from contextlib import suppress

import pytest

from firstword.app.http.app import DrainingServer, server_config
from tests.support.grpc_serving import until
from tests.support.serving import PATIENCE_S, build_app, draining_server, make_services

pytestmark = pytest.mark.anyio


async def test_a_signal_drains_and_then_ends_the_server() -> None:
    drained = []

    async def drain() -> None:
        drained.append(True)

    async with draining_server(drain) as (server, _, running), asyncio.timeout(PATIENCE_S):
        server.handle_exit(signal.SIGTERM, None)
        await running
    assert drained == [True]


async def test_a_drain_that_fails_ends_the_server_too() -> None:
    async def drain() -> None:
        raise RuntimeError("cannot drain")

    async with draining_server(drain) as (server, _, running), asyncio.timeout(PATIENCE_S):
        server.handle_exit(signal.SIGTERM, None)
        await running
        assert server._draining is not None
        with pytest.raises(RuntimeError, match="cannot drain"):
            await server._draining


async def test_a_signal_at_the_moment_of_the_start_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    drained = asyncio.Event()

    async def drain() -> None:
        drained.set()

    async def started(server: DrainingServer, sockets: list[socket.socket] | None = None) -> None:
        server.started = True
        server.servers = []
        server.handle_exit(signal.SIGTERM, None)
        raise InterruptedError

    monkeypatch.setattr("uvicorn.Server.startup", started)
    config = server_config(build_app(make_services()), "127.0.0.1", 0, 1024)
    server = DrainingServer(config, drain, on_listening=lambda port: None)
    with suppress(InterruptedError):
        await server.startup()
    async with asyncio.timeout(PATIENCE_S):
        await drained.wait()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has the option")
async def test_every_connection_is_given_up_when_its_other_side_takes_nothing_for_long() -> None:
    async with draining_server(unread_timeout_s=7.5) as (server, port, _), asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        [connection] = server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")  # type: ignore[union-attr]
        timeout_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        writer.close()
    assert timeout_ms == 7500


@pytest.mark.parametrize("path", ["/tts", "/v1/audio/batches"])
async def test_a_half_body_at_the_end_is_no_error_of_ours(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with draining_server() as (server, port, running), asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        await until(lambda: bool(server.server_state.tasks))
        server.handle_exit(signal.SIGTERM, None)
        await running
        answer = await reader.read()
        writer.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"draining"' in answer
