"""Request fields shared by the routes, and OpenAPI's descriptions of their responses."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from firstword.app.api.errors import ErrorType
from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED

MAX_NAME_CHARS = 256  # far beyond any real name
MAX_INSTRUCT_CHARS = 1000  # it is part of what the language model reads
MAX_SEED = 2**53 - 1  # the largest that every JSON parser represents exactly

# Pydantic lets lone surrogates through in a string without a limit; they cannot be encoded again.
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Instruct = Annotated[str, Field(max_length=MAX_INSTRUCT_CHARS)]


class VoiceFields(BaseModel):
    """The speaker and how it speaks; on every protocol of our own."""

    speaker: Name | None = Field(
        None, description="A name of GET /speakers; the default speaker if left out."
    )
    sample_rate: int | None = Field(None, description="In Hz. 24000 if left out; 8000 for ulaw and alaw.")
    speed: float = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    language: Name | None = Field(None, description="Detected from the text if left out.")
    instruct: Instruct | None = Field(None, description="How to say it, on checkpoints that support it.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="The same seed speaks the same way again.")


Answers = dict[int | str, dict[str, Any]]


class ErrorFields(BaseModel):
    message: str
    type: ErrorType
    param: str | None
    code: str


class ErrorAnswer(BaseModel):
    error: ErrorFields


ERROR_ANSWERS: Answers = {"default": {"model": ErrorAnswer, "description": "The error."}}


def binary_answers(*media_types: str, status: int = 200, description: str) -> Answers:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {status: {"content": content, "description": description}}


AUDIO_ANSWERS = binary_answers(
    *(info.media_type for info in FORMATS.values()), description="Audio, in chunks as it is made."
)
