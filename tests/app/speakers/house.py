"""A store that several servers share: each registry is opened as another process would."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from tests.app.speakers.fakes import STATE_BYTES, FakeEnroller


@dataclass
class House:
    """Opens registries, each what another server process would have."""

    path: Path
    stack: AsyncExitStack
    enroller: FakeEnroller = field(default_factory=FakeEnroller)
    hits: int = 0
    misses: int = 0

    async def open(self, enroller: FakeEnroller | None = None, **settings: Any) -> SpeakerRegistry:
        settings = {
            "max_cache_bytes": 100 * STATE_BYTES,
            "on_hit": self.hit,
            "on_miss": self.miss,
            **settings,
        }
        store = await asyncio.to_thread(SpeakerStore, self.path)
        registry = SpeakerRegistry(store, enroller or self.enroller, **settings)  # type: ignore[arg-type]
        return await self.stack.enter_async_context(registry)

    def hit(self) -> None:
        self.hits += 1

    def miss(self) -> None:
        self.misses += 1


async def work_began(enroller: FakeEnroller) -> None:
    assert await asyncio.to_thread(enroller.began.acquire, timeout=30)


def hold_work(enroller: FakeEnroller) -> None:
    """From now on what computes waits at the gate."""
    while enroller.began.acquire(blocking=False):
        pass
    enroller.gate.clear()
