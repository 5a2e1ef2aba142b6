"""`/v1/audio/batches`: a list of texts, or a whole book, spoken in the background and kept until deleted."""

import asyncio
import zipfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.background import BackgroundTask
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from firstword.app.audio.formats import FORMATS
from firstword.app.clients import Client
from firstword.app.errors import InvalidRequest, PathNotFound, TextTooLong, UploadTooLarge
from firstword.app.http.errors import rejections_counted
from firstword.app.http.forms import JsonOrFormRoute
from firstword.app.http.idempotency import request_key
from firstword.app.http.limits import BodyLimit
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS, binary_answers
from firstword.app.http.service import Service, ServiceHere
from firstword.app.http.streaming import SYNTHETIC, BodyResponse, resolve_output_format
from firstword.app.server_options import Limits
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.schemas import (
    MAX_BATCH_CHARS,
    MAX_ITEM_CHARS,
    BatchAnswer,
    BatchList,
    ItemFields,
    ItemList,
    NewBatch,
    batch_answer,
    item_answer,
    parsed_items,
)
from firstword.app.surfaces.batches.store import Batch, BatchStore, NewItem

MAX_LISTED = 1000
_PIECE_BYTES = 256 * 1024
_HEADERS = {"Cache-Control": "no-store", SYNTHETIC: "true"}

router = APIRouter(
    prefix="/v1/audio/batches", tags=["batches"], responses=ERROR_ANSWERS, route_class=JsonOrFormRoute
)


def _list_body(limits: Limits) -> BodyLimit:
    max_bytes = limits.max_batch_bytes
    return BodyLimit(
        max_bytes,
        lambda: UploadTooLarge(f"the body is larger than {max_bytes} bytes; make several batches of it"),
    )


def batches_of(request: Request) -> Batches:
    batches: Batches = request.state.matched.surface.batches
    return batches


BatchesHere = Annotated[Batches, Depends(batches_of)]


@router.post("", status_code=201)
@Guard("speak", body=_list_body)
async def create_batch(
    body: NewBatch, request: Request, service: ServiceHere, batches: BatchesHere
) -> BatchAnswer:
    """Take a list of texts, to be spoken while nobody who listens needs the slots."""
    client: Client = request.state.client
    with rejections_counted(service.metrics):
        service.quotas.charge(client.name)
        items, new = await asyncio.to_thread(_checked_items, body.items, client, service)
        for speaker in dict.fromkeys(item.speaker for item in items):
            if speaker is not None:
                service.speakers.get(speaker, client)
        for index, item in enumerate(items):
            try:
                await item.reference(service.limits.max_reference_bytes)
            except InvalidRequest as error:
                raise InvalidRequest(f"items[{index}]: {error.message}", "items") from None
        key = await asyncio.to_thread(lambda: request_key(request, repr(new).encode()))
        batch = await asyncio.to_thread(batches.store.add, client.name, new, key)
        batches.changed.set()
    return batch_answer(batch)


@router.get("")
@Guard("speak")
async def list_batches(request: Request, batches: BatchesHere) -> BatchList:
    """List the key's batches, the newest first; with the scope `admin` everybody's."""
    client: Client = request.state.client
    found = await asyncio.to_thread(batches.store.owned_by, client.visible_owner, MAX_LISTED)
    return BatchList(batches=[batch_answer(batch) for batch in found])


@router.get("/{id}")
@Guard("speak")
async def get_batch(id: str, request: Request, batches: BatchesHere) -> BatchAnswer:
    return batch_answer(await _own_batch(id, request, batches))


@router.get("/{id}/items")
@Guard("speak")
async def list_items(
    id: str,
    request: Request,
    batches: BatchesHere,
    after: Annotated[int, Query(ge=0, description="The number of the last one seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> ItemList:
    batch = await _own_batch(id, request, batches)
    found = await asyncio.to_thread(batches.store.items, batch.id, after, limit)
    return ItemList(items=[item_answer(item) for item in found])


@router.get(
    "/{id}/items/{number}/audio",
    response_class=Response,
    responses=binary_answers(*(info.media_type for info in FORMATS.values()), description="The audio."),
)
@Guard("speak")
async def get_item_audio(id: str, number: int, request: Request, batches: BatchesHere) -> Response:
    """Return the audio of an item that is done."""
    batch = await _own_batch(id, request, batches)
    for found, name, path in await asyncio.to_thread(batches.store.files, batch.id):
        if found == number:
            media_type = next(
                info.media_type for format, info in FORMATS.items() if name.endswith(f".{format}")
            )
            reading = ExitStack()
            try:
                at = await asyncio.to_thread(
                    reading.enter_context, batches.store.audio(batch.id, number, path)
                )
            except FileNotFoundError:
                break  # it was deleted meanwhile
            return FileResponse(
                at,
                headers=_HEADERS,
                media_type=media_type,
                filename=name,
                background=BackgroundTask(reading.close),
            )
    raise PathNotFound(f"item {number} of batch {batch.id} is not there, or not done; its list of items says")


@router.get(
    "/{id}/audio",
    response_class=Response,
    responses=binary_answers("application/zip", description="A zip file with all that is done."),
)
@Guard("speak")
async def get_batch_audio(id: str, request: Request, service: ServiceHere, batches: BatchesHere) -> Response:
    """Return the audio of all items that are done, as one zip file, made while it is sent."""
    batch = await _own_batch(id, request, batches)
    files = await asyncio.to_thread(batches.store.files, batch.id)
    headers = {
        **_HEADERS,
        "Content-Type": "application/zip",
        "Content-Disposition": f'attachment; filename="{batch.id}.zip"',
    }

    async def pieces() -> AsyncGenerator[bytes]:
        async for piece in iterate_in_threadpool(_zipped(batch.id, files, batches.store)):
            yield piece

    return BodyResponse(pieces(), lambda: headers, service.limits.slow_listener_timeout_s)


@router.post("/{id}/cancel")
@Guard("speak")
async def cancel_batch(id: str, request: Request, batches: BatchesHere) -> BatchAnswer:
    """Speak no more of it. What is done stays until the batch is deleted."""
    batch = await _own_batch(id, request, batches)
    await asyncio.to_thread(batches.store.cancel, batch.id)
    batches.stop(batch.id)
    return batch_answer(await asyncio.to_thread(batches.store.get, batch.id))


@router.delete("/{id}", status_code=204)
@Guard("speak")
async def delete_batch(id: str, request: Request, batches: BatchesHere) -> None:
    """Delete it with its audio; what is being spoken of it stops."""
    batch = await _own_batch(id, request, batches)
    await asyncio.to_thread(batches.store.delete, batch.id)
    batches.stop(batch.id)
    await asyncio.to_thread(batches.store.remove_files, batch.id)


async def _own_batch(id: str, request: Request, batches: Batches) -> Batch:
    """Raises PathNotFound, also for another key's."""
    batch = await asyncio.to_thread(batches.store.get, id)
    if not request.state.client.sees(batch.owner, "private"):
        raise PathNotFound(f"there is no batch {id[:64]!a}; GET /v1/audio/batches lists them")
    return batch


def _checked_items(
    given: Sequence[dict[str, Any]], client: Client, service: Service
) -> tuple[list[ItemFields], list[NewItem]]:
    """Return the items, and as they are stored. Raises InvalidRequest and TextTooLong that name the item."""
    items = parsed_items(list(given))
    num_chars = 0
    new: dict[str, NewItem] = {}  # by name
    for index, item in enumerate(items):
        num_chars += len(item.text)
        if len(item.text) > MAX_ITEM_CHARS:
            raise TextTooLong(
                f"items[{index}].text has {len(item.text)} characters, at most {MAX_ITEM_CHARS} are spoken "
                "into one file; make several items of it",
                "items",
            )
        if item.wants_words:
            raise InvalidRequest(f"items[{index}]: timestamps are not kept; leave them out", "items")
        name = item.name or f"{index + 1:05}"
        if name in new:
            raise InvalidRequest(f"items[{index}]: the name {name!a} came before; give each its own", "items")
        new[name] = NewItem(name, item.format, item.model_dump_json(exclude_unset=True))
        try:
            resolve_output_format(item.format, item.sample_rate, item.speed, service)
            info = service.engine.info
            info.language_of(item.language)
            info.check(item.request("", "batch", client, delivery=item.delivery(is_background=True)))
        except InvalidRequest as error:
            raise InvalidRequest(f"items[{index}]: {error.message}", "items") from None
    if num_chars > MAX_BATCH_CHARS:
        raise TextTooLong(
            f"the texts have {num_chars} characters, at most {MAX_BATCH_CHARS} are taken at once; make "
            "several batches of them",
            "items",
        )
    return items, list(new.values())


class _Sink:
    """What a ZipFile writes to, and cannot seek in; taken piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def _zipped(id: str, files: Sequence[tuple[int, str, Path]], store: BatchStore) -> Iterator[bytes]:
    """files: number, name and path of each of the batch. Stored as they are: audio hardly compresses."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for number, name, path in files:
            with suppress(FileNotFoundError), store.audio(id, number, path) as at, at.open("rb") as source:
                entry = zipfile.ZipInfo.from_file(at, name)
                with archive.open(entry, "w") as target:
                    while piece := source.read(_PIECE_BYTES):
                        target.write(piece)
                        yield sink.take()
            yield sink.take()
    yield sink.take()
