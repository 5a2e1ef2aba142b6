"""A bounded memory of prepared speakers, each computed once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

Key = str | int | bytes  # a built-in speaker's name, a stored one's id, a sent recording's digest


class Sized(Protocol):
    @property
    def state_bytes(self) -> int: ...


Value = TypeVar("Value", bound=Sized)


class PreparedCache(Generic[Value]):
    """Values in memory, each computed once, the least recently used dropped when they are too large.

    For one event loop. pinned: keys that are dropped only when they alone, with the newest entry, are over
    `max_bytes`. An entry that is too large by itself is not kept.
    """

    def __init__(
        self,
        max_bytes: int,
        pinned: frozenset[Key],
        on_hit: Callable[[], None],
        on_miss: Callable[[], None],
    ) -> None:
        self._max_bytes = max_bytes
        self._pinned = pinned
        self._on_hit = on_hit
        self._on_miss = on_miss
        self._entries: OrderedDict[Key, Value] = OrderedDict()  # the newest last
        self._in_flight: dict[Key, asyncio.Task[Value]] = {}
        self._dropped: set[Key] = set()  # of those in flight

    @property
    def num_bytes(self) -> int:
        return sum(value.state_bytes for value in self._entries.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    async def get(
        self,
        key: Key,
        compute: Callable[[], Awaitable[Value]],
        on_miss: Callable[[], None] = lambda: None,
    ) -> Value:
        """Return what is held, or what `compute` gives. on_miss: called where it is not held.

        It runs once for all who wait, and to its end even if they leave. Raises what it raises; the next
        call tries again. To wait for another's computation counts as a miss too.
        """
        if key in self._entries:
            self._entries.move_to_end(key)
            self._on_hit()
            return self._entries[key]
        self._on_miss()
        on_miss()
        return await self._computed(key, compute)

    async def fill(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> None:
        """Hold what `compute` gives, unless it is held; as `get`, but counted as neither hit nor miss."""
        if key not in self._entries:
            await self._computed(key, compute)

    def put(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while self.num_bytes > self._max_bytes:
            *others, newest = self._entries
            unpinned = (key for key in others if key not in self._pinned)
            del self._entries[next(unpinned, others[0] if others else newest)]

    def drop(self, key: Key) -> None:
        """Remove an entry, and do not keep the result of a computation under way."""
        self._entries.pop(key, None)
        if key in self._in_flight:
            self._dropped.add(key)

    async def close(self) -> None:
        """Cancel whoever still waits."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._entries.clear()

    async def _computed(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        if key not in self._in_flight:
            self._in_flight[key] = asyncio.create_task(self._compute_once(key, compute))
        return await asyncio.shield(self._in_flight[key])

    async def _compute_once(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await compute()
            if key not in self._dropped:
                self.put(key, value)
            return value
        finally:
            del self._in_flight[key]
            self._dropped.discard(key)
