"""Liveness, readiness, metrics and capabilities, for who runs the server."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, AudioFormat
from firstword.app.core.interface import NetworksState
from firstword.app.core.request import VoiceMode
from firstword.app.database import RETRY_AFTER_S, DatabaseError
from firstword.app.errors import StoreUnavailable
from firstword.app.http.metrics_port import metrics_answer, metrics_server
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, Answers
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.surface import HttpSurface, Surface
from firstword.app.telemetry.usage import UsedByClient

logger = logging.getLogger(__name__)
router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)
metrics_router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)
Probe = Guard("public", checks_origin=False)


class Health(BaseModel):
    status: str = "ok"


class Readiness(BaseModel):
    ready: bool
    reason: str  # why it is not ready, in one line
    damaged_speakers: tuple[str, ...] = ()  # does not make it unready: all others speak
    failing_workers: tuple[str, ...] = ()  # nor do these: they are started again, and speech goes on
    max_streams: int = 0  # that run at once
    max_streams_from: str = ""  # FIRSTWORD_MAX_STREAMS, measurement or live streams
    networks: NetworksState = "loaded"  # or unloaded while idle, and loaded by the next request


class ReportedLimits(BaseModel):
    max_text_chars: int
    max_audio_s: float
    max_streams: int
    max_json_bytes: int
    max_upload_bytes: int
    max_reference_bytes: int
    max_contexts: int
    max_message_bytes: int
    idle_timeout_s: float
    min_speed: float = MIN_CLEAR_SPEED
    max_speed: float = MAX_CLEAR_SPEED


class Capabilities(BaseModel):
    model: str
    checkpoint: str
    backend: str
    formats: list[AudioFormat]
    sample_rates: dict[AudioFormat, tuple[int, ...]]  # Hz
    default_sample_rate: int
    speakers: int
    default_speaker: str
    default_speakers: Mapping[str, str]  # by the text's language, where it has another one
    continuous_text: bool
    instruct: bool
    voice_modes: tuple[VoiceMode, ...]
    languages: tuple[str, ...]
    accents: tuple[str, ...]  # of English, beside the voice's own: british is asked for as en-GB
    limits: ReportedLimits


UNREADY: Answers = {
    503: {"model": Readiness, "description": "Loading, full, draining, or without a file of its data."}
}


@router.get("/livez")
@router.get("/health")
@Probe
async def livez() -> Health:
    """Answer while the process is alive."""
    return Health()


@router.get("/readyz", responses=UNREADY)
@Probe
async def readyz(request: Request, response: Response, service: ServiceHere) -> Readiness:
    """Answer 200 when the server is warm and admits streams, else 503."""
    status = service.engine.status
    store = await asyncio.to_thread(service.speakers.health)
    gone = [] if store.is_available else ["speakers"]
    if not await asyncio.to_thread(service.usage.is_in_place):
        gone.append("usage")
    surfaces: Sequence[Surface] = request.app.state.surfaces
    healths = [await asyncio.to_thread(surface.health) for surface in surfaces]
    gone += [file for health in healths for file in health.missing_files]
    is_ready = status.is_ready and not gone
    if not is_ready:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    reason = f"the file of the {' and the '.join(gone)} is gone from its disk" if gone else status.reason
    return Readiness(
        ready=is_ready,
        reason=reason,
        damaged_speakers=store.damaged,
        failing_workers=(
            *status.failing_workers,
            *(worker for health in healths for worker in health.failing_workers),
        ),
        max_streams=status.max_streams,
        max_streams_from=status.max_streams_from,
        networks=status.networks,
    )


@router.get("/v1/capabilities")
@Guard("any key")
async def capabilities(request: Request, service: ServiceHere) -> Capabilities:
    """Report what this server can do with its checkpoint."""
    info, limits = service.engine.info, service.limits
    return Capabilities(
        model=info.checkpoint,
        checkpoint=info.checkpoint,
        backend=info.backend,
        formats=list(FORMATS),
        sample_rates={name: info.sample_rates_hz for name, info in FORMATS.items()},
        default_sample_rate=info.sample_rate_hz,
        speakers=len(service.speakers.list(request.state.client)),
        default_speaker=info.default_speaker,
        default_speakers=info.default_speakers,
        continuous_text=info.can_continue_text,
        instruct=info.takes_instruct,
        voice_modes=info.voice_modes,
        languages=info.languages,
        accents=info.accents,
        limits=ReportedLimits(
            max_text_chars=info.limits.max_text_chars,
            max_audio_s=info.limits.max_audio_s,
            max_streams=service.engine.max_streams,
            max_json_bytes=limits.max_body_bytes,
            max_upload_bytes=limits.max_upload_bytes,
            max_reference_bytes=limits.max_reference_bytes,
            max_contexts=limits.max_contexts,
            max_message_bytes=limits.max_message_bytes,
            idle_timeout_s=limits.idle_timeout_s,
        ),
    )


class UsageOfKey(BaseModel):
    name: str | None  # of the key; null where no keys were asked for
    requests: int
    characters: int
    audio_seconds: float


class UsageReport(BaseModel):
    since: datetime
    keys: list[UsageOfKey]


@router.get("/v1/usage")
@Guard("any key")
async def usage(request: Request, service: ServiceHere) -> UsageReport:
    """Report what the key has used since its server began to count; to an administrator, what all have."""
    client = request.state.client
    try:
        used = await service.usage.read()
    except DatabaseError as error:
        logger.error("what the keys used cannot be read: %s", error)
        raise StoreUnavailable(
            "the server's file of usage cannot be read; the server's log has the reason", RETRY_AFTER_S
        ) from error
    shown = used if client.is_admin else {client.name: used.get(client.name, UsedByClient())}
    return UsageReport(
        since=datetime.fromisoformat(service.usage.began_at),
        keys=[
            UsageOfKey(
                name=name or None,
                requests=counts.requests,
                characters=counts.characters,
                audio_seconds=round(counts.audio_s, 3),
            )
            for name, counts in sorted(shown.items())
        ],
    )


@metrics_router.get("/metrics", response_class=Response)
@Guard("admin", checks_origin=False)
async def metrics(request: Request, service: ServiceHere) -> Response:
    """Return the metrics in Prometheus' text format; with traces, as OpenMetrics to whom accepts it."""
    return await metrics_answer(request, service)


class OperationsSurface(HttpSurface):
    """Its routes, and a port of its own for the metrics alone where one is set."""

    def __init__(self, metrics_port: int | None = None, host: str = "127.0.0.1") -> None:
        """metrics_port: None leaves the metrics on the main port."""
        shown = metrics_router.routes if metrics_port is None else []
        super().__init__("operations", [*router.routes, *shown])
        self._metrics_port = metrics_port
        self._host = host

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        async with metrics_server(self._metrics_port, self._host, service):
            yield
