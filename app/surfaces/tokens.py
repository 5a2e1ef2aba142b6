"""Speech tokens over the wire: of a recording, of a text, and back into audio."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Form, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from firstword.app.core.interface import MAX_SPEECH_TOKENS, ListedTokens, SynthesisRequest
from firstword.app.errors import InvalidRequest, TtsError, UploadTooLarge
from firstword.app.http.errors import error_body, rejections_counted
from firstword.app.http.forms import JsonOrFormRoute, MemoryFormRoute
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
    synthesis_request,
)
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.streaming import (
    AudioResponse,
    TimedStreamingResponse,
    audio_response,
)
from firstword.app.http.surface import HttpSurface
from firstword.app.speech_options import TextOptions

JSON_LINES = "application/x-ndjson"
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

    tokens: list[int] = Field(min_length=1, max_length=MAX_SPEECH_TOKENS)


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
    form: Annotated[RecordingForm, Form(media_type="multipart/form-data")],
    request: Request,
    service: ServiceHere,
) -> SpeechTokens:
    """Return the speech tokens of a recording of 1 to 30 s, pauses included."""
    with rejections_counted(service.metrics):
        service.quotas.charge(request.state.client.name)
        max_bytes = service.limits.max_reference_bytes
        recording = await sent_recording(await form.audio.read(), "", max_bytes, "audio")
        return SpeechTokens(
            tokens=await service.speakers.source_tokens(recording),
            token_rate=service.engine.info.token_rate_hz,
        )


@router.post("/v1/token2wav", response_class=Response, responses=AUDIO_ANSWERS)
@Guard("speak", body=speech_body(_too_large))
async def speak_tokens(body: TokenSpeech, request: Request, service: ServiceHere) -> AudioResponse:
    """Turn speech tokens into audio with a speaker's voice, by flow and vocoder alone."""
    return await audio_response(body, request, service, mode="tokens", speech=tuple(body.tokens))


@router.post("/v1/tokens", response_class=Response, responses=LINES_ANSWERS)
@Guard("speak", body=speech_body(_too_large))
async def list_tokens(body: TokenRequestFields, request: Request, service: ServiceHere) -> Response:
    """Give the speech tokens of a text as they are drawn, with their log-probabilities, a line each."""
    state = request.state
    reference = await body.reference(service.limits.max_reference_bytes)
    synthesis = synthesis_request(
        body, state.request_id, state.client, "http", text=body.text, reference=reference
    )
    with rejections_counted(service.metrics):
        warnings: list[str] = []
        lines = _lines(service, synthesis, warnings)
        try:
            first = await anext(lines)  # what fails before it has its real status
        except StopAsyncIteration:
            raise InvalidRequest(
                "the text has nothing that can be spoken; give at least one word", "text"
            ) from None
    response = LinesResponse(first, lines, service.limits.slow_listener_timeout_s)
    if warnings:
        response.headers["X-Firstword-Warnings"] = "; ".join(warnings)
    return response


class LinesResponse(TimedStreamingResponse):
    """JSON lines as they come. A client that leaves, or reads none for too long, ends them."""

    def __init__(self, first: str, rest: AsyncGenerator[str], send_timeout_s: float) -> None:
        self._rest = rest
        headers = {"Cache-Control": "no-store"}
        super().__init__(self._all(first), send_timeout_s, JSON_LINES, headers)

    async def _all(self, first: str) -> AsyncIterator[str]:
        yield first
        async for line in self._rest:
            yield line

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._rest):
            await super().stream_response(send)


async def _lines(service: Service, request: SynthesisRequest, warnings: list[str]) -> AsyncGenerator[str]:
    """An error after the first line is the last one. warnings: filled before it."""
    has_begun = False
    with service.quotas.admitted(request.client.name):
        async with aclosing(service.engine.list_tokens(request)) as listed:
            try:
                async for tokens in listed:
                    if not has_begun:
                        warnings += tokens.warnings
                        service.usage.count(request.client.name, len(request.text or ""), 0.0)
                    yield _lines_of(tokens)
                    has_begun = True
            except TtsError as error:
                if not has_begun:
                    raise
                yield json.dumps(error_body(error)) + "\n"


def _lines_of(tokens: ListedTokens) -> str:
    lines: list[dict[str, object]] = [
        {"segment": tokens.segment, "token": id, "logprob": None if logprob is None else round(logprob, 6)}
        for id, logprob in zip(tokens.ids, tokens.logprobs, strict=True)
    ]
    if tokens.reason is not None:
        lines.append({"segment": tokens.segment, "text": tokens.source, "end": tokens.reason})
    return "".join(json.dumps(line) + "\n" for line in lines)


surface = HttpSurface("tokens", [*router.routes, *form_router.routes])
