"""OpenAI's speech API, as its own clients and agent frameworks call it."""

import re
from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.formats import MAX_SPEED, MIN_SPEED, AudioFormat
from firstword.app.clients import Client
from firstword.app.errors import InvalidRequest, ModelNotFound, SpeakerNotFound, StringTooLong, TextTooLong
from firstword.app.http.forms import JsonOrFormRoute
from firstword.app.http.limits import BodyLimit, speech_body_bytes
from firstword.app.http.schemas import (
    AUDIO_ANSWERS,
    ERROR_ANSWERS,
    Context,
    Instruct,
    Name,
    ReferenceFields,
    SampleRate,
    Seed,
    TimestampFields,
    synthesis_request,
)
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.streaming import (
    AudioResponse,
    CompleteAudioResponse,
    EventStreamResponse,
    resolve_output_format,
)
from firstword.app.options import Limits
from firstword.app.speech_options import NotBoolean, SpeechOptions

MODEL_ALIASES = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")  # the defaults of clients
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")  # behind the name of a model, a version of it

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute)


class VoiceId(BaseModel):
    id: Name


class SpeechRequest(ReferenceFields, TimestampFields, SpeechOptions):
    """OpenAI's fields, then those that other open servers share; unknown ones are ignored."""

    model: Name | None = None
    input: str = Field(min_length=1)
    voice: Name | VoiceId | None = Field(None, description="A speaker, or one of OpenAI's voices.")
    instructions: Instruct | None = Field(None, description="How to say it, on checkpoints that support it.")
    response_format: AudioFormat = "mp3"
    speed: Annotated[float, NotBoolean] = Field(1.0, ge=MIN_SPEED, le=MAX_SPEED)
    stream_format: Literal["audio", "sse"] = "audio"

    stream: bool = Field(True, description="false: one complete body with its length.")
    language: Name | None = None
    seed: Seed | None = None
    sample_rate: SampleRate | None = None
    context: Context = "chunks"
    speaker: Name | None = Field(None, description="The same as `voice`; it wins where both are given.")


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0  # unknown, and OpenAI's clients expect a number
    owned_by: str = "firstword"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class Voice(BaseModel):
    id: str
    name: str


class VoiceList(BaseModel):
    voices: list[Voice]


@router.post("/audio/speech", response_class=Response, responses=AUDIO_ANSWERS)
async def create_speech(body: SpeechRequest, request: Request, service: ServiceHere) -> AudioResponse:
    """Speak a text, as audio or as events. The status line comes with the first audio.

    Instructions that the checkpoint does not support are ignored, as those for tts-1 are.
    """
    if body.model is not None:
        _check_model(body.model, service)
    info = service.engine.info
    synthesis = synthesis_request(
        body,
        request.state.request_id,
        request.state.client,
        "openai",
        text=body.input,
        reference=await body.reference(service.limits.max_reference_bytes),
        speaker=None
        if body.speaker is None and body.reference_audio
        else _speaker(body, request.state.client, service),
        instruct=body.instructions or None if info.takes_instruct else None,
        is_played=body.stream or body.stream_format == "sse",
    )
    if body.timestamps is not None and body.stream_format != "sse":
        raise InvalidRequest('timestamps come with events only; set stream_format to "sse"', "timestamps")
    output = resolve_output_format(body.response_format, body.sample_rate, body.speed, service)
    # By the fields alone: OpenAI's client accepts octets even when it asks for events.
    if body.stream_format == "sse":
        kind: type[AudioResponse] = EventStreamResponse
    else:
        kind = AudioResponse if body.stream else CompleteAudioResponse
    return kind(request, service, synthesis, output, body, _in_openai_words)


@router.get("/models")
async def list_models(service: ServiceHere) -> ModelList:
    return ModelList(data=[Model(id=name) for name in (service.model_id, *MODEL_ALIASES)])


@router.get("/models/{model:path}")
async def get_model(model: str, service: ServiceHere) -> Model:
    _check_model(model, service)
    return Model(id=model)


@router.get("/audio/voices")
async def list_voices(request: Request, service: ServiceHere) -> VoiceList:
    """List the speakers, then OpenAI's voice names, which are mapped to speakers."""
    speakers = [speaker.name for speaker in service.speakers.list(request.state.client)]
    return VoiceList(
        voices=[Voice(id=name, name=name) for name in dict.fromkeys([*speakers, *service.voices])]
    )


@router.get("")
async def probe(service: ServiceHere) -> ModelList:
    """Answer clients that probe the base URL first."""
    return await list_models(service)


def _in_openai_words(error: Exception) -> Exception:
    match error:
        case TextTooLong():
            return StringTooLong(error.message, "input")
        case InvalidRequest(param="text"):
            return InvalidRequest(error.message, "input")
        case SpeakerNotFound():
            return SpeakerNotFound(error.message, "voice")
    return error


def body_limits(limits: Limits) -> list[BodyLimit]:
    """Return the limit of the route that takes a text, which is refused in OpenAI's words."""
    max_bytes = speech_body_bytes(limits)

    def error() -> StringTooLong:
        return StringTooLong(f"the body is larger than {max_bytes} bytes; send a shorter text", "input")

    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    return [BodyLimit(route, max_bytes, error) for route in routes if route.endpoint is create_speech]


def _check_model(model: str, service: Service) -> None:
    known = (service.model_id, *MODEL_ALIASES)
    name = _DATE.sub("", model.lower())
    if not service.accepts_any_model and name not in (one.lower() for one in known):
        raise ModelNotFound(f"unknown model {model[:60]!r}; choose one of {', '.join(known)}")


def _speaker(body: SpeechRequest, client: Client, service: Service) -> str | None:
    """A speaker takes precedence over one of OpenAI's voices of the same name."""
    voice = body.voice.id if isinstance(body.voice, VoiceId) else body.voice
    name = body.speaker or voice
    if name is None or name not in service.voices:
        return name
    try:
        return service.speakers.get(name, client).name
    except SpeakerNotFound:
        return service.voices[name]
