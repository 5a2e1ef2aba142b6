"""`/speakers`: list, register, change, remove, export and import speakers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.clients import Access, Client
from firstword.app.errors import MissingScope
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import MULTIPART, AnyFormRoute, read_upload
from firstword.app.http.idempotency import request_key
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, binary_answers
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.surface import HttpSurface
from firstword.app.speakers.interface import (
    Description,
    KnownSpeaker,
    Quality,
    RequestKey,
    SpeakerChange,
    is_name,
    max_bundle_bytes,
)
from firstword.app.speakers.lexicon import checked_lexicon
from firstword.app.speech_options import Lexicon

router = APIRouter(prefix="/speakers", tags=["speakers"], responses=ERROR_ANSWERS, route_class=AnyFormRoute)

MAX_PAGE = 1000
BUNDLE_TYPE = "application/octet-stream"
BUNDLE_ANSWERS = binary_answers(BUNDLE_TYPE, description="A safetensors file.")


@dataclass(frozen=True, slots=True)
class SpeakerInfo:
    name: str
    kind: Literal["builtin", "registered"]
    created_at: str
    duration_s: float
    transcript: str
    language: str | None
    quality: Quality | None
    prompt_tokens: int
    cached: bool
    damaged: bool = False
    owner: str | None = None
    access: Access = "shared"
    lexicon: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    yours: bool = Field(description="Whether the key may rename it and change its `access`.")
    description: Description | None = None

    @classmethod
    def of(cls, speaker: KnownSpeaker, client: Client) -> "SpeakerInfo":
        return cls(
            name=speaker.name,
            kind=speaker.kind,
            created_at=speaker.created_at,
            duration_s=speaker.prompt.duration_s,
            transcript=speaker.prompt.transcript,
            language=speaker.prompt.language,
            quality=speaker.quality,
            prompt_tokens=speaker.prompt.num_tokens,
            cached=speaker.cached,
            damaged=speaker.damaged,
            owner=speaker.owner,
            access=speaker.access,
            lexicon=speaker.lexicon,
            version=speaker.version,
            yours=speaker.kind == "registered" and client.may_share(speaker.owner or ""),
            description=speaker.description,
        )


class SpeakerList(BaseModel):
    speakers: list[SpeakerInfo]


class SpeakerPage(SpeakerList):
    """next: the `after` of the next page; null where there are no more."""

    next: str | None


class StrictForm(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Enrolment(StrictForm):
    name: str
    audio: UploadFile
    transcript: str = ""
    language: str | None = None
    access: Access | None = None
    lexicon: str = Field("", description='What it says for a word, as JSON: {"Nguyen": "win"}.')


class Import(StrictForm):
    bundle: UploadFile
    name: str | None = None
    access: Access | None = None


class Change(StrictForm):
    """A field that is left out stays as it is. version: of the speaker which is changed, if it matters."""

    name: str | None = None
    transcript: str | None = None
    language: str | None = None
    access: Access | None = None
    lexicon: Lexicon | None = None
    version: Annotated[int, Field(ge=1)] | None = None


def client_or_owner(
    request: Request,
    owner: Annotated[str | None, Query(description="Whose private speaker; for administrators.")] = None,
) -> Client:
    """Several owners may have a private speaker of one name. Raises MissingScope."""
    client: Client = request.state.client
    if owner is None or (owner and owner == client.name):
        return client
    if not client.is_admin:
        raise MissingScope("only a key with the scope admin may say `owner`; leave it out", "admin")
    return Client(owner)


ClientOrOwner = Annotated[Client, Depends(client_or_owner)]


@router.get("")
@Guard("any key", is_list=True)
async def list_speakers(
    request: Request,
    service: ServiceHere,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Left out: all of them.")] = None,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
) -> SpeakerPage | SpeakerList:
    """List the speakers that the key sees; with `limit` or `after` page by page."""
    client: Client = request.state.client
    if limit is None and after is None:
        return SpeakerList(speakers=[SpeakerInfo.of(one, client) for one in service.speakers.list(client)])
    found, following = service.speakers.page(client, after, limit or MAX_PAGE)
    return SpeakerPage(speakers=[SpeakerInfo.of(one, client) for one in found], next=following)


@router.get("/{name}")
@Guard("any key")
async def get_speaker(name: str, client: ClientOrOwner, service: ServiceHere) -> SpeakerInfo:
    return SpeakerInfo.of(service.speakers.get(name, client), client)


@router.post("", status_code=201)
@Guard("enrol", body=upload_body(lambda limits: limits.max_upload_bytes))
async def enrol(
    form: Annotated[Enrolment, MULTIPART],
    request: Request,
    service: ServiceHere,
) -> SpeakerInfo:
    """Make a speaker of a recording of 1 to 30 s. The response comes when the speaker is ready to speak."""
    with rejections_counted(service.metrics):
        recording = await read_upload(form.audio, service.limits.max_upload_bytes, request, service)
        client: Client = request.state.client
        enrol = partial(
            service.speakers.enrol,
            form.name,
            recording,
            form.transcript,
            form.language,
            client=client,
            access=form.access,
            lexicon=checked_lexicon(form.lexicon),
        )
        said = form.model_dump_json(exclude={"audio"}).encode()
        return await _once(request_key(request, recording, said), service, client, enrol)


@router.post("/import", status_code=201)
@Guard("enrol", body=upload_body(lambda limits: max_bundle_bytes(limits.max_upload_bytes)))
async def import_speaker(
    form: Annotated[Import, MULTIPART], request: Request, client: ClientOrOwner, service: ServiceHere
) -> SpeakerInfo:
    """Add a speaker that another server exported."""
    with rejections_counted(service.metrics):
        max_bytes = max_bundle_bytes(service.limits.max_upload_bytes)
        bundle = await read_upload(form.bundle, max_bytes, request, service)
        enrol = partial(service.speakers.import_bundle, bundle, form.name, client=client, access=form.access)
        said = form.model_dump_json(exclude={"bundle"}).encode()
        return await _once(request_key(request, bundle, said), service, client, enrol)


@router.patch("/{name}")
@Guard("enrol")
async def update_speaker(
    name: str, change: Change, client: ClientOrOwner, service: ServiceHere
) -> SpeakerInfo:
    lexicon = None if change.lexicon is None else checked_lexicon(change.lexicon)
    fields = SpeakerChange(
        change.transcript, change.language, change.access, lexicon, change.version, change.name
    )
    return SpeakerInfo.of(await service.speakers.update(name, fields, client=client), client)


@router.delete("/{name}", status_code=204)
@Guard("enrol")
async def delete_speaker(name: str, client: ClientOrOwner, service: ServiceHere) -> None:
    """Streams that are running finish."""
    await service.speakers.delete(name, client=client)


@router.get("/{name}/export", response_class=Response, responses=BUNDLE_ANSWERS)
@Guard("enrol")
async def export_speaker(name: str, client: ClientOrOwner, service: ServiceHere) -> Response:
    """Return the speaker as a file for another server with the same checkpoint."""
    bundle = await service.speakers.export(name, client=client)
    # A checkpoint may give its speakers names that no header can hold as they are.
    file = (
        f'filename="{name}.safetensors"' if is_name(name) else f"filename*=utf-8''{quote(name)}.safetensors"
    )
    headers = {"Content-Disposition": f"attachment; {file}"}
    return Response(bundle, media_type=BUNDLE_TYPE, headers=headers)


async def _once(
    key: RequestKey | None,
    service: Service,
    client: Client,
    enrol: Callable[[], Awaitable[KnownSpeaker]],
) -> SpeakerInfo:
    made = await (enrol() if key is None else service.speakers.once(key, client, enrol))
    return SpeakerInfo.of(made, client)


surface = HttpSurface("speakers", router.routes)
