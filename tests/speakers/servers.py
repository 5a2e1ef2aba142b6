"""Registries of one store, each opened as another server process would."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstword.app.speakers.registry import RegistryHooks, SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from tests.speakers.fakes import STATE_BYTES, FakeNetworks


@dataclass
class Servers:
    """The servers that share the store at `path`."""

    path: Path
    stack: AsyncExitStack
    networks: FakeNetworks = field(default_factory=FakeNetworks)
    hits: int = 0
    misses: int = 0

    async def open(
        self, networks: FakeNetworks | None = None, *, prepares: bool = True, **settings: Any
    ) -> SpeakerRegistry:
        """prepares: the built-in speakers, to the end."""
        settings = {
            "max_cache_bytes": 100 * STATE_BYTES,
            "hooks": RegistryHooks(self.hit, self.miss),
            **settings,
        }
        store = await asyncio.to_thread(SpeakerStore, self.path)
        registry = SpeakerRegistry(store, networks or self.networks, **settings)  # type: ignore[arg-type]
        await self.stack.enter_async_context(registry)
        if prepares:
            await registry.prepare_builtin(at_once)
        return registry

    def hit(self) -> None:
        self.hits += 1

    def miss(self) -> None:
        self.misses += 1


async def at_once() -> None:
    """As `quiet` of `prepare_builtin` where nobody speaks."""


async def work_began(networks: FakeNetworks) -> None:
    assert await asyncio.to_thread(networks.began.acquire, timeout=30)


def hold_work(networks: FakeNetworks) -> None:
    """From now on what computes waits at the gate."""
    while networks.began.acquire(blocking=False):
        pass
    networks.gate.clear()
