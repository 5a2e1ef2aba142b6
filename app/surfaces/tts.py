"""`POST /tts` and `GET /tts`: text in, audio out as it is made; signed addresses of the latter."""

import base64
import json
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.errors import InvalidRequest, TextTooLong
from firstword.app.http.errors import unknown_field
from firstword.app.http.forms import JsonOrFormRoute
from firstword.app.http.keys import SIGNATURE_PARAMETERS
from firstword.app.http.limits import speech_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import AUDIO_ANSWERS, ERROR_ANSWERS, SpeechBody
from firstword.app.http.service import ServiceHere
from firstword.app.http.spoken import framing_of
from firstword.app.http.streaming import BodyResponse, audio_response, resolve_output_format
from firstword.app.http.surface import HttpSurface
from firstword.app.speech_options import NotBoolean

DEFAULT_LIFETIME_S = 300
MAX_LIFETIME_S = 24 * 3600
MAX_URL_CHARS = 60 * 1024  # with its headers a request may have 64 KiB

router = APIRouter(tags=["speech"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute)


def _too_long(max_bytes: int) -> TextTooLong:
    return TextTooLong(f"the body is larger than {max_bytes} bytes; send a shorter text or recording")


class SpeechQuery(SpeechBody):
    """Parameters of `GET /tts`. Unknown ones are refused, but those that browsers' pages add."""

    model_config = ConfigDict(extra="allow")


@router.post("/tts", response_class=Response, responses=AUDIO_ANSWERS)
@Guard("speak", body=speech_body(_too_long))
async def speak(body: SpeechBody, request: Request, service: ServiceHere) -> BodyResponse:
    """Speak a text. The status line comes with the first audio."""
    output = resolve_output_format(body.format, body.sample_rate, body.speed, service)
    reference = await body.reference(service.limits.max_reference_bytes)
    delivery = body.delivery(body.stream, context=body.context)
    state = request.state
    synthesis = body.request(state.request_id, "http", state.client, reference, delivery)
    framing = framing_of(body.stream, body.wants_words)
    return audio_response(request, service, synthesis, output, framing, body)


@router.get("/tts", response_class=Response, responses=AUDIO_ANSWERS)
@Guard("speak", in_address="key or signature")
async def speak_to_player(
    query: Annotated[SpeechQuery, Query()],
    request: Request,
    service: ServiceHere,
) -> BodyResponse:
    """Speak a text to a player. It can only be given a URL, as an `<audio>` element can."""
    unknown = [name for name in query.model_extra or () if not _is_ignored(name)]
    if unknown:
        raise InvalidRequest(unknown_field(unknown[0], list(SpeechQuery.model_fields)), param=unknown[0])
    return await speak(query, request, service)


def _is_ignored(parameter: str) -> bool:
    """Parameters that keep a cache from answering, and those that were read with the key."""
    is_read = parameter == "api_key" or parameter in SIGNATURE_PARAMETERS
    return is_read or parameter == "cache_buster" or parameter.startswith("_")


class SignedUrlBody(SpeechBody):
    """What the address speaks, and for how long it may be asked for."""

    expires_in_s: Annotated[int, NotBoolean] = Field(DEFAULT_LIFETIME_S, ge=1, le=MAX_LIFETIME_S)


class SignedUrl(BaseModel):
    url: str  # relative to the server's own
    expires_at: datetime


@router.post("/v1/signed-urls")
@Guard("speak")
async def sign_url(body: SignedUrlBody, request: Request, service: ServiceHere) -> SignedUrl:
    """Return an address of `GET /tts` that needs no key, until it expires or the key is removed."""
    info, client = service.engine.info, request.state.client
    resolve_output_format(body.format, body.sample_rate, body.speed, service)
    info.limits.check_text(len(body.text))
    if body.speaker is not None:
        service.speakers.get(body.speaker, client)
    if isinstance(body.reference_audio, bytes):  # of a form; an address takes text
        body.reference_audio = base64.b64encode(body.reference_audio).decode()
    fields = body.model_dump(mode="json", exclude_unset=True, exclude={"expires_in_s"})
    parameters = [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in fields.items()
        if value is not None
    ]
    query, expires = service.auth.signer.sign(parameters, client, body.expires_in_s)
    url = f"/tts?{query}"
    if len(url) > MAX_URL_CHARS:
        raise TextTooLong(
            f"the address would have {len(url)} characters, at most {MAX_URL_CHARS} are taken; send the text "
            "to POST /tts",
            "text",
        )
    return SignedUrl(url=url, expires_at=datetime.fromtimestamp(expires, UTC))


surface = HttpSurface("tts", router.routes)
