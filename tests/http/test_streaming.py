"""What a listener does at the other end of a real socket: leaves, stalls, hears a stream break off."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from firstword.app.core.interface import EngineStatus
from firstword.app.errors import SynthesisFailed
from tests.support.fake_engine import FakeEngine, FakeStream
from tests.support.serving import LIMITS, PATIENCE_S, counted, error_of, make_services, serving

pytestmark = pytest.mark.anyio

LONG = "This text is long enough that nobody hears its end. " * 20
LARGE_CHUNK_SAMPLES = 240_000  # 480 KB, more than a socket's buffers take


class RawListener:
    """A client that reads only what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def post(self, path: str, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def chunk(self) -> bytes:
        """One chunk of a chunked body; empty: its end. Raises IncompleteReadError where it is cut off."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> None:
        """Reads to the body's end; raises as `chunk` does."""
        while await self.chunk():
            pass


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[RawListener]:
    """Reads at most a few KB ahead; on leaving, the socket is reset."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    reader, writer = await asyncio.open_connection(host, port, limit=4096)
    try:
        yield RawListener(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_listener_who_hears_all_of_it_has_not_left(is_streamed: bool) -> None:
    services = make_services()
    async with serving(services) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        answer = await client.post("/tts", json={"text": "Hello.", "stream": is_streamed})
        assert answer.status_code == 200
    assert counted(services, "tts_requests_total", protocol="http", outcome="ok") == 1
    assert counted(services, "tts_cancelled_total", reason="disconnect") == 0


@pytest.mark.parametrize("path", ["/tts", "/v1/audio/speech"])
async def test_a_hundred_listeners_who_leave_free_a_hundred_streams(path: str) -> None:
    engine = FakeEngine()
    services = make_services(engine)
    body: dict[str, object] = {"text": LONG, "format": "pcm"}
    if path != "/tts":
        body = {"input": LONG, "response_format": "pcm"}
    async with serving(services) as url, asyncio.timeout(PATIENCE_S):
        for _ in range(100):
            async with listening(url) as listener:
                await listener.post(path, body)
                assert b"200 OK" in await listener.head()
                await listener.chunk()
            await engine.streams[-1].closed.wait()
    wire = engine.streams[0].request.wire
    assert len(engine.streams) == 100
    assert not engine.open_streams
    assert [stream.cancels for stream in engine.streams] == [["disconnect"]] * 100
    assert counted(services, "tts_cancelled_total", reason="disconnect") == 100
    assert counted(services, "tts_requests_total", protocol=wire, outcome="cancelled") == 100
    assert counted(services, "tts_requests_in_flight") == 0


@pytest.mark.parametrize("num_requests", [1, 2])
async def test_a_listener_who_leaves_while_the_socket_is_full_frees_the_stream(num_requests: int) -> None:
    engine = FakeEngine(samples_per_character=LARGE_CHUNK_SAMPLES)
    async with serving(make_services(engine)) as url, asyncio.timeout(PATIENCE_S):
        async with listening(url) as listener:
            for _ in range(num_requests):  # the second waits behind the first
                await listener.post("/tts", {"text": LONG, "format": "pcm"})
            await listener.head()
            (stream,) = engine.streams
            await stalled(stream)
        await stream.closed.wait()
    assert stream.cancels == ["disconnect"]
    assert stream.num_chunks < len(LONG)
    assert engine.streams == [stream]


def messages_of_level(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


async def test_a_listener_who_does_not_read_pauses_the_stream_and_is_dropped_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    engine = FakeEngine(samples_per_character=LARGE_CHUNK_SAMPLES)
    services = make_services(engine, limits=replace(LIMITS, slow_listener_timeout_s=0.2))
    async with serving(services) as url, asyncio.timeout(PATIENCE_S), listening(url) as listener:
        await listener.post("/tts", {"text": LONG, "format": "pcm"})
        await listener.head()
        (stream,) = engine.streams
        await stream.closed.wait()
        with pytest.raises(asyncio.IncompleteReadError):
            await listener.rest()
    assert stream.cancels == ["slow_listener"]
    assert stream.num_chunks < 50  # of more than a thousand
    assert counted(services, "tts_cancelled_total", reason="slow_listener") == 1
    assert messages_of_level(caplog, logging.WARNING) == []
    assert "a stream was cut off: a write took longer than 0.2 s" in messages_of_level(caplog, logging.INFO)
    assert counted(services, "tts_requests_total", protocol="http", outcome="failed") == 0


async def test_a_slow_listener_slows_nobody_else() -> None:
    engine = FakeEngine(samples_per_character=LARGE_CHUNK_SAMPLES)
    async with serving(make_services(engine)) as url, asyncio.timeout(PATIENCE_S):  # noqa: SIM117  in time
        async with listening(url) as listener, httpx.AsyncClient(base_url=url) as other:
            await listener.post("/tts", {"text": LONG, "format": "pcm"})
            await engine.has_opened.wait()
            await stalled(engine.streams[0])
            answer = await other.post("/tts", json={"text": "Quick.", "format": "pcm"})
    assert len(answer.content) == len("Quick.") * LARGE_CHUNK_SAMPLES * 2


@pytest.mark.parametrize("failure", [SynthesisFailed("a batch failed"), RuntimeError("/secret/path")])
@pytest.mark.parametrize("format", ["pcm", "wav", "mp3"])
async def test_a_failure_after_the_first_audio_cuts_the_body_off(format: str, failure: Exception) -> None:
    engine = FakeEngine(failure=failure, fails_after_chunks=20)
    services = make_services(engine)
    async with serving(services) as url, asyncio.timeout(PATIENCE_S), listening(url) as listener:
        await listener.post("/tts", {"text": LONG, "format": format})
        assert b"200 OK" in await listener.head()
        assert await listener.chunk()
        with pytest.raises(asyncio.IncompleteReadError) as cut:
            await listener.rest()
    assert b"secret" not in cut.value.partial
    assert counted(services, "tts_requests_total", protocol="http", outcome="failed") == 1


async def test_a_stream_that_a_stopping_server_cannot_finish_is_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
    services = make_services(engine)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(services) as url,
        listening(url) as listener,
        httpx.AsyncClient(base_url=url) as late,
    ):
        await listener.post("/tts", {"text": LONG, "format": "pcm"})
        await listener.head()
        await listener.chunk()
        await engine.drain(timeout_s=0)
        refused = await late.post("/tts", json={"text": "Hi."})
        with pytest.raises(asyncio.IncompleteReadError):
            await listener.rest()
    assert (refused.status_code, error_of(refused)["code"]) == (503, "draining")
    assert refused.headers["retry-after"] == "1"
    assert counted(services, "tts_cancelled_total", reason="shutdown") == 1
    assert counted(services, "tts_rejected_total", reason="draining") == 1
    assert messages_of_level(caplog, logging.WARNING) == []
    [line] = [line for line in messages_of_level(caplog, logging.INFO) if "cut off" in line]
    assert "\n" not in line


async def test_audio_is_sent_as_it_is_made() -> None:
    pause = asyncio.Event()
    engine = FakeEngine(pause=pause, pauses_after_chunks=2)
    async with serving(make_services(engine)) as url, listening(url) as listener:
        async with asyncio.timeout(PATIENCE_S):
            await listener.post("/tts", {"text": "abc", "format": "pcm"})
            await listener.head()
            first, second = await listener.chunk(), await listener.chunk()
            assert len(first) == len(second) == 2400
            assert engine.streams[0].num_chunks == 2
            pause.set()
            assert len(await listener.chunk()) == 2400
            assert await listener.chunk() == b""


async def test_the_connection_serves_again_after_an_error_and_after_a_stream() -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url, httpx.AsyncClient(base_url=url) as client:
        statuses = []
        for text in ["Hi.", "", "Hi.", "…", "Hi."]:
            answer = await client.post("/tts", json={"text": text})
            statuses.append(answer.status_code)
            port = answer.extensions["network_stream"].get_extra_info("client_addr")
            statuses.append(port)
    assert statuses[::2] == [200, 400, 200, 200, 200]
    assert len(set(statuses[1::2])) == 1


class FullEngine(FakeEngine):
    """Whoever comes waits in a queue that never moves."""

    def __init__(self) -> None:
        super().__init__(status=EngineStatus(is_ready=False, reason="full"))
        self.has_queued = asyncio.Event()
        self.has_left = asyncio.Event()

    async def admit(self) -> None:
        self.has_queued.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.has_left.set()
        raise AssertionError("the queue moved")


async def stalled(stream: FakeStream) -> None:
    """Returns once the stream makes no more, though it could."""
    made = -1
    while made != stream.num_chunks:
        made = stream.num_chunks
        for _ in range(200):
            await asyncio.sleep(0)
