"""WebSocket messages in both directions, and the queue that sends ours."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from firstword.app.bounded_json import MAX_FIELDS
from firstword.app.errors import InvalidRequest
from firstword.app.http.context_messages import AudioFrame, ContextMessage, Message, Start
from firstword.app.http.errors import error_body, invalid_request
from firstword.app.speech_options import NotBoolean

MAX_QUEUED_MESSAGES = 16


class Text(ContextMessage):
    type: Literal["text"] = "text"
    text: str


class Flush(ContextMessage):
    type: Literal["flush"] = "flush"


class End(ContextMessage):
    type: Literal["end"] = "end"


class Cancel(ContextMessage):
    type: Literal["cancel"] = "cancel"
    # How much the listener has heard, by its own clock; None: all that was sent.
    played_ms: Annotated[float, NotBoolean, Field(ge=0, allow_inf_nan=False)] | None = None


class Ping(Message):
    type: Literal["ping"] = "ping"


ClientMessage = Start | Text | Flush | End | Cancel | Ping
_CLIENT_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)
_FIELDS = {kind.model_fields["type"].default: list(kind.model_fields) for kind in get_args(ClientMessage)}


def parse_message(raw: str) -> ClientMessage:
    """Raise InvalidRequest that names what is wrong."""
    try:
        if raw.count(",") < MAX_FIELDS:
            return _CLIENT_MESSAGE.validate_json(raw)
        message = _parsed(raw)  # whose fields are counted before each unknown one is an error
        if isinstance(message, dict) and len(message) > MAX_FIELDS:
            raise InvalidRequest(f"the message has {len(message)} fields; send {MAX_FIELDS} at most")
        return _CLIENT_MESSAGE.validate_python(message)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    match faults[0]["type"]:
        case "json_invalid":
            raise InvalidRequest(f"the message is not valid JSON: {faults[0]['ctx']['error']}")
        case "union_tag_invalid" | "union_tag_not_found":
            raise InvalidRequest("`type` must be start, text, flush, end, cancel or ping", param="type")
    if not faults[0]["loc"]:
        raise InvalidRequest('the message must be a JSON object such as {"type":"text","text":"Hello."}')
    # `loc` begins with the type of the message.
    known_fields = _FIELDS[str(faults[0]["loc"][0])]
    raise invalid_request([{**fault, "loc": fault["loc"][1:]} for fault in faults], known_fields)


def _parsed(raw: str) -> object:
    """Raise InvalidRequest."""
    try:
        return from_json(raw, cache_strings="none")
    except ValueError as error:
        raise InvalidRequest(f"the message is not valid JSON: {error}") from None


def peek_type_and_context(raw: str) -> tuple[str | None, str | None]:
    """Return the type and the context of a message that `parse_message` refused; None: not to be found."""
    try:
        message = from_json(raw, cache_strings="none")
    except ValueError:
        return None, None
    if not isinstance(message, dict) or "type" not in message:
        return None, None
    type, context = message["type"], message.get("context", "")
    return type if isinstance(type, str) else None, context if isinstance(context, str) else None


class Pong(Message):
    type: Literal["pong"] = "pong"


class ErrorMessage(Message):
    """fatal: it ended its context; else the context is as it was before the message that is refused."""

    type: Literal["error"] = "error"
    context: str | None
    fatal: bool
    error: dict[str, str | None]

    @classmethod
    def of(cls, context: str | None, error: Exception, is_fatal: bool) -> "ErrorMessage":
        return cls(context=context, fatal=is_fatal, error=error_body(error)["error"])


@dataclass(frozen=True, slots=True)
class Close:
    """The close frame, after which nothing is sent."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    message: Message | Close
    frame: bytes
    before_write: Callable[[], None] | None
    written: asyncio.Future[None]  # cancelled: withdrawn


class SendQueue:
    """The only writer of a socket: messages in order, an `audio` and its binary frame never separated.

    A socket that does not take what is written blocks those who send, and nobody else.
    """

    def __init__(self, websocket: WebSocket, write_timeout_s: float, after_write: Callable[[], None]) -> None:
        """after_write: called after each message."""
        self._websocket = websocket
        self._write_timeout_s = write_timeout_s
        self._after_write = after_write
        self._items: asyncio.Queue[_Item] = asyncio.Queue(MAX_QUEUED_MESSAGES)

    async def post(
        self, message: Message | Close, frame: bytes = b"", before_write: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Wait only until the queue takes it. The result is done when the transport has the message.

        before_write: called right before the message is written; from then on it goes out whole.
        """
        written = asyncio.get_running_loop().create_future()
        await self._items.put(_Item(message, frame, before_write, written))
        return written

    async def send(
        self, message: Message, frame: bytes = b"", before_write: Callable[[], None] | None = None
    ) -> None:
        """Wait until the transport has the message. Cancelled before it is written, it is withdrawn."""
        await (await self.post(message, frame, before_write))

    async def run(self) -> None:
        """Write until a Close has been written.

        Raises WebSocketDisconnect when the other side is gone, TimeoutError when it does not read.
        """
        is_open = True
        while is_open:
            item = await self._items.get()
            if item.written.cancelled():
                continue
            if item.before_write is not None:
                item.before_write()
            try:
                async with asyncio.timeout(self._write_timeout_s):
                    if isinstance(item.message, Close):
                        await self._websocket.close(item.message.code, item.message.reason)
                    else:
                        await self._websocket.send_text(item.message.model_dump_json())
                    if isinstance(item.message, AudioFrame):  # with words alone it is empty
                        await self._websocket.send_bytes(item.frame)
            except RuntimeError as error:
                # What uvicorn raises for a socket that it closed itself, over a ping that nobody answered.
                raise WebSocketDisconnect from error
            self._after_write()
            if not item.written.cancelled():
                item.written.set_result(None)
            is_open = not isinstance(item.message, Close)
