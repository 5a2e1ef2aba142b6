"""Request fields shared by the routes, and OpenAPI's descriptions of their responses."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from firstword.app.api.errors import ErrorType
from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED

MAX_NAME_CHARS = 256  # far beyond any real name
MAX_INSTRUCT_CHARS = 1000  # it is part of what the language model reads
MAX_SEED = 2**53 - 1  # the largest that every JSON parser represents exactly

# Pydantic lets lone surrogates through in a string without a limit; they cannot be encoded again.
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Instruct = Annotated[str, Field(max_length=MAX_INSTRUCT_CHARS)]


def _refuse_boolean(value: object) -> object:
    """Pydantic takes true for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


NotBoolean = BeforeValidator(_refuse_boolean)
Seed = Annotated[int, NotBoolean, Field(ge=0, le=MAX_SEED)]
SampleRate = Annotated[int, NotBoolean]  # Hz; which ones there are depends on the format


class RequestFields(BaseModel):
    """Fields of a request, in which null stands for the default of an optional one."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_null(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        fields = cls.model_fields
        optional = {name for name in fields if not fields[name].is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}


class VoiceFields(RequestFields):
    """The speaker and how it speaks; on every protocol of our own. `voice` is another name of `speaker`."""

    speaker: Name | None = Field(
        None, description="A name of GET /speakers; the default speaker if left out."
    )
    sample_rate: SampleRate | None = Field(
        None, description="In Hz. 24000 if left out; 8000 for ulaw and alaw."
    )
    speed: Annotated[float, NotBoolean] = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    language: Name | None = Field(None, description="Detected from the text if left out.")
    instruct: Instruct | None = Field(None, description="How to say it, on checkpoints that support it.")
    seed: Seed | None = Field(None, description="The same seed speaks the same way again.")

    @model_validator(mode="before")
    @classmethod
    def _rename_voice(cls, given: Any) -> Any:
        """A speaker goes before a voice where both are given."""
        if not isinstance(given, Mapping) or "voice" not in given:
            return given
        fields = dict(given)
        voice = fields.pop("voice")
        if fields.get("speaker") is None:
            fields["speaker"] = voice
        return fields


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
