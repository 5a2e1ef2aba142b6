"""Firstword on Ray Serve: engines as deployments, and servers without torch in front of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before Ray is imported: nothing leaves the machine
# An engine that does not answer would have half a minute to finish its streams first.
os.environ.setdefault("RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS", "1")

import ray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from ray import serve
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.deployment import Application
from ray.serve.handle import DeploymentHandle

from firstword.app.audio.watermark import Watermark
from firstword.app.clients import ANYBODY
from firstword.app.hosts.ray.engine import Opening, RemoteSide
from firstword.app.hosts.ray.link import RayLink
from firstword.app.hosts.ray.messages import Description, EngineGone, Link
from firstword.app.hosts.ray.remote import RemoteEngine
from firstword.app.hosts.ray.remote_parts import RemoteSpeakers, RemoteStages
from firstword.app.hosts.ray.router import SpeakerRouter
from firstword.app.http.app import build_app
from firstword.app.provenance import open_provenance
from firstword.app.service import own_engine, running, shared_store, surfaces_of, surfaces_running
from firstword.app.settings import InvalidSettings, Settings
from firstword.app.speakers.shared_store import SharedSpeakerStore
from firstword.app.surfaces.openai.options import MAX_DESCRIBED
from firstword.app.telemetry.logs import configure_logging
from firstword.app.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from firstword.app.postgresql import Postgres

APP: Final = "firstword-engines"
MANY: Final = 10_000  # of requests at once: the engines' own slots and queues decide
STARTS_WITHIN_S: Final = 600.0
SLOTS_WANTED: Final = 0.7  # of an engine's slots in use, which autoscaling aims at


class EngineReplica:
    """The deployment: one engine, for whoever has a handle to it."""

    async def __init__(self, opening: Opening) -> None:  # type: ignore[misc]  # Ray awaits it
        self._stack = AsyncExitStack()
        parts = await self._stack.enter_async_context(opening())
        self._side = RemoteSide(parts, serve.get_replica_context().replica_id.unique_id)
        await self._side.open(ray.util.get_node_ip_address())
        self._stack.callback(self._side.close)
        self._parts = parts
        self.describe = self._side.describe

    async def ask(self, *given: Any) -> AsyncIterator[Any]:
        async for news in self._side.ask(*given):
            yield news

    async def speak(self, *given: Any) -> AsyncIterator[Any]:
        async for news in self._side.speak(*given):
            yield news

    async def list_tokens(self, *given: Any) -> AsyncIterator[Any]:
        async for news in self._side.list_tokens(*given):
            yield news

    async def speak_tokens(self, *given: Any) -> AsyncIterator[Any]:
        async for news in self._side.speak_tokens(*given):
            yield news

    async def __del__(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def _own(settings: Settings) -> AsyncIterator[Any]:
    """An engine with the settings, in a replica's process."""
    configure_logging(settings.log.log_level, settings.log.log_format)
    marks = await asyncio.to_thread(open_provenance, settings.provenance, settings.speakers.data_dir)
    async with (
        shared_store(settings) as postgres,
        own_engine(settings, None, Metrics(), postgres, marks.watermark) as parts,
    ):
        yield parts


def engines(settings: Settings, opening: Opening | None = None) -> Application:
    """The deployment of the engines, with as many as `FIRSTWORD_RAY_ENGINES` says.

    opening: opens one; None: with the networks of the settings. Raises InvalidSettings.
    """
    if settings.speakers.store is None and opening is None:
        raise InvalidSettings(
            "engines on Ray share their speakers in a database; set FIRSTWORD_STORE=postgresql://… "
            "(docs/scale-out.md)"
        )
    if settings.provenance.provenance == "watermark" and settings.provenance.provenance_key_file is None:
        raise InvalidSettings(
            "engines on Ray lay one watermark; give all machines the same FIRSTWORD_PROVENANCE_KEY_FILE"
        )
    options = settings.ray
    if options.max_engines > options.engines and not settings.engine.max_streams:
        raise InvalidSettings(
            "FIRSTWORD_RAY_MAX_ENGINES scales by the slots of an engine; set FIRSTWORD_MAX_STREAMS too"
        )
    slots = settings.engine.max_streams or 1
    scaling = AutoscalingConfig(
        min_replicas=options.engines,
        max_replicas=max(options.engines, options.max_engines),
        target_ongoing_requests=SLOTS_WANTED * slots,
    )
    deployment = serve.deployment(
        EngineReplica,
        name="engine",
        autoscaling_config=scaling,
        max_ongoing_requests=MANY,
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": options.gpus},
        health_check_period_s=1,
        health_check_timeout_s=5,
        graceful_shutdown_timeout_s=settings.server.drain_timeout_s,
        request_router_config=RequestRouterConfig(request_router_class=SpeakerRouter),
    )
    return deployment.bind(opening or partial(_own, settings))


@dataclass(frozen=True, slots=True, eq=False)
class RemoteParts:
    engine: RemoteEngine
    speakers: RemoteSpeakers
    stages: RemoteStages


class EngineMetrics(Collector):
    """What each engine says of itself, by its replica; those that are gone are not shown."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        values: dict[str, Callable[[Description], float]] = {
            "tts_engine_streams": lambda one: one.num_streams,
            "tts_engine_max_streams": lambda one: one.max_streams,
            "tts_engine_ready": lambda one: float(one.status.is_ready),
        }
        for name, value_of in values.items():
            what = name.removeprefix("tts_engine_")
            family = GaugeMetricFamily(name, f"{what} of one engine", labels=["replica"])
            for one in self._engine.known:
                family.add_metric([one.replica], value_of(one))
            yield family


@asynccontextmanager
async def remote_parts(
    link: Link,
    settings: Settings,
    metrics: Metrics,
    postgres: "Postgres | None",
    watermark: Watermark | None,
) -> AsyncIterator[RemoteParts]:
    """What a server in front of the engines has in the place of an engine. Raises InvalidSettings."""
    if postgres is None:
        raise InvalidSettings("a server in front of engines needs FIRSTWORD_STORE=postgresql://…")
    known = await _first_described(link)
    said = known[-1]
    info = said.info
    speakers = RemoteSpeakers(
        link,
        await asyncio.to_thread(SharedSpeakerStore, postgres),
        said.builtin,
        said.builtin_names,
        info.default_speaker,
    )
    described, _ = speakers.page(ANYBODY, None, MAX_DESCRIBED)
    speakers.aliases = settings.surfaces.openai.speakers_of_voices(info.default_speaker, described)
    engine = RemoteEngine(link, speakers, known, watermark)
    metrics.ready.set_function(lambda: float(engine.status.is_ready))
    metrics.max_streams.set_function(lambda: float(engine.max_streams))
    metrics.registry.register(EngineMetrics(engine))
    watching = asyncio.create_task(engine.watch(), name="engines")
    try:
        yield RemoteParts(engine, speakers, RemoteStages(link, said.stages))
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await engine.drain(0)
        await asyncio.to_thread(speakers.close)


async def _first_described(link: Link) -> list[Description]:
    try:
        async with asyncio.timeout(STARTS_WITHIN_S):
            while True:
                with suppress(EngineGone):
                    if known := await link.describe():
                        return known
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise InvalidSettings(
            f"no engine was ready within {STARTS_WITHIN_S:g} s; `serve status` and its logs say why"
        ) from None


@contextmanager
def cluster(settings: Settings, opening: Opening | None = None) -> Iterator[DeploymentHandle]:
    """Join the cluster of RAY_ADDRESS, or begin one on this machine; deploy the engines unless they run."""
    is_new = not ray.is_initialized()
    if is_new:
        alone = {} if os.environ.get("RAY_ADDRESS") else {"object_store_memory": 200_000_000}
        ray.init(include_dashboard=False if alone else None, log_to_driver=False, **alone)
    application = engines(settings, opening)
    if APP not in serve.status().applications:
        serve.run(application, name=APP, route_prefix=None)
        is_ours = True
    else:
        is_ours = False
    try:
        yield serve.get_deployment_handle("engine", APP)
    finally:
        if is_ours and is_new and not os.environ.get("RAY_ADDRESS"):
            serve.shutdown()
        if is_new:
            ray.shutdown()


def opening_of(handle: DeploymentHandle, settings: Settings) -> Any:
    """The `EngineOpening` of a server in front of the engines."""
    return partial(remote_parts, RayLink(handle), settings)


@serve.ingress()
class Ingress:
    """The server as a deployment behind Ray's own proxy: all surfaces over HTTP and WebSocket."""

    async def __init__(self, engine: DeploymentHandle, settings: Settings) -> None:  # type: ignore[misc]
        configure_logging(settings.log.log_level, settings.log.log_format)
        self._stack = AsyncExitStack()
        postgres = await self._stack.enter_async_context(shared_store(settings))
        opening = opening_of(engine, settings)
        service = await self._stack.enter_async_context(running(settings, None, postgres, opening))
        surfaces = surfaces_of(settings, postgres)
        await self._stack.enter_async_context(surfaces_running(surfaces, service))
        server = settings.server
        self._app = build_app(
            service, surfaces, cors_origins=server.cors_origins, allowed_hosts=server.checked_hosts
        )

    def __serve_build_asgi_app__(self) -> Any:
        return self._app

    async def __del__(self) -> None:
        await self._stack.aclose()


def application(settings: Settings, opening: Opening | None = None) -> Application:
    """For `serve run`: servers behind Ray's proxy, and their `engines`."""
    ingress = serve.deployment(
        Ingress,
        name="ingress",
        num_replicas=settings.ray.ingresses,
        max_ongoing_requests=MANY,
        ray_actor_options={"num_cpus": settings.ray.cpus},
        health_check_period_s=1,
        health_check_timeout_s=5,
        graceful_shutdown_timeout_s=settings.server.drain_timeout_s,
    )
    return ingress.bind(engines(settings, opening), settings)
