"""Voice conversion: a recording in, the same words in another voice out as it is made."""

from typing import Annotated

from fastapi import APIRouter, UploadFile
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.http.forms import MULTIPART, MemoryFormRoute
from firstword.app.http.limits import FORM_BYTES, upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import (
    AUDIO_ANSWERS,
    ERROR_ANSWERS,
    FileFields,
    sent_recording,
)
from firstword.app.http.service import ServiceHere
from firstword.app.http.spoken import framing_of
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.http.surface import HttpSurface

router = APIRouter(tags=["speech"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)


class Conversion(FileFields):
    """The form of `POST /v1/voice-conversion`."""

    model_config = ConfigDict(extra="forbid")

    audio: UploadFile = Field(description="What is to be said, 1 to 30 s.")
    reference_audio: UploadFile | None = Field(None, description="A recording of the voice instead.")


@router.post("/v1/voice-conversion", response_class=Response, responses=AUDIO_ANSWERS)
@Guard("speak", body=upload_body(lambda limits: 2 * limits.max_reference_bytes + FORM_BYTES, 0))
async def convert_voice(
    form: Annotated[Conversion, MULTIPART],
    request: Request,
    service: ServiceHere,
) -> BodyResponse:
    """Say what a recording says, at its own pace, in another voice."""
    output = resolve_output_format(form.format, form.sample_rate, form.speed, service)
    max_bytes = service.limits.max_reference_bytes
    reference = None
    if form.reference_audio is not None:
        content = await form.reference_audio.read()
        reference = await sent_recording(content, "", max_bytes, "reference_audio")
    synthesis = SynthesisRequest(
        request.state.request_id,
        "http",
        mode="tokens",
        speech=await sent_recording(await form.audio.read(), "", max_bytes, "audio"),
        voice=VoiceChoice(form.speaker, reference),
        seed=form.seed,
        delivery=Delivery(context=form.context, is_played=form.stream, speed=form.speed),
        client=request.state.client,
    )
    return audio_response(request, service, synthesis, output, framing_of(form.stream, has_words=False))


surface = HttpSurface("conversion", router.routes)
