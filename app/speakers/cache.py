"""Prepared speakers in memory: each computed once, the least recently used out when there are too many."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

Key = str | int  # a built-in speaker's name, a stored one's id


class Sized(Protocol):
    @property
    def state_bytes(self) -> int: ...


Value = TypeVar("Value", bound=Sized)


class PreparedCache(Generic[Value]):
    """Used within one event loop.

    pinned: keys that leave only when they alone, with the newest entry, are over `max_bytes`. An entry
    that is too large by itself is not kept.
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
        self._flights: dict[Key, asyncio.Task[Value]] = {}
        self._dropped: set[Key] = set()  # of those in flight

    @property
    def num_bytes(self) -> int:
        return sum(value.state_bytes for value in self._entries.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    async def get(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        """What is held, or what `compute` gives: it runs once for all who wait, and to its end even if
        they leave. Raises what it raises; the next call tries again. To wait for another's is a miss too.
        """
        if key in self._entries:
            self._entries.move_to_end(key)
            self._on_hit()
            return self._entries[key]
        self._on_miss()
        if key not in self._flights:
            self._flights[key] = asyncio.create_task(self._fly(key, compute))
        return await asyncio.shield(self._flights[key])

    def put(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while self.num_bytes > self._max_bytes:
            del self._entries[self._first_to_go()]

    def drop(self, key: Key) -> None:
        """Nor will it come back from a computation that is under way."""
        self._entries.pop(key, None)
        if key in self._flights:
            self._dropped.add(key)

    async def close(self) -> None:
        """Whoever still waits is cancelled."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        self._entries.clear()

    async def _fly(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await compute()
            if key not in self._dropped:
                self.put(key, value)
            return value
        finally:
            del self._flights[key]
            self._dropped.discard(key)

    def _first_to_go(self) -> Key:
        *others, newest = self._entries
        return next((key for key in others if key not in self._pinned), others[0] if others else newest)
