"""Asks a server for speech in three ways: N requests at a time, N listeners, Poisson arrivals."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from firstword.bench.client import Ask, Outcome, Protocol
from firstword.bench.data_set import Item

LoadKind = Literal["closed", "listeners", "poisson"]
Speak = Callable[[Ask], Awaitable[Outcome]]
Work = Callable[[], Coroutine[Any, Any, None]]
_LAG_TICK_S = 0.02
_CALM_S = 0.1  # after a refusal, so that a closed loop does not become a flood


@dataclass(frozen=True, slots=True)
class Load:
    """amount: requests at a time ("closed"), listeners ("listeners"), requests a second ("poisson").

    closed: whoever has heard all asks again at once, which finds the throughput; `max_requests` in all where
    that is reached first. listeners: each asks again
    when it has played what it got, so N of them want N seconds of audio a second. poisson: requests come
    whether the server keeps up or not.
    """

    kind: LoadKind
    amount: float
    seconds: float
    protocol: Protocol = "http"
    max_requests: int | None = None

    def __str__(self) -> str:
        match self.kind:
            case "closed":
                return f"{self.amount:g} at a time, {self.protocol}"
            case "listeners":
                return f"{self.amount:g} listeners, {self.protocol}"
            case "poisson":
                return f"{self.amount:.3g}/s Poisson, {self.protocol}"


@dataclass(slots=True)
class Lag:
    """The worst delay of this process's own event loop; no figure is more exact than that."""

    worst_s: float = 0.0


def asks(items: Sequence[Item], protocol: Protocol) -> Iterator[Ask]:
    """Yield requests for the texts over and over, each with the same seed every time."""
    while True:
        for item in items:
            yield Ask(item.text, item.language, item.seed, protocol, item.name, item.speaker, item.reference)


def poisson_times(rate_hz: float, seconds: float, seed: int) -> list[float]:
    """Return the times of Poisson arrivals, from 0 on; the same for the same arguments."""
    generator, times = random.Random(seed), []
    now_s = generator.expovariate(rate_hz)
    while now_s < seconds:
        times.append(now_s)
        now_s += generator.expovariate(rate_hz)
    return times


async def run_load(load: Load, wanted: Iterator[Ask], speak: Speak, seed: int = 0) -> list[Outcome]:
    """Ask for `load.seconds`, then wait for what is under way. Outcomes are in the order of asking."""
    match load.kind:
        case "closed":
            outcomes = await _closed(load, wanted, speak)
        case "listeners":
            outcomes = await _listeners(load, wanted, speak, seed)
        case "poisson":
            outcomes = await _poisson(load, wanted, speak, seed)
    return sorted(outcomes, key=lambda outcome: outcome.asked_s)


async def _closed(load: Load, wanted: Iterator[Ask], speak: Speak) -> list[Outcome]:
    outcomes: list[Outcome] = []
    stop_s = time.perf_counter() + load.seconds
    numbers = count() if load.max_requests is None else iter(range(load.max_requests))

    async def ask_again() -> None:
        while time.perf_counter() < stop_s and next(numbers, None) is not None:
            outcomes.append(outcome := await speak(next(wanted)))
            await _calm_down(outcome)

    await _together([ask_again for _ in range(round(load.amount))])
    return outcomes


async def _listeners(load: Load, wanted: Iterator[Ask], speak: Speak, seed: int) -> list[Outcome]:
    """Run listeners, who begin one after the other within the first seconds."""
    outcomes: list[Outcome] = []
    generator = random.Random(seed)
    began_s = time.perf_counter()
    spread_s = min(load.seconds / 4, 4.0)

    def listener(first_s: float) -> Work:
        async def listen() -> None:
            await _until(began_s + first_s)
            while time.perf_counter() < began_s + load.seconds:
                outcomes.append(outcome := await speak(next(wanted)))
                await _calm_down(outcome)
                if (found := outcome.heard) is not None:
                    await _until(outcome.asked_s + found.ttfb_s + found.underrun_s + found.audio_s)

        return listen

    firsts = [generator.uniform(0, spread_s) for _ in range(round(load.amount))]
    await _together([listener(first_s) for first_s in firsts])
    return outcomes


async def _poisson(load: Load, wanted: Iterator[Ask], speak: Speak, seed: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began_s = time.perf_counter()

    async def come(ask: Ask) -> None:
        outcomes.append(await speak(ask))

    async with asyncio.TaskGroup() as tasks:
        for at_s in poisson_times(load.amount, load.seconds, seed):
            await _until(began_s + at_s)
            tasks.create_task(come(next(wanted)))
    return outcomes


@asynccontextmanager
async def watched_lag() -> AsyncIterator[Lag]:
    lag = Lag()

    async def watch() -> None:
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(_LAG_TICK_S)
            lag.worst_s = max(lag.worst_s, time.perf_counter() - began_s - _LAG_TICK_S)

    watching = asyncio.create_task(watch())
    try:
        yield lag
    finally:
        watching.cancel()


async def _together(works: list[Work]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(work())


async def _until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - time.perf_counter()))


async def _calm_down(outcome: Outcome) -> None:
    if outcome.heard is None:
        await asyncio.sleep(_CALM_S)
