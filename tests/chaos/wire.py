"""A TCP proxy between two parts: passes, delays, or is cut without a word, as a network does."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

State = Literal["whole", "slow", "cut"]
SLOW_S = 0.2  # that each piece takes


class Wire:
    """Leads from its own port to another one. cut: nothing passes, and neither side is told."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.state: State = "whole"
        self._target = host, port
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        for task in self._connections:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._connections, return_exceptions=True))
        for writer in self._writers:
            writer.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0.05))  # in which they are closed
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        try:
            await self._until_passable()
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        finally:
            self._connections.discard(task)
        self._writers.add(there_writer)
        ways = [
            asyncio.ensure_future(self._pass(reader, there_writer)),
            asyncio.ensure_future(self._pass(there_reader, writer)),
        ]
        self._connections.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, there_writer):
            one.close()
        await asyncio.gather(*ways, return_exceptions=True)
        self._connections.difference_update(ways)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(1 << 16):
                if self.state == "slow":
                    await asyncio.sleep(SLOW_S)
                await self._until_passable()
                writer.write(piece)
                await writer.drain()

    async def _until_passable(self) -> None:
        while self.state == "cut":  # noqa: ASYNC110  another thread says so
            await asyncio.sleep(0.02)

    @contextmanager
    def open(self) -> Iterator["Wire"]:
        self._thread.start()
        self._listening.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
