"""Where the parts of the service meet: settings in, a server that speaks out."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from firstword.app.engine.loading import NetworksLoading
from firstword.app.engine.startup import StartOptions, running_engine
from firstword.app.http.app import DrainingServer, build_app, metrics_server, raise_file_limit, server_config
from firstword.app.http.dependencies import Services
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.limits import Quotas
from firstword.app.settings import InvalidSettings, Settings
from firstword.app.speakers.interface import max_bundle_bytes
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.runner import BatchRunner
from firstword.app.surfaces.batches.store import BatchStore
from firstword.app.surfaces.inference.inference import Inference
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.tracing import NO_TRACING, OpenTelemetryTracing, Tracing
from firstword.app.telemetry.usage import Usage

if TYPE_CHECKING:  # grpcio is an extra
    from firstword.app.surfaces.grpc.server import GrpcServer

USAGE_FILE = "usage.sqlite3"
BATCH_DIRECTORY = "batches"


@asynccontextmanager
async def running(settings: Settings, loading: NetworksLoading | None = None) -> AsyncIterator[Services]:
    """The whole service but its sockets: loaded, warmed up and ready; closed at the end.

    loading: of the networks, where it has begun. Raises InvalidSettings, and what `running_engine` raises.
    """
    try:
        keys = KeyRing(settings.server.plain_keys, settings.server.api_keys_file)
    except ValueError as error:
        raise InvalidSettings(f"API keys: {error}") from error
    metrics, clock = Metrics(), time.perf_counter
    async with (
        open_tracing(settings.log.tracing) as tracing,
        running_engine(
            StartOptions(settings.networks, settings.engine, settings.speakers, settings.lm_engines),
            metrics,
            clock=clock,
            max_bundle_bytes=max_bundle_bytes(settings.limits.max_upload_bytes),
            loading=loading,
        ) as running,
        Usage(settings.speakers.data_dir / USAGE_FILE, metrics) as usage,
        AsyncExitStack() as stack,
    ):
        directory = settings.speakers.data_dir / BATCH_DIRECTORY
        batches = await asyncio.to_thread(BatchStore, directory, settings.speakers.batch_disk_mb << 20)
        metrics.batch_items_waiting.set_function(lambda: float(batches.num_waiting))
        info = running.engine.info
        stack.callback(batches.close)
        voices = running.speakers.aliases = settings.server.voices(info.default_speaker)
        yield Services(
            engine=running.engine,
            speakers=running.speakers,
            consents=running.consents,
            batches=Batches(batches),
            stages=running.stages,
            metrics=metrics,
            keys=keys,
            signer=UrlSigner(usage.secret, keys),
            usage=usage,
            limits=settings.limits,
            quotas=Quotas(settings.limits, clock),
            model_id=info.checkpoint,
            voices=voices,
            accepts_any_model=settings.server.openai_models == "any",
            clock=clock,
            tags_audio=settings.server.tag_audio,
            tracing=tracing,
        )


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
    loading: NetworksLoading | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT, then lets the streams finish; a second signal ends at once.

    announce: called with one line, once the server listens: where it does, and with what it speaks.
    on_drained: called when all streams have ended; what is left is to close everything.
    loading: of the networks, where it has begun.
    """
    server_options, limits = settings.server, settings.limits

    async def drain() -> None:
        await runner.stop()
        if grpc is not None:
            await grpc.refuse()
        await services.engine.drain(server_options.drain_timeout_s)
        on_drained()

    grpc: GrpcServer | None = None
    raise_file_limit()
    async with running(settings, loading) as services:
        runner = BatchRunner(services)
        inference = Inference(services)
        app = build_app(
            services,
            inference=inference,
            cors_origins=server_options.cors_origins,
            allowed_hosts=server_options.checked_hosts,
            metrics_on_main_port=server_options.metrics_port is None,
            has_public_lists=server_options.public_lists,
        )
        max_message_bytes = max(limits.max_message_bytes, limits.max_reference_bytes)
        config = server_config(app, server_options.host, server_options.port, max_message_bytes)
        server = DrainingServer(
            config,
            drain=drain,
            unread_timeout_s=limits.slow_listener_timeout_s,
            on_listening=lambda port: announce(_greeting(server_options.host, port, services)),
        )
        async with AsyncExitStack() as stack:
            stack.callback(inference.close)
            await stack.enter_async_context(
                metrics_server(server_options.metrics_port, server_options.host, services.metrics)
            )
            if server_options.grpc_port is not None:
                from firstword.app.surfaces.grpc.server import grpc_server

                grpc, port = await stack.enter_async_context(grpc_server(server_options, inference))
                announce(f"gRPC is on {server_options.host}:{port}.")
            runner.start()
            stack.push_async_callback(runner.stop)
            await server.serve()


def _greeting(host: str, port: int, services: Services) -> str:
    info = services.engine.info
    host = "127.0.0.1" if host == "0.0.0.0" else host
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    key = "" if services.keys.is_open else " -H 'Authorization: Bearer YOUR_KEY'"
    return (
        f"{address} speaks with {info.checkpoint} ({info.backend}). Hear it: "
        f'curl{key} {address}/tts --json \'{{"text":"Hello, world."}}\' -o hello.wav'
    )
