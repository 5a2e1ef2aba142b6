"""The only one who writes to a WebSocket: whole parcels, in the order they came."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from app.api.ws_messages import Message

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
