"""OpenAI's speech API, as its own clients and agent frameworks call it."""

import json
import re
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.audio.formats import MAX_SPEED, MIN_SPEED, AudioFormat
from firstword.app.clients import Client
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.errors import InvalidRequest, ModelNotFound, SpeakerNotFound, StringTooLong, TextTooLong
from firstword.app.http.errors import error_body
from firstword.app.http.forms import JsonOrFormRoute
from firstword.app.http.limits import speech_body
from firstword.app.http.routes import Guard
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
)
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.spoken import Framing, SpokenAudio, framing_of, in_json
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.speech_options import NotBoolean, SpeechOptions

MODEL_ALIASES = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")  # the defaults of clients
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")  # behind the name of a model, a version of it

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute)


def _too_long(max_bytes: int) -> StringTooLong:
    return StringTooLong(f"the body is larger than {max_bytes} bytes; send a shorter text", "input")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that OpenAI's clients send."""

    model_id: str  # the model's
    voices: Mapping[str, str]  # OpenAI's voices -> our speakers
    accepts_any_model: bool = True  # not only those of /v1/models
    default_voices: Collection[str] = ()  # of OpenAI's voices, those that are no particular speaker

    def check_model(self, model: str) -> None:
        """Raise ModelNotFound."""
        known = (self.model_id, *MODEL_ALIASES)
        name = _DATE.sub("", model.lower())
        if not self.accepts_any_model and name not in (one.lower() for one in known):
            raise ModelNotFound(f"unknown model {model[:60]!r}; choose one of {', '.join(known)}")


def names_of(request: Request) -> Names:
    names: Names = request.state.matched.surface.names
    return names


NamesHere = Annotated[Names, Depends(names_of)]


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
@Guard("speak", body=speech_body(_too_long))
async def create_speech(
    body: SpeechRequest, request: Request, service: ServiceHere, names: NamesHere
) -> BodyResponse:
    """Speak a text, as audio or as events. The status line comes with the first audio.

    Instructions that the checkpoint does not support are ignored, as those for tts-1 are.
    """
    if body.model is not None:
        names.check_model(body.model)
    info = service.engine.info
    is_streamed = body.stream or body.stream_format == "sse"
    reference = await body.reference(service.limits.max_reference_bytes)
    has_own_voice = body.speaker is None and body.reference_audio
    speaker = None if has_own_voice else _speaker(body, request.state.client, service, names)
    instruct = body.instructions or None if info.takes_instruct else None
    synthesis = SynthesisRequest(
        request.state.request_id,
        "openai",
        text=body.input,
        voice=VoiceChoice(speaker, reference, body.voice_mode, instruct, body.language),
        reading=body.reading,
        sampling=body.sampling,
        seed=body.seed,
        delivery=Delivery(
            body.volume, body.context, body.wants_words, is_streamed, cache=body.cache, speed=body.speed
        ),
        client=request.state.client,
    )
    if body.timestamps is not None and body.stream_format != "sse":
        raise InvalidRequest('timestamps come with events only; set stream_format to "sse"', "timestamps")
    output = resolve_output_format(body.response_format, body.sample_rate, body.speed, service)
    # By the fields alone: OpenAI's client accepts octets even when it asks for events.
    framing = EVENTS if body.stream_format == "sse" else framing_of(body.stream, has_words=False)
    return audio_response(request, service, synthesis, output, framing, body, _in_openai_words)


async def _events(audio: SpokenAudio) -> AsyncGenerator[bytes]:
    """OpenAI's server-sent events. Input tokens are counted as characters: those of the text are not told."""
    async with audio.chunks() as chunks:
        async for chunk in chunks:
            yield _event({"type": "speech.audio.delta", **in_json(audio, chunk)})
    stats = audio.session.stream.stats
    usage = {
        "input_tokens": stats.characters,
        "output_tokens": stats.speech_tokens,
        "total_tokens": stats.characters + stats.speech_tokens,
    }
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


EVENTS: Final = Framing(
    _events,
    "text/event-stream",
    report=lambda error: _event({"type": "speech.audio.error", **error_body(error)}),
)


@router.get("/models")
@Guard("any key", is_list=True)
async def list_models(names: NamesHere) -> ModelList:
    return ModelList(data=[Model(id=name) for name in (names.model_id, *MODEL_ALIASES)])


@router.get("/models/{model:path}")
@Guard("any key", is_list=True)
async def get_model(model: str, names: NamesHere) -> Model:
    names.check_model(model)
    return Model(id=model)


@router.get("/audio/voices")
@Guard("any key", is_list=True)
async def list_voices(request: Request, service: ServiceHere, names: NamesHere) -> VoiceList:
    """List the speakers, then OpenAI's voice names, which are mapped to speakers."""
    speakers = [speaker.name for speaker in service.speakers.list(request.state.client)]
    return VoiceList(voices=[Voice(id=name, name=name) for name in dict.fromkeys([*speakers, *names.voices])])


@router.get("")
@Guard("any key", is_list=True)
async def probe(names: NamesHere) -> ModelList:
    """Answer clients that probe the base URL first."""
    return await list_models(names)


def _in_openai_words(error: Exception) -> Exception:
    match error:
        case TextTooLong():
            return StringTooLong(error.message, "input")
        case InvalidRequest(param="text"):
            return InvalidRequest(error.message, "input")
        case InvalidRequest(param="instruct"):
            return InvalidRequest(error.message, "instructions")
        case SpeakerNotFound():
            return SpeakerNotFound(error.message, "voice")
    return error


def _speaker(body: SpeechRequest, client: Client, service: Service, names: Names) -> str | None:
    """A speaker takes precedence over one of OpenAI's voices of the same name."""
    voice = body.voice.id if isinstance(body.voice, VoiceId) else body.voice
    name = body.speaker or voice
    if name is None or name.lower() not in names.voices:
        return name
    try:
        return service.speakers.get(name, client).name
    except SpeakerNotFound:
        return None if name.lower() in names.default_voices else names.voices[name.lower()]
