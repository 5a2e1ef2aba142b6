"""WebSocket messages and the queue that sends them.

The JSON messages of the WebSocket, both ways.

The only one who writes to a WebSocket: whole parcels, in the order they came.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from firstword.app.api.errors import error_body, invalid_request
from firstword.app.api.schemas import VoiceFields
from firstword.app.audio.formats import AudioFormat
from firstword.app.errors import InvalidRequest

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


MAX_WAITING_PARCELS = 16


@dataclass(frozen=True, slots=True)
class Closing:
    """The last word to a client."""

    code: int
    reason: str


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class _Parcel:
    message: Message | Closing
    frame: bytes
    begun: Callable[[], None]
    handed_over: asyncio.Future[None]  # cancelled: withdrawn


class Outbox:
    """A parcel is a message, and for `audio` its binary frame: nothing comes between the two.

    A socket that does not take what is written makes those wait who send, and nobody else.
    """

    def __init__(self, websocket: WebSocket, write_timeout_s: float, wrote: Callable[[], None]) -> None:
        """wrote: called after each parcel."""
        self._websocket = websocket
        self._write_timeout_s = write_timeout_s
        self._wrote = wrote
        self._parcels: asyncio.Queue[_Parcel] = asyncio.Queue(MAX_WAITING_PARCELS)

    async def post(
        self, message: Message | Closing, frame: bytes = b"", begun: Callable[[], None] = _nothing
    ) -> asyncio.Future[None]:
        """Waits only for room in line. The result is done when the transport has the parcel.

        begun: called right before the message is written; from then on the parcel goes out whole.
        """
        handed_over = asyncio.get_running_loop().create_future()
        await self._parcels.put(_Parcel(message, frame, begun, handed_over))
        return handed_over

    async def send(self, message: Message, frame: bytes = b"", begun: Callable[[], None] = _nothing) -> None:
        """Waits until the transport has the parcel. One that is cancelled before it is begun is withdrawn."""
        await (await self.post(message, frame, begun))

    async def run(self) -> None:
        """Writes until it has closed the socket.

        Raises WebSocketDisconnect when the other side is gone, TimeoutError when it does not read.
        """
        is_open = True
        while is_open:
            parcel = await self._parcels.get()
            if parcel.handed_over.cancelled():
                continue
            parcel.begun()
            async with asyncio.timeout(self._write_timeout_s):
                await self._write(parcel)
            self._wrote()
            if not parcel.handed_over.cancelled():
                parcel.handed_over.set_result(None)
            is_open = not isinstance(parcel.message, Closing)

    async def _write(self, parcel: _Parcel) -> None:
        try:
            await self._write_parts(parcel)
        except RuntimeError as error:
            # What uvicorn raises for a socket that it closed itself, over a ping that nobody answered.
            raise WebSocketDisconnect from error

    async def _write_parts(self, parcel: _Parcel) -> None:
        if isinstance(parcel.message, Closing):
            await self._websocket.close(parcel.message.code, parcel.message.reason)
            return
        await self._websocket.send_text(parcel.message.model_dump_json())
        if parcel.frame:
            await self._websocket.send_bytes(parcel.frame)
