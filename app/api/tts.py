"""POST /tts and GET /tts.

`/tts`: text in, audio out as it is made.
"""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.api.dependencies import Services, ServicesHere
from firstword.app.api.schemas import AUDIO_ANSWERS, ERROR_ANSWERS, VoiceFields
from firstword.app.api.streaming import AudioResponse, CompleteAudioResponse, Speech, answer_with, wanted_form
from firstword.app.audio.formats import AudioFormat
from firstword.app.engine.interface import SynthesisRequest

router = APIRouter(tags=["speech"], responses=ERROR_ANSWERS)


class SpeechQuery(VoiceFields):
    """What `GET /tts` takes; other parameters are ignored."""

    text: str = Field(min_length=1, description="What is to be said.")
    format: AudioFormat = "wav"
    stream: bool = Field(True, description="false: one complete body with its length.")
    normalize: bool = Field(True, description="Write out numbers and the like before speaking.")


class SpeechBody(SpeechQuery):
    """What `POST /tts` takes; other fields are refused."""

    model_config = ConfigDict(extra="forbid")


@router.post("/tts", response_class=Response, responses=AUDIO_ANSWERS)
async def speak(body: SpeechBody, request: Request, services: ServicesHere) -> AudioResponse:
    """Speaks a text. The status line comes with the first audio."""
    return _answer(body, request, services)


@router.get("/tts", response_class=Response, responses=AUDIO_ANSWERS)
async def speak_to_player(
    query: Annotated[SpeechQuery, Query()],
    request: Request,
    services: ServicesHere,
) -> AudioResponse:
    """The same for a player that can only be given an address, such as an `<audio>` element."""
    return _answer(query, request, services)


def _answer(asked: SpeechQuery, request: Request, services: Services) -> AudioResponse:
    default_hz = services.engine.info.sample_rate_hz
    form = wanted_form(asked.format, asked.sample_rate, asked.speed, default_hz)
    synthesis = SynthesisRequest(
        request.state.request_id,
        wire="http",
        speaker=asked.speaker,
        language=asked.language,
        instruct=asked.instruct,
        seed=asked.seed,
        normalize=asked.normalize,
    )
    kind = AudioResponse if asked.stream else CompleteAudioResponse
    return answer_with(kind, request, services, synthesis, Speech(asked.text, form))
