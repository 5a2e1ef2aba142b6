"""The WebSocket that all speeches of a client share, opened when it is needed and anew when it was lost."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from firstword_client.events import FirstwordError, SocketLost

if TYPE_CHECKING:
    from firstword_client.speech import AsyncSpeech

PATH = "/tts/stream"


class Socket:
    """One connection at a time; each speech is a context of it."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """url: of the server, with http or https."""
        self._address = url.rstrip("/").replace("http", "ws", 1) + PATH
        self._headers = dict(headers)
        self._connection: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._speeches: dict[str, AsyncSpeech] = {}
        self._numbers = itertools.count(1)

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    async def open_context(self, speech: AsyncSpeech) -> str:
        """Connect if need be; return the name of a new context, whose messages the speech will receive.

        Raises FirstwordError where the server refuses, and OSError where there is none.
        """
        async with self._opening:
            if self._connection is None:
                self._connection = await self._connect(speech.speaker)
                self._reading = asyncio.create_task(self._read(self._connection))
        name = f"speech-{next(self._numbers)}"
        self._speeches[name] = speech
        return name

    def forget(self, context: str) -> None:
        self._speeches.pop(context, None)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Raises SocketLost."""
        connection = self._connection
        if connection is None:
            raise SocketLost("the connection to the server is lost")
        try:
            await connection.send(json.dumps(message))
        except ConnectionClosed as error:
            raise SocketLost("the connection to the server is lost") from error

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def _connect(self, speaker: str) -> ClientConnection:
        """speaker: of the first speech, for proxies that send one speaker's requests to one server."""
        headers = {**self._headers, "X-Speaker": quote(speaker)} if speaker else self._headers
        try:
            return await connect(self._address, additional_headers=headers, compression=None, max_size=None)
        except InvalidStatus as error:
            try:
                body = json.loads(error.response.body or b"")["error"]
            except (ValueError, KeyError, TypeError):
                raise FirstwordError(str(error), "refused") from error
            raise FirstwordError.of(body) from error
        except InvalidHandshake as error:
            raise FirstwordError(f"{self._address} is no Firstword: {error}", "refused") from error

    async def _read(self, connection: ClientConnection) -> None:
        reason: Exception = SocketLost("the server closed the connection")
        try:
            while True:
                message = json.loads(await connection.recv())
                if message["type"] == "audio":
                    message["data"] = await connection.recv()
                speech = self._speeches.get(message.get("context") or "")
                if speech is not None:
                    speech.receive(message)
                elif message["type"] == "error" and message["context"] is None:
                    reason = FirstwordError.of(message["error"])
        except ConnectionClosed:
            pass
        finally:
            self._connection = None
            lost, self._speeches = list(self._speeches.values()), {}
            for speech in lost:
                speech.lose(reason)
