"""The transport over fakes, called in-process or through a real server on a real socket."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from firstword.app.database import Database
from firstword.app.http.app import DrainingServer, build_app, server_config
from firstword.app.http.dependencies import Clock, Services
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.limits import Quotas
from firstword.app.http.schemas import ErrorAnswer
from firstword.app.options import Limits
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.store_file import SPEAKERS
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.store import BatchStore
from firstword.app.surfaces.inference.inference import Inference
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import Usage
from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.fake_stages import FakeStages

VOICES = {"alloy": "hum", "nova": "anna"}
MODEL_ID = "firstword-test"
HELLO = "Hello, you."
PATIENCE_S = 20  # a test that waits longer has failed
LIMITS = Limits()


def make_services(
    engine: FakeEngine | None = None,
    speakers: FakeSpeakers | None = None,
    keys: Sequence[str] | KeyRing = (),
    limits: Limits = LIMITS,
    clock: Clock = time.perf_counter,
    accepts_any_model: bool = True,
    tags_audio: bool = False,
    stages: FakeStages | None = None,
    usage: Usage | None = None,
    now: Callable[[], float] = time.time,
    batches: Batches | None = None,
) -> Services:
    """usage: one that is entered, where what it has written is to be read."""
    key_ring = keys if isinstance(keys, KeyRing) else KeyRing(keys)
    metrics = Metrics() if usage is None else usage.metrics
    return Services(
        engine=engine or FakeEngine(),
        speakers=speakers or FakeSpeakers(),
        consents=ConsentStore(Database(None, SPEAKERS)),
        batches=batches or Batches(BatchStore(None, 1 << 20)),
        stages=stages or FakeStages(),
        metrics=metrics,
        keys=key_ring,
        signer=UrlSigner(b"secret of the test", key_ring, now),
        usage=usage or Usage(Path("never written"), metrics),
        limits=limits,
        quotas=Quotas(limits, clock),
        model_id=MODEL_ID,
        voices=VOICES,
        accepts_any_model=accepts_any_model,
        clock=clock,
        tags_audio=tags_audio,
    )


def in_process(services: Services, **options: Any) -> httpx.AsyncClient:
    """A client without a socket: answers come whole. options: of `build_app`."""
    transport = httpx.ASGITransport(build_app(services, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


class AttentiveServer(uvicorn.Server):
    """Ends at once where uvicorn looks ten times a second."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not await self.on_tick(1):  # noqa: ASYNC110  should_exit is no event
            await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(
    services: Services,
    allowed_hosts: Sequence[str] | None = None,
    metrics_on_main_port: bool = True,
    inference: Inference | None = None,
) -> AsyncIterator[str]:
    """A real server in this event loop; gives its base URL. On leaving, all its requests have ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # The socket listens from here on: a client that is early waits in its backlog.
        host, port = listening.getsockname()
        limits = services.limits
        max_message_bytes = max(limits.max_message_bytes, limits.max_reference_bytes)
        app = build_app(
            services,
            allowed_hosts=allowed_hosts,
            metrics_on_main_port=metrics_on_main_port,
            inference=inference,
        )
        config = server_config(app, host, port, max_message_bytes)
        server = AttentiveServer(config)
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            await running


async def nothing() -> None:
    pass


@asynccontextmanager
async def draining_server(
    drain: Callable[[], Awaitable[None]] = nothing, unread_timeout_s: float | None = None
) -> AsyncIterator[tuple[DrainingServer, int, asyncio.Task[None]]]:
    """A server that listens, its port, and the task that runs it."""
    config = server_config(build_app(make_services()), "127.0.0.1", 0, 1024)
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = DrainingServer(config, drain, listening.set_result, unread_timeout_s)
    running = asyncio.create_task(server._serve())  # `serve` would take over the signals of the test
    try:
        yield server, await listening, running
    finally:
        server.should_exit = True
        await running


def counted(services: Services, family: str, **labels: str) -> float:
    """A sample of the metrics, by its full name."""
    value = services.metrics.registry.get_sample_value(family, labels)
    assert value is not None, f"no series {family} {labels}"
    return value


def error_of(answer: httpx.Response) -> dict[str, str | None]:
    """What an answer says went wrong: the four keys that OpenAI's clients expect, and no others."""
    content = answer.json()
    ErrorAnswer.model_validate(content)
    assert list(content) == ["error"]
    error: dict[str, str | None] = content["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error
