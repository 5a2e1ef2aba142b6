"""What a batch is made of, and how it is described."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firstword.app.http.errors import invalid_request
from firstword.app.http.schemas import RequestFields, SpeechBody
from firstword.app.surfaces.batches.store import Batch, BatchState, Item, ItemState

MAX_ITEMS = 10_000
MAX_ITEM_CHARS = 100_000  # a long chapter, about two hours of speech
MAX_BATCH_CHARS = 4_000_000

FileName = Annotated[str, Field(pattern=r"^[\w][\w .-]{0,99}$")]


class ItemFields(SpeechBody):
    """The body of `POST /tts`, and a name."""

    name: FileName | None = Field(None, description="Of its file, without the format; else its number.")


class NewBatch(RequestFields):
    """Fields of `POST /v1/audio/batches`."""

    model_config = ConfigDict(extra="forbid")

    items: list[dict[str, Any]] = Field(
        fail_fast=True,
        min_length=1,
        max_length=MAX_ITEMS,
        description="Of each what the body of POST /tts has, and `name`, that of its file.",
    )


class BatchAnswer(BaseModel):
    id: str
    object: Literal["audio.batch"] = "audio.batch"
    state: BatchState
    created_at: int  # seconds since 1970
    items: int
    queued: int
    running: int
    done: int
    failed: int
    audio_bytes: int
    audio_seconds: float


class BatchList(BaseModel):
    batches: list[BatchAnswer]


class ItemError(BaseModel):
    code: str
    message: str


class ItemAnswer(BaseModel):
    number: int
    name: str
    state: ItemState
    audio_bytes: int
    audio_seconds: float
    error: ItemError | None


class ItemList(BaseModel):
    items: list[ItemAnswer]


def parsed_items(given: list[dict[str, Any]]) -> list[ItemFields]:
    """Raises InvalidRequest that names the first bad item and its field."""
    items: list[ItemFields] = []
    for index, fields in enumerate(given):
        try:
            items.append(ItemFields.model_validate(fields))
        except ValidationError as error:
            faults = [{**fault, "loc": ("items", index, *fault["loc"])} for fault in error.errors()]
            raise invalid_request(faults, list(ItemFields.model_fields)) from None
    return items


def batch_answer(batch: Batch) -> BatchAnswer:
    return BatchAnswer(
        id=batch.id,
        state=batch.progress,
        created_at=batch.created_at,
        items=batch.num_items,
        queued=batch.num_queued,
        running=batch.num_running,
        done=batch.num_done,
        failed=batch.num_failed,
        audio_bytes=batch.num_bytes,
        audio_seconds=round(batch.audio_s, 3),
    )


def item_answer(item: Item) -> ItemAnswer:
    error = None if item.code is None else ItemError(code=item.code, message=item.message or "")
    return ItemAnswer(
        number=item.number,
        name=item.name,
        state=item.state,
        audio_bytes=item.num_bytes,
        audio_seconds=round(item.audio_s, 3),
        error=error,
    )
