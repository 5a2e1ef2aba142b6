"""OpenAI's custom voices, as `client.audio.voices` of its Python client calls them, over our speakers."""

import asyncio
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, UploadFile
from pydantic import BaseModel, Field
from starlette.requests import Request

from firstword.app.audio.decode import decode_recording
from firstword.app.errors import InvalidRequest
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import (
    MULTIPART,
    JsonOrFormRoute,
    MemoryFormRoute,
    checking,
    decoding,
    read_upload,
)
from firstword.app.http.limits import check_upload, upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, RequestFields, SentAudio
from firstword.app.http.service import ServiceHere
from firstword.app.speakers.consents import Consent, ConsentStore
from firstword.app.speakers.interface import checked_language
from firstword.app.speakers.lexicon import checked_lexicon

MAX_CONSENT_S = 120.0

router = APIRouter(prefix="/v1/audio", tags=["openai"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute)
form_router = APIRouter(
    prefix="/v1/audio", tags=["openai"], responses=ERROR_ANSWERS, route_class=MemoryFormRoute
)


def consents_of(request: Request) -> ConsentStore:
    consents: ConsentStore = request.state.matched.surface.consents
    return consents


ConsentsHere = Annotated[ConsentStore, Depends(consents_of)]


class VoiceFields(RequestFields):
    """Other fields are ignored; `transcript`, `language` and `lexicon` (JSON) are ours."""

    name: str
    type: Literal["audio_sample", "prompt"] = "audio_sample"
    audio_sample: SentAudio | None = None
    consent: str | None = Field(None, max_length=64)
    transcript: str = ""
    language: str | None = None
    lexicon: str = ""


class CustomVoice(BaseModel):
    id: str  # the speaker's name
    created_at: int
    name: str
    object: Literal["audio.voice"] = "audio.voice"
    type: Literal["audio_sample"] = "audio_sample"


class VoiceDeleted(BaseModel):
    id: str
    deleted: Literal[True] = True
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"


class ConsentForm(BaseModel):
    name: str
    language: str
    recording: UploadFile


class ConsentName(BaseModel):
    name: str


class VoiceConsent(BaseModel):
    id: str
    created_at: int
    language: str
    name: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"

    @classmethod
    def of(cls, consent: Consent) -> "VoiceConsent":
        return cls(id=consent.id, created_at=consent.created_at, language=consent.language, name=consent.name)


class VoiceConsentDeleted(BaseModel):
    id: str
    deleted: Literal[True] = True
    object: Literal["audio.voice_consent"] = "audio.voice_consent"


class VoiceConsentList(BaseModel):
    object: Literal["list"] = "list"
    data: list[VoiceConsent]
    first_id: str | None
    last_id: str | None
    has_more: bool


@router.post("/voices")
@Guard("enrol", body=upload_body(lambda limits: limits.max_upload_bytes))
async def create_voice(
    body: VoiceFields, request: Request, service: ServiceHere, consents: ConsentsHere
) -> CustomVoice:
    """Register a speaker from a recording, with the recording of its consent."""
    if body.type == "prompt":
        raise InvalidRequest(
            "voices from a description are not supported; send an audio_sample with its consent",
            "type",
        )
    if not isinstance(body.audio_sample, bytes):
        raise InvalidRequest("audio_sample is missing; send a file in a multipart form", "audio_sample")
    if body.consent is None:
        raise InvalidRequest("consent is missing; POST /v1/audio/voice_consents gives one", "consent")
    with rejections_counted(service.metrics):
        service.quotas.charge(request.state.client.name)
        check_upload(body.audio_sample, service.limits.max_upload_bytes)
        client = request.state.client
        consent = await asyncio.to_thread(consents.get, body.consent, client)
        info = await service.speakers.enrol(
            body.name,
            body.audio_sample,
            body.transcript,
            body.language or consent.language,
            client=client,
            lexicon=checked_lexicon(body.lexicon),
        )
        await asyncio.to_thread(consents.attach, consent.id, info)
    created_at = int(datetime.fromisoformat(info.created_at).timestamp())
    return CustomVoice(id=info.name, created_at=created_at, name=info.name)


@router.delete("/voices/{voice_id}")
@Guard("enrol")
async def delete_voice(voice_id: str, request: Request, service: ServiceHere) -> VoiceDeleted:
    """Delete the speaker, and its consent with it."""
    await service.speakers.delete(voice_id, client=request.state.client)
    return VoiceDeleted(id=voice_id)


@form_router.post("/voice_consents")
@Guard("enrol", body=upload_body(lambda limits: limits.max_upload_bytes))
async def create_consent(
    form: Annotated[ConsentForm, MULTIPART],
    request: Request,
    service: ServiceHere,
    consents: ConsentsHere,
) -> VoiceConsent:
    """Keep a recording in which a person agrees to a voice made of theirs. What is said is not checked."""
    with rejections_counted(service.metrics):
        recording = await read_upload(form.recording, service.limits.max_upload_bytes, request, service)
        language = checked_language(form.language)
        if language is None:
            raise InvalidRequest("language is empty; expected a tag such as en-US", "language")
        async with checking(request, service):
            with decoding():
                await asyncio.to_thread(decode_recording, recording, MAX_CONSENT_S)
        client = request.state.client
        added = await asyncio.to_thread(consents.add, form.name, language, recording, client)
        return VoiceConsent.of(added)


@router.get("/voice_consents")
@Guard("enrol")
async def list_consents(
    request: Request,
    consents: ConsentsHere,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> VoiceConsentList:
    """List the key's consents, the newest first; with the scope `admin` everybody's."""
    client = request.state.client
    found, has_more = await asyncio.to_thread(consents.list, after, limit, client)
    ids = [consent.id for consent in found]
    return VoiceConsentList(
        data=[VoiceConsent.of(consent) for consent in found],
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=has_more,
    )


@router.get("/voice_consents/{consent_id}")
@Guard("enrol")
async def get_consent(consent_id: str, request: Request, consents: ConsentsHere) -> VoiceConsent:
    return VoiceConsent.of(await asyncio.to_thread(consents.get, consent_id, request.state.client))


@router.post("/voice_consents/{consent_id}")
@Guard("enrol")
async def rename_consent(
    consent_id: str, body: ConsentName, request: Request, consents: ConsentsHere
) -> VoiceConsent:
    client = request.state.client
    return VoiceConsent.of(await asyncio.to_thread(consents.rename, consent_id, body.name, client))


@router.delete("/voice_consents/{consent_id}")
@Guard("enrol")
async def delete_consent(consent_id: str, request: Request, consents: ConsentsHere) -> VoiceConsentDeleted:
    """Only while no voice was created with it."""
    await asyncio.to_thread(consents.delete, consent_id, request.state.client)
    return VoiceConsentDeleted(id=consent_id)
