"""Engines of this process behind a `Link`: all that passes is pickled, as Ray does, and an engine can die."""

import asyncio
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from firstword.app.core.interface import Engine
from firstword.app.hosts.ray.engine import RemoteSide
from firstword.app.hosts.ray.messages import Description, EngineGone
from tests.support.fake_speakers import FakeSpeakers
from tests.support.fake_stages import FakeStages


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@dataclass(eq=False)
class Parts:
    engine: Engine
    speakers: FakeSpeakers = field(default_factory=FakeSpeakers)
    stages: FakeStages = field(default_factory=FakeStages)


class LocalLink:
    def __init__(self, sides: Sequence[RemoteSide]) -> None:
        self.sides = sides
        self.dead = [asyncio.Event() for _ in sides]
        self.num_open = 0
        self.silent: tuple[str, ...] = ()
        self.late: tuple[str, ...] = ()

    async def stream(self, key: str, nth: int, method: str, *given: Any) -> AsyncGenerator[Any, None]:
        number = (len(key) + nth) % len(self.sides)
        items = getattr(self.sides[number], method)(*copied(given))
        dying = asyncio.create_task(self.dead[number].wait())
        self.num_open += 1
        try:
            while True:
                taking = asyncio.create_task(anext(items, None))
                try:
                    await asyncio.wait((taking, dying), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not taking.done():
                        taking.cancel()
                        await asyncio.wait([taking])
                if dying.done():
                    raise EngineGone("it died")
                if (news := taking.result()) is None:
                    return
                yield copied(news)
        finally:
            self.num_open -= 1
            dying.cancel()
            await items.aclose()

    async def describe(self) -> list[Description]:
        alive = [side for side, dead in zip(self.sides, self.dead, strict=True) if not dead.is_set()]
        return copied([await side.describe() for side in alive])


@asynccontextmanager
async def linked(*engines: Engine) -> AsyncIterator[LocalLink]:
    sides = [RemoteSide(Parts(engine), f"replica-{number}") for number, engine in enumerate(engines)]
    for side in sides:
        await side.open("127.0.0.1")
    try:
        yield LocalLink(sides)
    finally:
        for side in sides:
            side.close()
