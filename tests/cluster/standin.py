"""A stand-in for the engine, in a process of Ray: a first piece after 20 ms, one more every 100 ms."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from firstword.app.core.interface import StreamEvent
from firstword.app.core.request import EngineInfo
from tests.hosts.ray.local_link import Parts
from tests.support.fake_engine import INFO, FakeEngine, FakeStream

FIRST_S, NEXT_S = 0.02, 0.1


@dataclass(eq=False)
class PacedEngine(FakeEngine):
    """Tells its process in its name."""

    def open(self, request, events=None) -> "PacedStream":
        super().open(request, events)
        return PacedStream(self, request, request.voice.speaker or self.info.default_speaker)


class PacedStream(FakeStream):
    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        await asyncio.sleep(FIRST_S)
        async for event in self._events():
            yield event
            await asyncio.sleep(NEXT_S)


def info() -> EngineInfo:
    return replace(INFO, checkpoint=f"stand-in {os.getpid()}")


@asynccontextmanager
async def standin() -> AsyncIterator[Parts]:
    yield Parts(PacedEngine(info=info(), max_streams=64, speakers=SPEAKERS))


SPEAKERS = frozenset({"hum", "anna"} | {f"voice-{number}" for number in range(32)})
