"""Liveness, readiness, metrics and capabilities."""

import asyncio
import logging
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, AudioFormat
from firstword.app.core.interface import VoiceMode
from firstword.app.database import RETRY_AFTER_S, DatabaseError
from firstword.app.errors import StoreUnavailable
from firstword.app.http.dependencies import ServicesHere
from firstword.app.http.schemas import ERROR_ANSWERS, Answers
from firstword.app.telemetry.usage import UsedByClient

logger = logging.getLogger(__name__)
router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)
metrics_router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)


class Health(BaseModel):
    status: str = "ok"


class Readiness(BaseModel):
    ready: bool
    reason: str  # why it is not ready, in one line
    damaged_speakers: tuple[str, ...] = ()  # does not make it unready: all others speak
    failing_workers: tuple[str, ...] = ()  # nor do these: they are started again, and speech goes on


class ReportedLimits(BaseModel):
    max_text_chars: int
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
    continuous_text: bool
    instruct: bool
    voice_modes: tuple[VoiceMode, ...]
    languages: tuple[str, ...]
    limits: ReportedLimits


UNREADY: Answers = {
    503: {"model": Readiness, "description": "Loading, full, draining, or without a file of its data."}
}


@router.get("/livez")
@router.get("/health")
async def livez() -> Health:
    """Answer while the process is alive."""
    return Health()


@router.get("/readyz", responses=UNREADY)
async def readyz(response: Response, services: ServicesHere) -> Readiness:
    """Answer 200 when the server is warm and admits streams, else 503."""
    status = services.engine.status
    store = await asyncio.to_thread(services.speakers.health)
    gone = [] if store.is_available else ["speakers"]
    for subject, file in (("batches", services.batches.store), ("usage", services.usage)):
        if not await asyncio.to_thread(file.is_in_place):
            gone.append(subject)
    is_ready = status.is_ready and not gone
    if not is_ready:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    reason = f"the file of the {' and the '.join(gone)} is gone from its disk" if gone else status.reason
    return Readiness(
        ready=is_ready,
        reason=reason,
        damaged_speakers=store.damaged,
        failing_workers=services.batches.workers.failing,
    )


@router.get("/v1/capabilities")
async def capabilities(request: Request, services: ServicesHere) -> Capabilities:
    """Report what this server can do with its checkpoint."""
    info, limits = services.engine.info, services.limits
    return Capabilities(
        model=services.model_id,
        checkpoint=info.checkpoint,
        backend=info.backend,
        formats=list(FORMATS),
        sample_rates={name: info.sample_rates_hz for name, info in FORMATS.items()},
        default_sample_rate=info.sample_rate_hz,
        speakers=len(services.speakers.list(request.state.client)),
        default_speaker=info.default_speaker,
        continuous_text=info.can_continue_text,
        instruct=info.takes_instruct,
        voice_modes=info.voice_modes,
        languages=info.languages,
        limits=ReportedLimits(
            max_text_chars=info.max_text_chars,
            max_streams=services.engine.max_streams,
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
async def usage(request: Request, services: ServicesHere) -> UsageReport:
    """Report what the key has used since its server began to count; to an administrator, what all have."""
    client = request.state.client
    try:
        used = await services.usage.read()
    except DatabaseError as error:
        logger.error("what the keys used cannot be read: %s", error)
        raise StoreUnavailable(
            "the server's file of usage cannot be read; the server's log has the reason", RETRY_AFTER_S
        ) from error
    shown = used if client.is_admin else {client.name: used.get(client.name, UsedByClient())}
    return UsageReport(
        since=datetime.fromisoformat(services.usage.began_at),
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
async def metrics(request: Request, services: ServicesHere) -> Response:
    """Return the metrics in Prometheus' text format; with traces, as OpenMetrics to whom accepts it."""
    accept = request.headers.get("accept", "") if services.tracing.is_on else ""
    body, content_type = await asyncio.to_thread(services.metrics.exposition, accept)
    return Response(body, headers={"Content-Type": content_type})
