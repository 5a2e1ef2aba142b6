"""The transport over fakes, called in-process or through a real server on a real socket."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from firstword.app.core.interface import Engine
from firstword.app.database import Database
from firstword.app.http import app as transport
from firstword.app.http.app import DrainingServer, server_config
from firstword.app.http.auth import Authenticator
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.limits import Quotas
from firstword.app.http.schemas import ErrorAnswer
from firstword.app.http.service import Clock, Service
from firstword.app.http.surface import Surface
from firstword.app.provenance import NO_MARKS, Provenance
from firstword.app.server_options import Limits, ServerOptions
from firstword.app.service import surfaces_of
from firstword.app.settings import Settings, SurfaceOptions
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.store_file import SPEAKERS
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.store import BatchStore
from firstword.app.surfaces.batches.surface import BatchSurface
from firstword.app.surfaces.openai.options import OpenAIOptions
from firstword.app.surfaces.openai.surface import OpenAISurface
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import Usage
from tests.support.fake_engine import INFO, FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.fake_stages import FakeStages

VOICES = {"alloy": "hum", "nova": "anna"}
MODEL_ID = INFO.checkpoint
HELLO = "Hello, you."
PATIENCE_S = 20  # a test that waits longer has failed
LIMITS = Limits()


def make_services(
    engine: Engine | None = None,
    speakers: FakeSpeakers | None = None,
    keys: Sequence[str] | KeyRing = (),
    limits: Limits = LIMITS,
    clock: Clock = time.perf_counter,
    has_public_lists: bool = False,
    tags_audio: bool = False,
    stages: FakeStages | None = None,
    usage: Usage | None = None,
    now: Callable[[], float] = time.time,
    provenance: Provenance = NO_MARKS,
) -> Service:
    """usage: one that is entered, where what it has written is to be read."""
    key_ring = keys if isinstance(keys, KeyRing) else KeyRing(keys)
    metrics = Metrics() if usage is None else usage.metrics
    return Service(
        engine=engine or FakeEngine(),
        speakers=speakers or FakeSpeakers(),
        stages=stages or FakeStages(),
        metrics=metrics,
        auth=Authenticator(key_ring, UrlSigner(b"secret of the test", key_ring, now), has_public_lists),
        usage=usage or Usage(Path("never written"), metrics),
        limits=limits,
        quotas=Quotas(limits, clock),
        clock=clock,
        provenance=replace(provenance, tags_files=tags_audio or provenance.names_source),
    )


def make_surfaces(
    metrics_port: int | None = None,
    accepts_any_model: bool = True,
    batches: BatchStore | None = None,
    consents: ConsentStore | None = None,
) -> list[Surface]:
    """All that need no server of their own, as the service lists them. metrics_port: is not opened."""
    settings = Settings.model_construct(
        server=ServerOptions(metrics_port=metrics_port),
        surfaces=SurfaceOptions(openai=OpenAIOptions("any" if accepts_any_model else "list", VOICES)),
    )
    batch_surface = BatchSurface(BatchOptions(disk_mb=1), None)
    batch_surface.batches = Batches(batches or BatchStore(None, 1 << 20))
    surfaces = [batch_surface if isinstance(one, BatchSurface) else one for one in surfaces_of(settings)]
    for surface in surfaces:
        if isinstance(surface, OpenAISurface):
            surface.consents = consents or ConsentStore.of_file(Database(None, SPEAKERS))
    return surfaces


def build_app(service: Service, surfaces: Sequence[Surface] | None = None, **options: Any) -> FastAPI:
    """options: of the transport's own `build_app`. surfaces: None: all."""
    return transport.build_app(service, surfaces or make_surfaces(), **options)


def in_process(services: Service, **options: Any) -> httpx.AsyncClient:
    """A client without a socket: answers come whole. options: of `build_app`, `surfaces` among them."""
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
    services: Service,
    allowed_hosts: Sequence[str] | None = None,
    surfaces: Sequence[Surface] | None = None,
) -> AsyncIterator[str]:
    """A real server in this event loop; gives its base URL. On leaving, all its requests have ended."""
    limits = services.limits
    max_message_bytes = max(limits.max_message_bytes, limits.max_reference_bytes)
    app = build_app(services, surfaces, allowed_hosts=allowed_hosts)
    async with serving_app(app, max_message_bytes) as url:
        yield url


@asynccontextmanager
async def serving_app(app: ASGIApp, max_message_bytes: int = 1 << 20) -> AsyncIterator[str]:
    """The same of any application."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # The socket listens from here on: a client that is early waits in its backlog.
        host, port = listening.getsockname()
        server = AttentiveServer(server_config(app, host, port, max_message_bytes))
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


def counted(services: Service, family: str, **labels: str) -> float:
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
