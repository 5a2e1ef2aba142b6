import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from firstword.app.speakers.prepared_cache import Key, PreparedCache

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Item:
    name: str
    state_bytes: int = 10


@dataclass
class Counts:
    hits: int = 0
    misses: int = 0
    computed: list[str] = field(default_factory=list)

    def hit(self) -> None:
        self.hits += 1

    def miss(self) -> None:
        self.misses += 1

    def making(self, name: str, size: int = 10) -> Callable[[], Awaitable[Item]]:
        async def compute() -> Item:
            self.computed.append(name)
            return Item(name, size)

        return compute


@pytest.fixture
def counts() -> Counts:
    return Counts()


def cache_of(counts: Counts, max_bytes: int, *pinned: Key) -> PreparedCache[Item]:
    return PreparedCache(max_bytes, frozenset(pinned), counts.hit, counts.miss)


def held(cache: PreparedCache[Item], *keys: Key) -> list[Key]:
    return [key for key in keys if key in cache]


async def test_what_is_held_is_not_computed_again(counts: Counts) -> None:
    cache = cache_of(counts, 100)
    first = await cache.get(1, counts.making("a"))
    second = await cache.get(1, counts.making("a"))

    assert first is second
    assert (counts.computed, counts.hits, counts.misses) == (["a"], 1, 1)


async def test_the_least_recently_used_goes_first(counts: Counts) -> None:
    cache = cache_of(counts, 30)
    for key in (1, 2, 3):
        await cache.get(key, counts.making(str(key)))
    await cache.get(1, counts.making("1"))
    await cache.get(4, counts.making("4"))

    assert held(cache, 1, 2, 3, 4) == [1, 3, 4]
    assert cache.num_bytes == 30


async def test_bytes_are_bounded_whatever_comes(counts: Counts) -> None:
    cache = cache_of(counts, 100)
    for key, size in enumerate([10, 90, 55, 1, 100, 99, 2, 101, 40]):
        item = await cache.get(key, counts.making(str(key), size))
        assert item.state_bytes == size
        assert cache.num_bytes <= 100


async def test_an_entry_larger_than_the_bound_is_given_but_not_kept(counts: Counts) -> None:
    cache = cache_of(counts, 5)

    assert await cache.get(1, counts.making("a")) == Item("a")
    assert (1 in cache, cache.num_bytes) == (False, 0)


async def test_pinned_entries_stay_while_others_can_go(counts: Counts) -> None:
    cache = cache_of(counts, 40, "ann", "bob")
    for key in ("ann", "bob", 1, 2, 3, 4):
        await cache.get(key, counts.making(str(key)))

    assert held(cache, "ann", "bob", 1, 2, 3, 4) == ["ann", "bob", 3, 4]


async def test_pinned_entries_go_where_there_is_no_room_beside_them(counts: Counts) -> None:
    cache = cache_of(counts, 20, "ann", "bob")
    for key in ("ann", "bob", 1):
        await cache.get(key, counts.making(str(key)))

    assert held(cache, "ann", "bob", 1) == ["bob", 1]


async def test_many_who_want_one_wait_for_one_computation(counts: Counts) -> None:
    cache, gate = cache_of(counts, 100), asyncio.Event()

    async def compute() -> Item:
        await gate.wait()
        return await counts.making("a")()

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(cache.get(1, compute)) for _ in range(10)]
        await asyncio.wait(waiting, timeout=0)
        gate.set()

    assert len({id(task.result()) for task in waiting}) == 1
    assert (counts.computed, counts.misses) == (["a"], 10)


async def test_one_who_leaves_does_not_stop_the_others(counts: Counts) -> None:
    cache, gate = cache_of(counts, 100), asyncio.Event()

    async def compute() -> Item:
        await gate.wait()
        return Item("a")

    leaving = asyncio.create_task(cache.get(1, compute))
    staying = asyncio.create_task(cache.get(1, compute))
    await asyncio.wait([leaving, staying], timeout=0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gate.set()

    assert await staying == Item("a")


async def test_a_failure_reaches_all_who_wait_and_is_not_remembered(counts: Counts) -> None:
    cache, gate = cache_of(counts, 100), asyncio.Event()

    async def failing() -> Item:
        await gate.wait()
        raise ValueError("no")

    waiting = [asyncio.create_task(cache.get(1, failing)) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [str(result) for result in results] == ["no"] * 3
    assert await cache.get(1, counts.making("a")) == Item("a")


async def test_what_is_dropped_while_it_is_computed_does_not_come_back(counts: Counts) -> None:
    cache, gate = cache_of(counts, 100), asyncio.Event()

    async def compute() -> Item:
        await gate.wait()
        return Item("a")

    waiting = asyncio.create_task(cache.get(1, compute))
    await asyncio.wait([waiting], timeout=0)
    cache.drop(1)
    gate.set()

    assert await waiting == Item("a")
    assert 1 not in cache
    await cache.get(1, counts.making("b"))
    assert 1 in cache


async def test_closing_stops_what_is_computed(counts: Counts) -> None:
    cache = cache_of(counts, 100)

    async def never() -> Item:
        await asyncio.Event().wait()
        raise AssertionError

    waiting = asyncio.create_task(cache.get(1, never))
    await asyncio.wait([waiting], timeout=0)
    await cache.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
