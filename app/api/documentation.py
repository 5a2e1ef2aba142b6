"""What the OpenAPI document says of answers that no route's own types describe."""

from typing import Any

from pydantic import BaseModel

from app.api.errors import ErrorType
from app.audio.formats import FORMATS

Answers = dict[int | str, dict[str, Any]]


class ErrorFields(BaseModel):
    message: str
    type: ErrorType
    param: str | None
    code: str


class ErrorAnswer(BaseModel):
    error: ErrorFields


ERROR_ANSWERS: Answers = {"default": {"model": ErrorAnswer, "description": "What went wrong."}}


def binary_answers(*media_types: str, status: int = 200, description: str) -> Answers:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {status: {"content": content, "description": description}}


AUDIO_ANSWERS = binary_answers(
    *(info.media_type for info in FORMATS.values()), description="Audio, in chunks as they are made."
)
