"""A client of the WebSocket that checks the shape of all that comes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from firstword.app.audio.dsp import Samples, to_pcm16
from firstword.app.http.service import Service
from tests.support.fake_engine import FakeEngine
from tests.support.serving import PATIENCE_S, serving

Message = dict[str, Any]


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, type: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": type, **fields}))

    async def send_turn(self, text: str, context: str = "", **start: Any) -> None:
        """A whole turn."""
        if start:
            await self.send("start", context=context, **start)
        await self.send("text", context=context, text=text)
        await self.send("end", context=context)

    async def receive(self) -> Message:
        """The next message, an `audio` with its frame as `data`."""
        async with asyncio.timeout(PATIENCE_S):
            message: Message = json.loads(await self.socket.recv(decode=True))
            if message["type"] == "audio":
                data = await self.socket.recv()
                assert isinstance(data, bytes), f"{data!r} came between a message and its frame"
                assert len(data) == message["bytes"]
                message["data"] = data
        return message

    async def receive_until(self, type: str, context: str | None = "") -> list[Message]:
        """All messages up to the first of that type and context."""
        messages = [await self.receive()]
        while (messages[-1]["type"], messages[-1].get("context", "")) != (type, context):
            messages.append(await self.receive())
        return messages

    async def receive_error(self, is_started: bool = False) -> Message:
        """is_started: it comes behind a `started`."""
        if is_started:
            assert (await self.receive())["type"] == "started"
        message = await self.receive()
        assert message["type"] == "error", message
        assert set(message) == {"type", "context", "fatal", "error"}
        assert set(message["error"]) == {"message", "type", "param", "code"}
        return message

    async def still_answers(self) -> None:
        """Nothing else is under way, and the socket is open."""
        await self.send("ping")
        assert await self.receive() == {"type": "pong"}

    async def closed_with(self) -> int | None:
        """Nothing more comes but the close, with this code; None if the connection broke."""
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(PATIENCE_S):
                await self.socket.recv()
        return closed.value.rcvd and closed.value.rcvd.code


@dataclass(eq=False)
class QueueingEngine(FakeEngine):
    """Has a place only once `room` is set."""

    room: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def admit(self) -> None:
        self.asked.set()
        await self.room.wait()
        await super().admit()


@asynccontextmanager
async def ws_client(services: Service, **options: Any) -> AsyncIterator[Client]:
    """A server and one client of it."""
    async with serving(services) as url, connect_client(url, **options) as client:
        yield client


@asynccontextmanager
async def connect_client(url: str, query: str = "", **options: Any) -> AsyncIterator[Client]:
    address = f"{url.replace('http', 'ws', 1)}/tts/stream{query}"
    async with connect(address, compression=None, proxy=None, **options) as socket:
        yield Client(socket)


def received_audio(messages: list[Message], context: str = "") -> bytes:
    """The audio of one context, joined."""
    return b"".join(m["data"] for m in messages if m["type"] == "audio" and m["context"] == context)


def pcm_of(samples: Samples) -> bytes:
    return to_pcm16(samples).tobytes()


def types_of(messages: list[Message]) -> list[str]:
    """In order, repeated ones once."""
    types = [message["type"] for message in messages]
    return [type for place, type in enumerate(types) if place == 0 or types[place - 1] != type]
