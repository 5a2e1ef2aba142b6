"""Liveness, readiness, metrics and capabilities."""

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.api.dependencies import ServicesHere
from firstword.app.api.schemas import ERROR_ANSWERS, Answers
from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, AudioFormat

router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)
metrics_router = APIRouter(tags=["operations"], responses=ERROR_ANSWERS)


class Health(BaseModel):
    status: str = "ok"


class Readiness(BaseModel):
    ready: bool
    reason: str  # why it is not ready, in one line
    damaged_speakers: tuple[str, ...] = ()  # does not make it unready: all others speak


class ReportedLimits(BaseModel):
    max_text_chars: int
    max_streams: int
    max_json_bytes: int
    max_upload_bytes: int
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
    languages: tuple[str, ...]
    limits: ReportedLimits


UNREADY: Answers = {
    503: {"model": Readiness, "description": "Loading, full, draining, or without its speakers' file."}
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
    is_ready = status.is_ready and store.is_available
    if not is_ready:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    reason = status.reason if store.is_available else "the file of the speakers is gone from its disk"
    return Readiness(ready=is_ready, reason=reason, damaged_speakers=store.damaged)


@router.get("/v1/capabilities")
async def capabilities(services: ServicesHere) -> Capabilities:
    """Report what this server can do with its checkpoint."""
    info, limits = services.engine.info, services.limits
    return Capabilities(
        model=services.model_id,
        checkpoint=info.checkpoint,
        backend=info.backend,
        formats=list(FORMATS),
        sample_rates={name: info.sample_rates_hz for name, info in FORMATS.items()},
        default_sample_rate=info.sample_rate_hz,
        speakers=services.speakers.count(),
        default_speaker=info.default_speaker,
        continuous_text=info.can_continue_text,
        instruct=info.takes_instruct,
        languages=info.languages,
        limits=ReportedLimits(
            max_text_chars=info.max_text_chars,
            max_streams=services.engine.max_streams,
            max_json_bytes=limits.max_body_bytes,
            max_upload_bytes=limits.max_upload_bytes,
            max_contexts=limits.max_contexts,
            max_message_bytes=limits.max_message_bytes,
            idle_timeout_s=limits.idle_timeout_s,
        ),
    )


@metrics_router.get("/metrics", response_class=Response)
async def metrics(request: Request, services: ServicesHere) -> Response:
    """Return the metrics in Prometheus' text format; with traces, as OpenMetrics to whom accepts it."""
    accept = request.headers.get("accept", "") if services.tracing.is_on else ""
    body, content_type = await asyncio.to_thread(services.metrics.exposition, accept)
    return Response(body, headers={"Content-Type": content_type})
