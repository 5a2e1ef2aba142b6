"""Request bodies and fields shared by the routes.

The fields that a request for speech has on every wire of our own.

What the OpenAPI document says of answers that no route's own types describe.
"""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from firstword.app.api.errors import ErrorType
from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED

MAX_NAME_CHARS = 256  # far beyond any name there is
MAX_INSTRUCT_CHARS = 1000  # it is part of what the language model reads
MAX_SEED = 2**53 - 1  # the largest that every reader of JSON takes for itself

# A string without a limit would let lone surrogates through, which cannot be encoded again.
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Instruct = Annotated[str, Field(max_length=MAX_INSTRUCT_CHARS)]


class VoiceFields(BaseModel):
    """Who speaks, and how."""

    speaker: Name | None = Field(None, description="A name of GET /speakers; left out, the default one.")
    sample_rate: int | None = Field(None, description="In Hz. 24000 if left out; 8000 for ulaw and alaw.")
    speed: float = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    language: Name | None = Field(None, description="Found in the text if left out.")
    instruct: Instruct | None = Field(None, description="How to say it, on checkpoints that take such.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="The same one says it the same way again.")


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
