"""Which marks of origin a recording shows: the operator's watermark, tags, and a C2PA manifest."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio
from firstword.app.errors import AudioTooLong, BadAudio
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import MemoryFormRoute, read_upload
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS
from firstword.app.http.service import ServiceHere
from firstword.app.http.surface import HttpSurface
from firstword.app.provenance import Evidence

router = APIRouter(tags=["provenance"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)
MAX_CHECKED_S: Final = 120.0  # about 120 MB while it is looked at
_one_at_a_time: Final = asyncio.Semaphore(1)  # a search computes for up to seconds


class Recording(BaseModel):
    model_config = ConfigDict(extra="forbid")

    audio: UploadFile = Field(description="The recording, in any format that a speaker's may have.")
    speeds: bool = Field(False, description="Where no watermark is found, search 4 % faster and slower too.")


class FoundWatermark(BaseModel):
    found: bool
    payload: int | None
    score: float
    threshold: float
    speed: float
    start_s: float


class ReportedEvidence(BaseModel):
    watermark: FoundWatermark | None  # null: this server has no key to look with
    source_type: bool  # the file names IPTC's trainedAlgorithmicMedia
    tags: dict[str, str]
    c2pa: dict[str, Any] | None

    @classmethod
    def of(cls, evidence: Evidence) -> "ReportedEvidence":
        mark = evidence.watermark
        found = None
        if mark is not None:
            found = FoundWatermark(
                found=mark.payload is not None,
                payload=mark.payload,
                score=round(mark.score, 2),
                threshold=round(mark.threshold, 2),
                speed=round(mark.speed, 5),
                start_s=round(mark.start_s, 3),
            )
        manifest = None if evidence.manifest is None else dict(evidence.manifest)
        return cls(watermark=found, source_type=evidence.source_type, tags=dict(evidence.tags), c2pa=manifest)


@router.post("/v1/provenance")
@Guard("speak", body=upload_body(lambda limits: limits.max_upload_bytes))
async def check_provenance(
    form: Annotated[Recording, Form(media_type="multipart/form-data")],
    request: Request,
    service: ServiceHere,
) -> ReportedEvidence:
    """Look for this operator's watermark in a recording, and for what its file says of its origin."""
    with rejections_counted(service.metrics):
        content = await read_upload(form.audio, service.limits.max_upload_bytes, request, service)
        try:
            async with _one_at_a_time:
                look = service.provenance.evidence
                return ReportedEvidence.of(await asyncio.to_thread(look, content, form.speeds, MAX_CHECKED_S))
        except RecordingTooLong as error:
            raise AudioTooLong(str(error)) from error
        except UndecodableAudio as error:
            raise BadAudio(str(error)) from error


surface = HttpSurface("provenance", router.routes)
