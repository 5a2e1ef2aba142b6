"""Which marks of origin a recording shows, and speech with and without a watermark for a blind test."""

import asyncio
import base64
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole
from firstword.app.audio.formats import Tags, tags_of
from firstword.app.audio.watermark import STRENGTH, Watermark
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.errors import InvalidRequest
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import MULTIPART, MemoryFormRoute, checking, decoding, read_upload
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, Answers, Name, RequestFields
from firstword.app.http.service import ServiceHere
from firstword.app.http.spoken import Framing, SpokenAudio
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.http.surface import HttpSurface
from firstword.app.provenance import Evidence, Provenance

router = APIRouter(tags=["provenance"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)
pair_router = APIRouter(tags=["provenance"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)
MAX_CHECKED_S: Final = 120.0  # about 120 MB while it is looked at
MAX_PAIR_CHARS: Final = 400  # some 25 s of English: a sentence is what ears compare


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
    form: Annotated[Recording, MULTIPART],
    request: Request,
    service: ServiceHere,
) -> ReportedEvidence:
    """Look for this operator's watermark in a recording, and for what its file says of its origin."""
    with rejections_counted(service.metrics):
        content = await read_upload(form.audio, service.limits.max_upload_bytes, request, service)
        look = service.provenance.evidence
        async with checking(request, service):
            with decoding():
                return ReportedEvidence.of(await asyncio.to_thread(look, content, form.speeds, MAX_CHECKED_S))


class PairBody(RequestFields):
    """Fields of `POST /v1/provenance/pair`. There is no seed, so that no other speech can be subtracted."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=MAX_PAIR_CHARS)
    speaker: Name | None = Field(None, description="A name of GET /speakers.")
    language: Name | None = Field(None, description="Detected from the text if left out.")
    strength: float = Field(STRENGTH, ge=0.1, le=0.4, description="As FIRSTWORD_PROVENANCE_STRENGTH has it.")


class Pair(BaseModel):
    unmarked: str  # a WAV in base64
    marked: str  # the same, sample by sample in time


PAIR_ANSWERS: Final[Answers] = {200: {"model": Pair}}


@pair_router.post("/v1/provenance/pair", response_class=Response, responses=PAIR_ANSWERS)
@Guard("speak")
async def speak_pair(body: PairBody, request: Request, service: ServiceHere) -> BodyResponse:
    """Speak a text once, for a blind test: the same speech as two WAVs, one of them with a watermark.

    The watermark's key is made for this answer alone: whoever had both under the operator's could forge and
    remove its marks.
    """
    if service.provenance.watermark is not None:
        raise InvalidRequest(
            "all speech of this server carries its operator's watermark, so it gives none without; ask a "
            "server with FIRSTWORD_PROVENANCE=off or metadata, or compare two files"
        )
    output = resolve_output_format("wav", None, 1.0, service)
    synthesis = SynthesisRequest(
        request.state.request_id,
        "http",
        text=body.text,
        voice=VoiceChoice(body.speaker, language=body.language),
        delivery=Delivery(is_played=False),
        client=request.state.client,
    )

    async def pair(audio: SpokenAudio) -> AsyncGenerator[bytes]:
        async with SpokenAudio(audio.session, replace(output, format="pcm_f32")).file() as files:
            async for file in files:
                samples = np.frombuffer(file.data, "<f4")
                tags = tags_of(output, audio.session.stream.speaker, synthesis.request_id)
                given = (samples, output.sample_rate_hz, body.strength, tags, service.provenance)
                yield await asyncio.to_thread(_paired, *given)

    return audio_response(
        request, service, synthesis, output, Framing(pair, "application/json", is_whole=True)
    )


def _paired(
    samples: Samples, rate_hz: int, strength: float, tags: Tags | None, provenance: Provenance
) -> bytes:
    """Return the JSON of a `Pair`; its files differ in the watermark alone and name their source alike."""
    watermark = Watermark(secrets.token_bytes(16), 0, strength=strength)

    def file(laid_in: Watermark | None) -> str:
        content = encode_whole("wav", samples, rate_hz, tags=tags, watermark=laid_in)
        return base64.b64encode(provenance.signed(content, "wav")).decode()

    return Pair(unmarked=file(None), marked=file(watermark)).model_dump_json().encode()


surface = HttpSurface("provenance", [*router.routes, *pair_router.routes])
