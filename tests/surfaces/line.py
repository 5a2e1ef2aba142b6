"""A surface in one file, as docs/architecture.md describes how one is added: lines of text over a TCP socket.

A client sends one line, the JSON of POST /tts with its `key`. It gets the line `ok` with PCM behind it until
the connection closes, or one line of JSON with the error. A connection that is reset says that the audio is
not complete.
"""

import asyncio
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from pydantic import ValidationError

from firstword.app.audio.formats import AudioFormat, OutputFormat
from firstword.app.errors import TextTooLong
from firstword.app.http.auth import Credentials
from firstword.app.http.errors import INTERNAL, error_body, invalid_request, rejections_counted, row_of
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import SpeechBody
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.http.spoken import PLAIN, SpokenAudio
from firstword.app.http.streaming import resolve_output_format
from firstword.app.http.surface import HttpSurface

SPEAK = Guard("speak")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LineOptions:
    port: int = 0


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that its client sees an error, not the end of the audio."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


class Line(SpeechBody):
    key: str = ""
    format: AudioFormat = "pcm"


class LineSurface(HttpSurface):
    def __init__(self, options: LineOptions) -> None:
        super().__init__("line", [])
        self.options: LineOptions = options
        self.port: int | None = None  # None: it does not run

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        limit = service.limits.max_body_bytes
        answer = partial(self._answer, service)
        async with await asyncio.start_server(answer, "127.0.0.1", self.options.port, limit=limit) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    def address(self) -> str | None:
        return None if self.port is None else f"Lines of text are taken on 127.0.0.1:{self.port}."

    async def _answer(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        has_begun = asyncio.Event()
        try:
            with rejections_counted(service.metrics):  # a session counts its own
                session, output = await self._opened(service, reader)
            speaking = asyncio.ensure_future(self._speak(session, output, writer, has_begun))
            leaving = asyncio.ensure_future(reader.read(1))  # nothing more is sent: it ends the connection
            await asyncio.wait((speaking, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not speaking.done():
                session.cancel_reason = "disconnect"
            leaving.cancel()
            speaking.cancel()
            await speaking
        except Exception as error:
            if row_of(error) is INTERNAL:
                logger.error("a line failed", exc_info=error)
            if has_begun.is_set():
                reset(writer)
            else:
                content = {**error_body(error), "retry_after": getattr(error, "retry_after_s", None)}
                writer.write(f"{json.dumps(content)}\n".encode())
        finally:
            writer.close()

    async def _opened(
        self, service: Service, reader: asyncio.StreamReader
    ) -> tuple[StreamSession, OutputFormat]:
        """Raise TtsError, and TimeoutError where no line comes."""
        try:
            async with asyncio.timeout(service.limits.body_timeout_s):
                line = Line.model_validate_json(await reader.readline())
        except ValidationError as error:
            raise invalid_request(error.errors(include_url=False), list(Line.model_fields)) from None
        except ValueError:
            raise TextTooLong("the line is too long; send a shorter text") from None
        client = await service.auth.client_of(Credentials(api_key=line.key), SPEAK)
        output = resolve_output_format(line.format, line.sample_rate, line.speed, service)
        request = line.request(uuid4().hex, self.name, client)
        return StreamSession(service, request, service.clock()), output

    async def _speak(
        self,
        session: StreamSession,
        output: OutputFormat,
        writer: asyncio.StreamWriter,
        has_begun: asyncio.Event,
    ) -> None:
        async with aclosing(PLAIN.frame(SpokenAudio(session, output))) as parts:
            async for part in parts:
                if not has_begun.is_set():
                    has_begun.set()
                    writer.write(b"ok\n")
                writer.write(part)
                await writer.drain()
