"""Voice conversion: a recording in, the same words in another voice out as it is made."""

from typing import Annotated

from fastapi import APIRouter, Form, UploadFile
from fastapi.routing import APIRoute
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.api.dependencies import ServicesHere
from firstword.app.api.forms import MemoryFormRoute
from firstword.app.api.limits import FORM_BYTES, BodyLimit, upload_too_large
from firstword.app.api.schemas import (
    AUDIO_ANSWERS,
    ERROR_ANSWERS,
    Name,
    RequestFields,
    SampleRate,
    Seed,
    sent_recording,
)
from firstword.app.api.streaming import AudioResponse, CompleteAudioResponse, resolve_output_format
from firstword.app.audio.formats import MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, AudioFormat
from firstword.app.engine.interface import SynthesisRequest
from firstword.app.options import Limits
from firstword.app.speech_options import NotBoolean

router = APIRouter(tags=["speech"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)


class Conversion(RequestFields):
    """The form of `POST /v1/voice-conversion`."""

    model_config = ConfigDict(extra="forbid")

    audio: UploadFile = Field(description="What is to be said, 1 to 30 s.")
    speaker: Name | None = Field(None, description="The voice; the default speaker if left out.")
    reference_audio: UploadFile | None = Field(None, description="A recording of the voice instead.")
    format: AudioFormat = "wav"
    sample_rate: SampleRate | None = None
    speed: Annotated[float, NotBoolean] = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    seed: Seed | None = None
    stream: bool = Field(True, description="false: one complete body with its length.")


@router.post("/v1/voice-conversion", response_class=Response, responses=AUDIO_ANSWERS)
async def convert_voice(
    form: Annotated[Conversion, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesHere,
) -> AudioResponse:
    """Say what a recording says, at its own pace, in another voice."""
    max_bytes = services.limits.max_reference_bytes
    reference = None
    if form.reference_audio is not None:
        content = await form.reference_audio.read()
        reference = await sent_recording(content, "", max_bytes, "reference_audio")
    synthesis = SynthesisRequest(
        request.state.request_id,
        wire="http",
        mode="tokens",
        speaker=form.speaker,
        seed=form.seed,
        reference=reference,
        speech=await sent_recording(await form.audio.read(), "", max_bytes, "audio"),
        client=request.state.client,
    )
    output = resolve_output_format(form.format, form.sample_rate, form.speed, services)
    kind: type[AudioResponse] = AudioResponse if form.stream else CompleteAudioResponse
    return kind(request, services, synthesis, output)


def body_limits(limits: Limits) -> list[BodyLimit]:
    """Return the limit of the route, which takes two recordings."""
    max_bytes = 2 * limits.max_reference_bytes + FORM_BYTES
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    return [BodyLimit(route, max_bytes, lambda: upload_too_large(max_bytes)) for route in routes]
