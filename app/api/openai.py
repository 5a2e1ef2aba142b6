"""OpenAI's speech API, as its own clients and the agent frameworks call it."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.api.dependencies import Services, ServicesHere
from firstword.app.api.errors import ModelNotFound
from firstword.app.api.schemas import AUDIO_ANSWERS, ERROR_ANSWERS, MAX_SEED, Instruct, Name
from firstword.app.api.streaming import (
    AudioResponse,
    CompleteAudioResponse,
    EventResponse,
    Speech,
    answer_with,
    wanted_form,
)
from firstword.app.audio.formats import MAX_SPEED, MIN_SPEED, AudioFormat
from firstword.app.engine.interface import SynthesisRequest
from firstword.app.errors import SpeakerNotFound

MODEL_ALIASES = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts"})  # what clients ask for unless told

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERROR_ANSWERS)


class VoiceId(BaseModel):
    id: Name


class SpeechRequest(BaseModel):
    """OpenAI's fields, then those that other open servers share; clients send more, which are ignored."""

    model: Name | None = None
    input: str = Field(min_length=1)
    voice: Name | VoiceId | None = Field(None, description="A speaker, or one of OpenAI's voices.")
    instructions: Instruct | None = Field(None, description="How to say it, on checkpoints that take such.")
    response_format: AudioFormat = "mp3"
    speed: float = Field(1.0, ge=MIN_SPEED, le=MAX_SPEED)
    stream_format: Literal["audio", "sse"] = "audio"

    stream: bool = Field(True, description="false: one complete body with its length.")
    language: Name | None = None
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    sample_rate: int | None = None
    speaker: Name | None = Field(None, description="The same as `voice`, and before it.")


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0  # nobody knows, and OpenAI's clients want a number
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
async def create_speech(body: SpeechRequest, request: Request, services: ServicesHere) -> AudioResponse:
    """Speaks a text, as audio or as events. The status line comes with the first audio.

    Instructions that the checkpoint cannot take are ignored, as those for tts-1 are.
    """
    if body.model is not None:
        _check_model(body.model, services)
    info = services.engine.info
    synthesis = SynthesisRequest(
        request.state.request_id,
        wire="openai",
        speaker=_speaker(body, services),
        language=body.language,
        instruct=body.instructions or None if info.takes_instruct else None,
        seed=body.seed,
    )
    form = wanted_form(body.response_format, body.sample_rate, body.speed, info.sample_rate_hz)
    speech = Speech(body.input, form, field="input")
    return answer_with(_kind(body), request, services, synthesis, speech)


@router.get("/models")
async def list_models(services: ServicesHere) -> ModelList:
    return ModelList(data=[Model(id=services.model_id)])


@router.get("/models/{model:path}")
async def get_model(model: str, services: ServicesHere) -> Model:
    _check_model(model, services)
    return Model(id=model)


@router.get("/audio/voices")
async def list_voices(services: ServicesHere) -> VoiceList:
    """The speakers, then OpenAI's names that stand for one."""
    speakers = [speaker.name for speaker in services.speakers.list()]
    aliases = [name for name in services.voices if name not in speakers]
    return VoiceList(voices=[Voice(id=name, name=name) for name in speakers + aliases])


@router.get("/")
async def probe(services: ServicesHere) -> ModelList:
    """Some clients look here first whether anybody answers."""
    return await list_models(services)


def _kind(body: SpeechRequest) -> type[AudioResponse]:
    """By the fields alone: OpenAI's client asks for octets in its Accept even when it wants events."""
    if body.stream_format == "sse":
        return EventResponse
    return AudioResponse if body.stream else CompleteAudioResponse


def _check_model(model: str, services: Services) -> None:
    if model != services.model_id and model not in MODEL_ALIASES:
        known = ", ".join([services.model_id, *sorted(MODEL_ALIASES)])
        raise ModelNotFound(f"The model {model[:60]!r} is not here; ask for one of {known}.")


def _speaker(body: SpeechRequest, services: Services) -> str | None:
    """A speaker goes before one of OpenAI's voices of the same name."""
    voice = body.voice.id if isinstance(body.voice, VoiceId) else body.voice
    name = body.speaker or voice
    if name is None or name not in services.voices:
        return name
    try:
        return services.speakers.get(name).name
    except SpeakerNotFound:
        return services.voices[name]
