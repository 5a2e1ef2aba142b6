"""The five routes of CosyVoice's own FastAPI server: a form in, raw PCM of 16 bits out.

Its clients send forms with GET as well as with POST, and read samples at the model's rate without any header.
"""

from typing import Annotated, Final

from fastapi import APIRouter, Form, UploadFile
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.formats import MAX_CLEAR_SPEED, MIN_CLEAR_SPEED
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.errors import InvalidRequest, SpeakerNotFound, TextTooLong
from firstword.app.http.forms import MULTIPART, AnyFormRoute
from firstword.app.http.limits import speech_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import (
    AUDIO_ANSWERS,
    ERROR_ANSWERS,
    Instruct,
    Name,
    RequestFields,
    Seed,
    sent_recording,
)
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.spoken import framing_of
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.http.surface import HttpSurface
from firstword.app.speakers.interface import SentRecording
from firstword.app.speech_options import NotBoolean

router = APIRouter(tags=["cosyvoice"], responses=ERROR_ANSWERS, route_class=AnyFormRoute)


def too_long(max_bytes: int) -> TextTooLong:
    return TextTooLong(f"the form is larger than {max_bytes} bytes; send a shorter text or recording")


class SpokenForm(RequestFields):
    """`tts_text`, and fields of `POST /tts` that the published server does not have; others are ignored."""

    tts_text: str = Field(min_length=1)
    speed: Annotated[float, NotBoolean] = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    seed: Seed | None = None
    language: Name | None = None


class SpeakerForm(SpokenForm):
    spk_id: Name


class InstructForm(SpeakerForm):
    instruct_text: Instruct


class RecordingForm(SpokenForm):
    prompt_wav: UploadFile


class ZeroShotForm(RecordingForm):
    prompt_text: str


class RecordingInstructForm(RecordingForm):
    instruct_text: Instruct


Speaking: Final = Guard("speak", body=speech_body(too_long))


@router.get("/inference_sft", response_class=Response, include_in_schema=False)
@router.post("/inference_sft", response_class=Response, responses=AUDIO_ANSWERS)
@Speaking
async def inference_sft(
    form: Annotated[SpeakerForm, Form()], request: Request, service: ServiceHere
) -> BodyResponse:
    """Speak as a speaker of the server: any of `GET /speakers`, in the mode that fits it."""
    return spoken(form, request, service, VoiceChoice(form.spk_id, language=form.language))


@router.get("/inference_zero_shot", response_class=Response, include_in_schema=False)
@router.post("/inference_zero_shot", response_class=Response, responses=AUDIO_ANSWERS)
@Speaking
async def inference_zero_shot(
    form: Annotated[ZeroShotForm, MULTIPART], request: Request, service: ServiceHere
) -> BodyResponse:
    """Speak like a recording, whose words `prompt_text` has."""
    recording = await recording_of(form, form.prompt_text, service)
    return spoken(form, request, service, VoiceChoice(None, recording, "zero_shot", None, form.language))


@router.get("/inference_cross_lingual", response_class=Response, include_in_schema=False)
@router.post("/inference_cross_lingual", response_class=Response, responses=AUDIO_ANSWERS)
@Speaking
async def inference_cross_lingual(
    form: Annotated[RecordingForm, MULTIPART], request: Request, service: ServiceHere
) -> BodyResponse:
    """Speak like a recording in another language than it has."""
    recording = await recording_of(form, "", service)
    return spoken(form, request, service, VoiceChoice(None, recording, "cross_lingual", None, form.language))


@router.get("/inference_instruct", response_class=Response, include_in_schema=False)
@router.post("/inference_instruct", response_class=Response, responses=AUDIO_ANSWERS)
@Speaking
async def inference_instruct(
    form: Annotated[InstructForm, Form()], request: Request, service: ServiceHere
) -> BodyResponse:
    """Speak as a speaker of the server, in the manner of `instruct_text`."""
    voice = VoiceChoice(form.spk_id, None, "instruct", form.instruct_text, form.language)
    return spoken(form, request, service, voice)


@router.get("/inference_instruct2", response_class=Response, include_in_schema=False)
@router.post("/inference_instruct2", response_class=Response, responses=AUDIO_ANSWERS)
@Speaking
async def inference_instruct2(
    form: Annotated[RecordingInstructForm, MULTIPART], request: Request, service: ServiceHere
) -> BodyResponse:
    """Speak like a recording, in the manner of `instruct_text`."""
    recording = await recording_of(form, "", service)
    voice = VoiceChoice(None, recording, "instruct", form.instruct_text, form.language)
    return spoken(form, request, service, voice)


async def recording_of(form: RecordingForm, transcript: str, service: Service) -> SentRecording:
    content = await form.prompt_wav.read()
    return await sent_recording(content, transcript, service.limits.max_reference_bytes, "prompt_wav")


def spoken(form: SpokenForm, request: Request, service: Service, voice: VoiceChoice) -> BodyResponse:
    synthesis = SynthesisRequest(
        request.state.request_id,
        "http",
        text=form.tts_text,
        voice=voice,
        seed=form.seed,
        delivery=Delivery(speed=form.speed),
        client=request.state.client,
    )
    output = resolve_output_format("pcm", None, form.speed, service)
    framing = framing_of(is_streamed=True, has_words=False)
    return audio_response(request, service, synthesis, output, framing, translate=in_its_fields)


def in_its_fields(error: Exception) -> Exception:
    """Name the field of the form that is at fault."""
    match error:
        case TextTooLong():
            return TextTooLong(error.message, "tts_text")
        case InvalidRequest(param="text"):
            return InvalidRequest(error.message, "tts_text")
        case InvalidRequest(param="instruct"):
            return InvalidRequest(error.message, "instruct_text")
        case SpeakerNotFound():
            return SpeakerNotFound(error.message, "spk_id")
    return error


surface = HttpSurface("cosyvoice", router.routes)
