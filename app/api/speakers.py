"""`/speakers`: who can speak here, and how somebody new comes to."""

from typing import Annotated

from fastapi import APIRouter, Form, UploadFile
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from firstword.app.api.dependencies import Services, ServicesHere
from firstword.app.api.errors import rejections_counted
from firstword.app.api.limits import max_file_bytes
from firstword.app.api.middleware import upload_too_large
from firstword.app.api.schemas import ERROR_ANSWERS, binary_answers
from firstword.app.speakers.interface import SpeakerInfo

router = APIRouter(prefix="/speakers", tags=["speakers"], responses=ERROR_ANSWERS)

BUNDLE_TYPE = "application/octet-stream"
BUNDLE_ANSWERS = binary_answers(BUNDLE_TYPE, description="A safetensors file.")


class SpeakerList(BaseModel):
    speakers: list[SpeakerInfo]


class OwnMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Enrolment(OwnMessage):
    name: str
    audio: UploadFile
    transcript: str = ""
    language: str | None = None


class Import(OwnMessage):
    bundle: UploadFile
    name: str | None = None


class Change(OwnMessage):
    """A field that is left out stays as it is."""

    transcript: str | None = None
    language: str | None = None


@router.get("")
async def list_speakers(services: ServicesHere) -> SpeakerList:
    return SpeakerList(speakers=services.speakers.list())


@router.get("/{name}")
async def get_speaker(name: str, services: ServicesHere) -> SpeakerInfo:
    return services.speakers.get(name)


@router.post("", status_code=201)
async def enrol(
    form: Annotated[Enrolment, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesHere,
) -> SpeakerInfo:
    """Makes a speaker of a recording of 1 to 30 s. It answers when the speaker is ready to speak."""
    with rejections_counted(services.metrics):
        recording = await _charged(form.audio, request, services)
        return await services.speakers.enrol(form.name, recording, form.transcript, form.language)


@router.post("/import", status_code=201)
async def import_speaker(
    form: Annotated[Import, Form(media_type="multipart/form-data")], request: Request, services: ServicesHere
) -> SpeakerInfo:
    """Takes in what another server's export gave."""
    with rejections_counted(services.metrics):
        bundle = await _charged(form.bundle, request, services)
        return await services.speakers.import_bundle(bundle, form.name)


@router.patch("/{name}")
async def update_speaker(name: str, change: Change, services: ServicesHere) -> SpeakerInfo:
    return await services.speakers.update(name, change.transcript, change.language)


@router.delete("/{name}", status_code=204)
async def delete_speaker(name: str, services: ServicesHere) -> None:
    """Streams that run finish."""
    await services.speakers.delete(name)


@router.get("/{name}/export", response_class=Response, responses=BUNDLE_ANSWERS)
async def export_speaker(name: str, services: ServicesHere) -> Response:
    """All that makes the speaker, for another server with the same checkpoint."""
    bundle = await services.speakers.export(name)
    headers = {"Content-Disposition": f'attachment; filename="{name}.safetensors"'}
    return Response(bundle, media_type=BUNDLE_TYPE, headers=headers)


async def _charged(file: UploadFile, request: Request, services: Services) -> bytes:
    """The file's content. Raises RateLimited; UploadTooLarge, as a form may be larger than its file."""
    services.quotas.charge(request.state.key_owner)
    content = await file.read()
    max_bytes = max_file_bytes(services.limits, request.url.path)
    assert max_bytes is not None, request.url.path
    if len(content) > max_bytes:
        raise upload_too_large(max_bytes)
    return content
