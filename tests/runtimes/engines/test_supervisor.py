"""An engine that dies is started again, later each time it dies soon."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client import Counter

from firstword.models.lm.tokens import EngineRestarting
from firstword.models.runtimes.engines.decode_engine import (
    FIRST_DELAY_S,
    MAX_DELAY_S,
    STABLE_AFTER_S,
    EngineSupervisor,
)
from tests.support.clock import Clock
from tests.support.decode_engine import ToyDecodeEngine, until
from tests.support.small_lm import small_lm

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class Starts:
    """Engines as they are opened; the next ones fail as often as `failures` says."""

    engines: list[ToyDecodeEngine] = field(default_factory=list)
    failures: int = 0
    delays_s: list[float] = field(default_factory=list)
    opened: asyncio.Queue[ToyDecodeEngine] = field(default_factory=asyncio.Queue)

    async def open(self) -> ToyDecodeEngine:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no memory\nleft")
        self.engines.append(ToyDecodeEngine(small_lm()))
        self.opened.put_nowait(self.engines[-1])
        return self.engines[-1]

    async def sleep(self, seconds: float) -> None:
        self.delays_s.append(seconds)


@asynccontextmanager
async def kept(starts: Starts, clock: Clock) -> AsyncIterator[EngineSupervisor]:
    supervisor = EngineSupervisor(starts.open, starts.sleep, clock)
    await supervisor.start()
    await starts.opened.get()
    try:
        yield supervisor
    finally:
        await supervisor.aclose()


async def reopened(starts: Starts, supervisor: EngineSupervisor) -> None:
    async with asyncio.timeout(30):
        await starts.opened.get()
    await until(lambda: not supervisor.unready_reason)


async def test_each_early_death_doubles_the_delay_and_a_long_life_resets_it() -> None:
    starts, clock = Starts(), Clock()
    async with kept(starts, clock) as supervisor:
        for _ in range(3):
            starts.engines[-1].die()
            await reopened(starts, supervisor)
        clock.pass_s(STABLE_AFTER_S + 1)
        starts.engines[-1].die()
        await reopened(starts, supervisor)
        assert supervisor.engine is starts.engines[-1]
    assert [delay / FIRST_DELAY_S for delay in starts.delays_s] == [1, 2, 4, 1]
    assert all(engine.is_closed for engine in starts.engines)


async def test_only_engines_that_follow_a_dead_one_count_as_restarts() -> None:
    starts, restarts = Starts(), Counter("restarts", "", registry=None)
    supervisor = EngineSupervisor(starts.open, starts.sleep, Clock(), on_restart=restarts.inc)
    await supervisor.start()
    await starts.opened.get()
    assert restarts.collect()[0].samples[0].value == 0
    starts.failures = 1
    starts.engines[-1].die()
    await reopened(starts, supervisor)
    await supervisor.aclose()
    assert restarts.collect()[0].samples[0].value == 1


async def test_a_start_that_fails_is_tried_again_and_told(caplog: pytest.LogCaptureFixture) -> None:
    starts = Starts()
    with caplog.at_level(logging.CRITICAL, "firstword.models.runtimes.engines.decode_engine"):
        async with kept(starts, Clock()) as supervisor:
            reasons: list[str] = []

            async def sleep(seconds: float) -> None:
                reasons.append(supervisor.unready_reason)
                with pytest.raises(EngineRestarting, match="start"):
                    _ = supervisor.engine

            starts.sleep = sleep  # type: ignore[method-assign]
            supervisor._sleep = sleep
            starts.failures = 2
            starts.engines[-1].die()
            await reopened(starts, supervisor)
    assert "started again" in reasons[0]
    assert reasons[1:] == ["the language model's engine died, and did not start again: no memory left"] * 2


async def test_starts_that_fail_for_a_day_are_tried_on(caplog: pytest.LogCaptureFixture) -> None:
    starts = Starts()
    with caplog.at_level(logging.CRITICAL, "firstword.models.runtimes.engines.decode_engine"):
        async with kept(starts, Clock()) as supervisor:
            starts.failures = 24 * 60
            starts.engines[-1].die()
            await reopened(starts, supervisor)
    assert starts.delays_s[-1] == MAX_DELAY_S


async def test_a_dead_engine_that_cannot_be_closed_is_followed_by_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts = Starts()

    async def broken() -> None:
        raise OSError("no such process")

    with caplog.at_level(logging.CRITICAL, "firstword.models.runtimes.engines.decode_engine"):
        async with kept(starts, Clock()) as supervisor:
            starts.engines[-1].aclose = broken  # type: ignore[method-assign]
            starts.engines[-1].die()
            await reopened(starts, supervisor)
            assert supervisor.engine is starts.engines[1]


async def test_a_first_start_that_fails_is_the_callers() -> None:
    starts = Starts(failures=1)
    supervisor = EngineSupervisor(starts.open, starts.sleep)
    with pytest.raises(RuntimeError, match="no memory"):
        await supervisor.start()
    assert "starts" in supervisor.unready_reason
    await supervisor.aclose()
