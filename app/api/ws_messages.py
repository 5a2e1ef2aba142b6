"""The JSON messages of the WebSocket, both ways."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from app.api.errors import error_body
from app.api.fields import VoiceFields
from app.api.validation import invalid_request
from app.audio.formats import AudioFormat
from app.engine.interface import InvalidRequest

ContextId = Annotated[str, Field(max_length=256)]  # it goes out again with every frame


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str  # here, so that it comes first


class OfContext(Message):
    context: ContextId = ""


class Start(VoiceFields, OfContext):
    type: Literal["start"] = "start"
    format: AudioFormat = "pcm"
    mode: Literal["continuous", "segments"] | None = None  # None: continuous where the checkpoint can


class Text(OfContext):
    type: Literal["text"] = "text"
    text: str


class Flush(OfContext):
    type: Literal["flush"] = "flush"


class End(OfContext):
    type: Literal["end"] = "end"


class Cancel(OfContext):
    type: Literal["cancel"] = "cancel"


class Ping(Message):
    type: Literal["ping"] = "ping"


ClientMessage = Start | Text | Flush | End | Cancel | Ping
_CLIENT_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)


def parsed(raw: str) -> ClientMessage:
    """Raises InvalidRequest that names what is wrong."""
    try:
        return _CLIENT_MESSAGE.validate_json(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    match faults[0]["type"]:
        case "json_invalid":
            raise InvalidRequest(f"The message is no JSON: {faults[0]['ctx']['error']}.")
        case "union_tag_invalid" | "union_tag_not_found":
            raise InvalidRequest(
                "The message's `type` must be start, text, flush, end, cancel or ping.", param="type"
            )
    if not faults[0]["loc"]:
        raise InvalidRequest('A message must be a JSON object such as {"type":"text","text":"Hello."}.')
    # `loc` begins with the type of the message.
    raise invalid_request([{**fault, "loc": fault["loc"][1:]} for fault in faults])


def addressee(raw: str) -> tuple[str | None, str | None]:
    """The type and the context of a message that `parsed` refused, each None where it cannot be told."""
    try:
        message = from_json(raw)
    except ValueError:
        return None, None
    if not isinstance(message, dict) or "type" not in message:
        return None, None
    return _string(message["type"]), _string(message.get("context", ""))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class Started(OfContext):
    type: Literal["started"] = "started"
    request_id: str
    sample_rate: int
    format: str
    channels: int = 1


class AudioFrame(OfContext):
    """The binary frame of `bytes` bytes follows at once. Times are the listener's, `speed` applied."""

    type: Literal["audio"] = "audio"
    bytes: int
    start_ms: float
    duration_ms: float


class FlushDone(OfContext):
    """All that came before a flush has gone out."""

    type: Literal["flushed"] = "flushed"


class Stats(BaseModel):
    ttfb_ms: float | None  # None: no audio
    audio_ms: float
    rtf: float | None
    speech_tokens: int
    characters: int


class Done(OfContext):
    type: Literal["done"] = "done"
    stats: Stats


class Cancelled(OfContext):
    type: Literal["cancelled"] = "cancelled"
    audio_ms_sent: float
    spoken_text: str


class Pong(Message):
    type: Literal["pong"] = "pong"


class Failed(Message):
    type: Literal["error"] = "error"
    context: str | None
    error: dict[str, str | None]

    @classmethod
    def of(cls, context: str | None, error: Exception) -> "Failed":
        return cls(context=context, error=error_body(error)["error"])
