"""`POST /v1/text`: what a text becomes before it is spoken."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from firstword.app.core.request import SynthesisRequest, VoiceChoice
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import MemoryFormRoute
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, Name, RequestFields
from firstword.app.http.service import ServiceHere
from firstword.app.http.surface import HttpSurface
from firstword.app.speech_options import TextOptions

router = APIRouter(tags=["speech"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)


class TextBody(TextOptions, RequestFields):
    """Fields of `POST /v1/text`."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1)
    language: Name | None = Field(None, description="Detected from the text if left out.")
    speaker: Name | None = Field(None, description="A name of GET /speakers.")


class TextPart(BaseModel):
    """A segment with its text tokens counted, or what changes before the next one."""

    source: str
    spoken: str = ""
    language: str | None = None
    tokens: int = 0
    pause_s: float | None = None
    speaker: str | None = None
    rate: float | None = None


class TextAnswer(BaseModel):
    spoken: str
    language: str | None  # of most of the text; null: nothing can be spoken
    characters: int
    tokens: int
    parts: list[TextPart]
    marks: list[str]  # those that the checkpoint takes, as they stand in `spoken`
    warnings: list[str]


@router.post("/v1/text")
@Guard("speak")
async def read_text(body: TextBody, request: Request, service: ServiceHere) -> TextAnswer:
    """Say how a text would be read, without speaking it."""
    with rejections_counted(service.metrics):
        client = request.state.client
        service.quotas.charge(client.name)
        if body.speaker is not None:
            service.speakers.get(body.speaker, client)
        synthesis = SynthesisRequest(
            request.state.request_id,
            "http",
            text=body.text,
            voice=VoiceChoice(body.speaker, language=body.language),
            reading=body.reading,
            sampling=body.sampling,
            client=client,
        )
        report = await service.engine.read_text(synthesis)
    lengths: dict[str, int] = {}
    for part in report.parts:
        if part.language is not None:
            lengths[part.language] = lengths.get(part.language, 0) + len(part.spoken)
    return TextAnswer(
        spoken=" ".join(part.spoken for part in report.parts if part.spoken),
        language=max(lengths, key=lambda name: lengths[name]) if lengths else None,
        characters=len(body.text),
        tokens=sum(len(part.text_ids) for part in report.parts),
        parts=[
            TextPart(
                source=part.source,
                spoken=part.spoken,
                language=part.language,
                tokens=len(part.text_ids),
                pause_s=part.pause_s,
                speaker=part.speaker,
                rate=part.rate,
            )
            for part in report.parts
        ],
        marks=[mark for part in report.parts for mark in part.marks],
        warnings=list(report.warnings),
    )


surface = HttpSurface("text", router.routes)
