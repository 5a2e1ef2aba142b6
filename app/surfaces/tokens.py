"""Speech tokens over the wire: of a recording, of a text, and back into audio."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.core.interface import ListedTokens
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.errors import InvalidRequest, UploadTooLarge
from firstword.app.http.errors import error_body, rejections_counted
from firstword.app.http.forms import MULTIPART, JsonOrFormRoute, MemoryFormRoute
from firstword.app.http.limits import speech_body, upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import (
    AUDIO_ANSWERS,
    ERROR_ANSWERS,
    Answers,
    FileFields,
    Instruct,
    Name,
    ReferenceFields,
    Seed,
    sent_recording,
)
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.spoken import JSON_LINES, framing_of, line, reported
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.http.surface import HttpSurface
from firstword.app.speech_options import TextOptions

LINES_ANSWERS: Answers = {
    200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}, "description": "A line of JSON each."}
}

router = APIRouter(tags=["tokens"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute)
form_router = APIRouter(tags=["tokens"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute)


def _too_large(max_bytes: int) -> UploadTooLarge:
    return UploadTooLarge(f"the body is larger than {max_bytes} bytes; send a shorter one")


class RecordingForm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    audio: UploadFile


class SpeechTokens(BaseModel):
    tokens: tuple[int, ...]
    token_rate: float  # a second


class TokenSpeech(ReferenceFields, FileFields):
    """Fields of `POST /v1/token2wav`."""

    model_config = ConfigDict(extra="forbid")

    tokens: list[int] = Field(min_length=1, fail_fast=True)


class TokenRequestFields(ReferenceFields, TextOptions):
    """Fields of `POST /v1/tokens`."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1)
    speaker: Name | None = None
    language: Name | None = None
    instruct: Instruct | None = None
    seed: Seed | None = None


@form_router.post("/v1/speech-tokens")
@Guard("speak", body=upload_body(lambda limits: limits.max_reference_bytes))
async def read_speech_tokens(
    form: Annotated[RecordingForm, MULTIPART],
    request: Request,
    service: ServiceHere,
) -> SpeechTokens:
    """Return the speech tokens of a recording of 1 to 30 s, pauses included."""
    with rejections_counted(service.metrics):
        service.quotas.charge(request.state.client.name)
        max_bytes = service.limits.max_reference_bytes
        recording = await sent_recording(await form.audio.read(), "", max_bytes, "audio")
        return SpeechTokens(
            tokens=await service.speakers.source_tokens(recording, request.state.client),
            token_rate=service.engine.info.token_rate_hz,
        )


@router.post("/v1/token2wav", response_class=Response, responses=AUDIO_ANSWERS)
@Guard("speak", body=speech_body(_too_large))
async def speak_tokens(body: TokenSpeech, request: Request, service: ServiceHere) -> BodyResponse:
    """Turn speech tokens into audio with a speaker's voice, by flow and vocoder alone."""
    output = resolve_output_format(body.format, body.sample_rate, body.speed, service)
    reference = await body.reference(service.limits.max_reference_bytes)
    synthesis = SynthesisRequest(
        request.state.request_id,
        "http",
        mode="tokens",
        speech=tuple(body.tokens),
        voice=VoiceChoice(body.speaker, reference, body.voice_mode),
        seed=body.seed,
        delivery=Delivery(context=body.context, is_played=body.stream, cache=body.cache, speed=body.speed),
        client=request.state.client,
    )
    return audio_response(request, service, synthesis, output, framing_of(body.stream, has_words=False))


@router.post("/v1/tokens", response_class=Response, responses=LINES_ANSWERS)
@Guard("speak", body=speech_body(_too_large))
async def list_tokens(body: TokenRequestFields, request: Request, service: ServiceHere) -> Response:
    """Give the speech tokens of a text as they are drawn, with their log-probabilities, a line each."""
    state = request.state
    reference = await body.reference(service.limits.max_reference_bytes)
    synthesis = SynthesisRequest(
        state.request_id,
        "http",
        text=body.text,
        voice=VoiceChoice(body.speaker, reference, body.voice_mode, body.instruct, body.language),
        reading=body.reading,
        sampling=body.sampling,
        seed=body.seed,
        delivery=Delivery(cache=body.cache),
        client=state.client,
    )
    headers = {"Content-Type": JSON_LINES}
    lines = reported(_lines(service, synthesis, headers), lambda error: line(error_body(error)))
    return BodyResponse(lines, lambda: headers, service.limits.slow_listener_timeout_s)


async def _lines(
    service: Service, request: SynthesisRequest, headers: dict[str, str]
) -> AsyncGenerator[bytes]:
    """headers: get what the text is warned of, before the first line."""
    has_begun = False
    with rejections_counted(service.metrics), service.quotas.admitted(request.client.name):
        async with aclosing(service.engine.list_tokens(request)) as listed:
            async for tokens in listed:
                if not has_begun:
                    has_begun = True
                    if tokens.warnings:
                        headers["X-Firstword-Warnings"] = "; ".join(tokens.warnings)
                    service.usage.count(request.client.name, len(request.text or ""), 0.0)
                yield _lines_of(tokens)
        if not has_begun:
            raise InvalidRequest("the text has nothing that can be spoken; give at least one word", "text")


def _lines_of(tokens: ListedTokens) -> bytes:
    lines: list[dict[str, object]] = [
        {"segment": tokens.segment, "token": id, "logprob": None if logprob is None else round(logprob, 6)}
        for id, logprob in zip(tokens.ids, tokens.logprobs, strict=True)
    ]
    if tokens.reason is not None:
        lines.append({"segment": tokens.segment, "text": tokens.source, "end": tokens.reason})
    return b"".join(map(line, lines))


surface = HttpSurface("tokens", [*router.routes, *form_router.routes])
