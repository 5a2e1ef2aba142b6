"""Where the parts of the service meet: settings in, a server that speaks out."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from firstword.app.audio.watermark import Watermark
from firstword.app.clients import ANYBODY
from firstword.app.core.interface import Engine, Stages
from firstword.app.http.app import DrainingServer, build_app, raise_file_limit, server_config
from firstword.app.http.auth import Authenticator
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.limits import Quotas
from firstword.app.http.service import Clock, Service
from firstword.app.http.surface import Surface
from firstword.app.options import StartOptions
from firstword.app.provenance import open_provenance
from firstword.app.server_options import Limits, ServerOptions
from firstword.app.settings import InvalidSettings, Settings
from firstword.app.speakers.interface import Speakers
from firstword.app.surfaces import conversion, cosyvoice, provenance, speakers, text, tokens, tts
from firstword.app.surfaces.batches.surface import BatchSurface
from firstword.app.surfaces.console import pages as console
from firstword.app.surfaces.inference.surface import InferenceSurface
from firstword.app.surfaces.openai.options import MAX_DESCRIBED
from firstword.app.surfaces.openai.surface import OpenAISurface
from firstword.app.surfaces.operations import OperationsSurface
from firstword.app.surfaces.websocket import session as websocket
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.tracing import NO_TRACING, OpenTelemetryTracing, Tracing
from firstword.app.telemetry.usage import Usage

if TYPE_CHECKING:
    from firstword.app.engine.loading import NetworksLoading
    from firstword.app.engine.startup import RunningEngine
    from firstword.app.postgresql import Postgres  # psycopg is an extra

logger = logging.getLogger(__name__)

USAGE_FILE = "usage.sqlite3"
LOCK_FILE = "server.lock"
BATCH_DIRECTORY = "batches"


def surfaces_of(settings: Settings, postgres: "Postgres | None" = None) -> list[Surface]:
    """Return all surfaces of the service: the one place where they are listed."""
    server = settings.server
    surfaces: list[Surface] = [
        tts.surface,
        text.surface,
        OpenAISurface(settings.surfaces.openai, settings.speakers.data_dir, postgres),
        conversion.surface,
        cosyvoice.surface,
        provenance.surface,
        tokens.surface,
        speakers.surface,
        OperationsSurface(server.metrics_port, server.host),
        websocket.surface,
        console.surface,
        InferenceSurface(),
        BatchSurface(settings.surfaces.batch, settings.speakers.data_dir / BATCH_DIRECTORY, postgres),
    ]
    if settings.surfaces.grpc.port is not None:
        from firstword.app.surfaces.grpc.surface import GrpcSurface  # grpcio is an extra

        surfaces.append(GrpcSurface(settings.surfaces.grpc, server.host, surfaces))
    return surfaces


@asynccontextmanager
async def shared_store(settings: Settings) -> AsyncIterator["Postgres | None"]:
    """Open the database of FIRSTWORD_STORE; None: there is none. Raise InvalidSettings and DatabaseError."""
    if settings.speakers.store is None:
        yield None
        return
    try:
        from firstword.app.postgresql import Postgres
    except ImportError as error:
        raise InvalidSettings(
            f"FIRSTWORD_STORE needs psycopg ({error}): pip install 'firstword[postgresql]'"
        ) from None
    postgres = await asyncio.to_thread(Postgres, settings.speakers.store.get_secret_value())
    try:
        yield postgres
    finally:
        await asyncio.to_thread(postgres.close)


@asynccontextmanager
async def own_directory(directory: Path | None, patience_s: float) -> AsyncIterator[None]:
    """Keep other servers from the data directory; one that is stopping is waited for.

    directory: None where servers share a database. Raise InvalidSettings.
    """
    if directory is None:
        yield
        return
    lock = FileLock(directory / LOCK_FILE, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        logger.info("waiting for another server to leave %s", directory)
        try:
            await asyncio.to_thread(lock.acquire, timeout=patience_s)
        except Timeout:
            raise InvalidSettings(
                f"another server uses the data directory {directory}; stop it, give this one another "
                "FIRSTWORD_DATA_DIR, or let both share a PostgreSQL (FIRSTWORD_STORE, docs/scale-out.md)"
            ) from None
    try:
        yield
    finally:
        lock.release()


class EngineParts(Protocol):
    """What the service needs of an engine, wherever that runs."""

    @property
    def engine(self) -> Engine: ...

    @property
    def speakers(self) -> Speakers: ...

    @property
    def stages(self) -> Stages: ...


EngineOpening = Callable[
    [Metrics, "Postgres | None", Watermark | None], AbstractAsyncContextManager[EngineParts]
]
"""Opens an engine by the store that servers share (None: files) and the mark laid into all that is spoken."""


@asynccontextmanager
async def own_engine(
    settings: Settings,
    loading: "NetworksLoading | None",
    metrics: Metrics,
    postgres: "Postgres | None",
    watermark: Watermark | None,
) -> AsyncIterator["RunningEngine"]:
    """Run the engine in this process. Raise what `running_engine` raises.

    loading: the networks' future, if loading has begun. The others are those of an `EngineOpening`.
    """
    from firstword.app.engine.startup import running_engine  # torch, which surfaces do without

    open_store = None
    if postgres is not None:
        from firstword.app.speakers.shared_store import SharedSpeakerStore

        open_store = partial(SharedSpeakerStore, postgres)
    async with running_engine(
        StartOptions(
            settings.networks,
            settings.engine,
            settings.speakers,
            settings.lm_engines,
            settings.work,
            watermark,
        ),
        metrics,
        loading=loading,
        open_store=open_store,
    ) as parts:
        known, _ = await asyncio.to_thread(parts.speakers.page, ANYBODY, None, MAX_DESCRIBED)
        default_speaker = parts.engine.info.default_speaker
        parts.speakers.aliases = settings.surfaces.openai.speakers_of_voices(default_speaker, known)
        yield parts


@asynccontextmanager
async def running(
    settings: Settings,
    loading: "NetworksLoading | None" = None,
    postgres: "Postgres | None" = None,
    opening: EngineOpening | None = None,
) -> AsyncIterator[Service]:
    """Run the service without its surfaces: loaded, warmed up and ready; closed at the end.

    loading: the networks' future, if loading has begun. postgres: the store that servers share; None: files.
    opening: opens the engine; None: one in this process. Raise InvalidSettings, and what `opening` raises.
    """
    try:
        keys = KeyRing(settings.server.plain_keys, settings.server.api_keys_file)
    except ValueError as error:
        raise InvalidSettings(f"API keys: {error}") from error
    metrics, clock = Metrics(), time.perf_counter
    usage_file = settings.speakers.data_dir / USAGE_FILE
    usage_store = usage_file if postgres is None else postgres.database("usage")
    marks = await asyncio.to_thread(
        open_provenance, settings.provenance, settings.speakers.data_dir, settings.server.tag_audio
    )
    async with (
        open_tracing(settings.log.tracing) as tracing,
        (opening or partial(own_engine, settings, loading))(metrics, postgres, marks.watermark) as parts,
        Usage(usage_store, metrics) as usage,
        open_quotas(settings.limits, clock, postgres) as quotas,
    ):
        yield Service(
            engine=parts.engine,
            speakers=parts.speakers,
            stages=parts.stages,
            auth=Authenticator(keys, UrlSigner(usage.secret, keys), settings.server.public_lists),
            limits=settings.limits,
            quotas=quotas,
            usage=usage,
            metrics=metrics,
            clock=clock,
            tracing=tracing,
            provenance=marks,
        )


@asynccontextmanager
async def open_quotas(limits: Limits, clock: Clock, postgres: "Postgres | None") -> AsyncIterator[Quotas]:
    if postgres is None:
        yield Quotas(limits, clock)
        return
    from firstword.app.http.shared_quotas import SharedQuotas

    quotas = SharedQuotas(limits, clock, postgres)
    async with quotas.running():
        yield quotas


@asynccontextmanager
async def open_tracing(kind: str) -> AsyncIterator[Tracing]:
    """kind: "off" or "otlp". Raises InvalidSettings where OpenTelemetry is not installed."""
    if kind == "off":
        yield NO_TRACING
        return
    try:
        tracing = OpenTelemetryTracing()
    except ImportError as error:
        raise InvalidSettings(
            f"FIRSTWORD_TRACING is {kind}, which needs OpenTelemetry ({error}): pip install 'firstword[otel]'"
        ) from None
    try:
        yield tracing
    finally:
        await asyncio.to_thread(tracing.close)


async def serve(
    settings: Settings,
    announce: Callable[[str], None],
    on_drained: Callable[[], None],
    loading: "NetworksLoading | None" = None,
    opening: EngineOpening | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, then let the streams finish; a second signal ends at once.

    announce: called with one line for each server once it listens: where it does, and what it speaks with.
    on_drained: called when all streams have ended; what is left is to close everything.
    loading: the networks' future, if loading has begun. opening: as `running` takes it.
    """
    server_options, limits, data_dir = settings.server, settings.limits, settings.speakers.data_dir

    async def drain() -> None:
        for surface in surfaces:
            await surface.drain()
        await service.engine.drain(server_options.drain_timeout_s)
        on_drained()

    raise_file_limit()
    async with (
        shared_store(settings) as postgres,
        own_directory(data_dir if postgres is None else None, server_options.drain_timeout_s),
        running(settings, loading, postgres, opening) as service,
    ):
        surfaces = surfaces_of(settings, postgres)
        app = build_app(
            service,
            surfaces,
            cors_origins=server_options.cors_origins,
            allowed_hosts=server_options.checked_hosts,
        )
        max_message_bytes = max(limits.max_message_bytes, limits.max_reference_bytes)
        config = server_config(app, server_options.host, server_options.port, max_message_bytes)
        server = DrainingServer(
            config,
            drain=drain,
            unread_timeout_s=limits.slow_listener_timeout_s,
            on_listening=lambda port: announce(_greeting(server_options.host, port, service)),
        )
        warn_of_open_door(server_options, service.auth.keys)
        async with surfaces_running(surfaces, service):
            for address in filter(None, (surface.address() for surface in surfaces)):
                announce(address)
            await server.serve()


def warn_of_open_door(options: ServerOptions, keys: KeyRing) -> None:
    """Log that everybody may use the server, where others than this machine may reach it."""
    if keys.is_open and not options.is_loopback:
        logger.warning(
            "no keys are set and the server listens on %s: everybody who reaches it may use it, and register "
            "and delete speakers; set FIRSTWORD_API_KEYS, or FIRSTWORD_HOST=127.0.0.1",
            options.host,
        )


@asynccontextmanager
async def surfaces_running(surfaces: Sequence[Surface], service: Service) -> AsyncIterator[None]:
    """Run what each surface has of its own."""
    async with AsyncExitStack() as stack:
        for surface in surfaces:
            await stack.enter_async_context(surface.running(service))
        yield


def _greeting(host: str, port: int, service: Service) -> str:
    info = service.engine.info
    host = "127.0.0.1" if host == "0.0.0.0" else host
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    key = "" if service.auth.keys.is_open else " -H 'Authorization: Bearer YOUR_KEY'"
    return (
        f"{address} speaks with {info.checkpoint}. Open it in a browser, or hear it: "
        f"curl{key} '{address}/tts?text=Hello,+world.&stream=false' -o hello.wav"
    )
