"""The workers that turn chunks into samples."""

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.app.core.token2wav_pool import SolvedChunk, Token2WavPool
from firstword.app.errors import SynthesisFailed
from firstword.models.token2wav_step import StepInput, StepTimes
from tests.support.pace import until_idle

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class State:
    name: str
    is_broken: bool = False
    kept: list[int] = field(default_factory=list)


class SlowToken2Wav:
    """One sample a token, its value; each step waits until it is let go."""

    sample_rate_hz = 1000

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.goes_on = threading.Event()
        self.has_begun = threading.Event()

    def start(self, prompt: Any, seed: int = 0, uses_prompt: bool = True) -> State:
        return State(str(prompt))

    def tokens_wanted(self, state: State) -> int:
        return 1

    def step(self, batch: Sequence[StepInput[State]], times: StepTimes | None = None) -> list[Tensor]:
        self.has_begun.set()
        assert self.goes_on.wait(20)
        self.batches.append([item.state.name for item in batch])
        for item in batch:
            item.state.kept.extend(item.tokens)
        if any(item.state.is_broken for item in batch):
            raise RuntimeError("a network failed")
        assert times is not None
        times.flow_s, times.vocoder_s = 2.0, 1.0
        given = [torch.tensor(item.state.kept, dtype=torch.float32) for item in batch]
        for item in batch:
            item.state.kept.clear()
        return given


async def begun(networks: SlowToken2Wav, pool: Token2WavPool) -> "asyncio.Task[SolvedChunk]":
    """A chunk that keeps the only worker busy."""
    busy = asyncio.create_task(pool.run(StepInput(State("busy"), [0], False), 0.0))
    assert await asyncio.to_thread(networks.has_begun.wait, 20)
    return busy


async def test_the_most_urgent_chunks_share_the_next_batch() -> None:
    networks = SlowToken2Wav()
    pool = Token2WavPool(networks, num_workers=1, max_batch=2)
    busy = await begun(networks, pool)
    names = [("late", 9.0), ("soon", 1.0), ("next", 2.0)]
    runs = [
        asyncio.create_task(pool.run(StepInput(State(name), [len(name)], False), deadline_s))
        for name, deadline_s in names
    ]
    await until_idle()
    networks.goes_on.set()
    waves = await asyncio.gather(*runs, busy)
    assert networks.batches == [["busy"], ["soon", "next"], ["late"]]
    assert [wave.samples.tolist() for wave in waves[:2]] == [[4.0], [4.0]]
    assert [wave.flow_s + wave.vocoder_s for wave in waves] == [3.0, 1.5, 1.5, 3.0]
    await pool.aclose()


async def test_one_failing_stream_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    networks = SlowToken2Wav()
    pool = Token2WavPool(networks, num_workers=1, max_batch=8)
    busy = await begun(networks, pool)
    states = [State("well"), State("broken", is_broken=True), State("well too")]
    runs = [asyncio.create_task(pool.run(StepInput(state, [5], False), 1.0)) for state in states]
    await until_idle()
    networks.goes_on.set()
    with caplog.at_level(logging.CRITICAL, "firstword.app.core.token2wav_pool"):
        well, broken, well_too, _ = await asyncio.gather(*runs, busy, return_exceptions=True)
    assert isinstance(broken, SynthesisFailed)
    assert isinstance(well, SolvedChunk)
    assert isinstance(well_too, SolvedChunk)
    assert (
        well.samples.tolist() == well_too.samples.tolist() == [5.0]
    )  # the tokens were kept, not taken twice
    again = await pool.run(StepInput(State("after"), [1], False), 0.0)
    assert again.samples.tolist() == [1.0]
    await pool.aclose()


async def test_a_cancelled_chunk_is_not_computed() -> None:
    networks = SlowToken2Wav()
    pool = Token2WavPool(networks, num_workers=1, max_batch=1)
    busy = await begun(networks, pool)
    leaving = asyncio.create_task(pool.run(StepInput(State("leaving"), [1], False), 0.0))
    await until_idle()
    leaving.cancel()
    await until_idle()
    networks.goes_on.set()
    await busy
    await pool.run(StepInput(State("after"), [1], False), 0.0)
    assert networks.batches == [["busy"], ["after"]]
    await pool.aclose()


async def test_an_idle_worker_keeps_no_stream_alive() -> None:
    networks = SlowToken2Wav()
    networks.goes_on.set()
    pool = Token2WavPool(networks, num_workers=1, max_batch=1)
    state = State("gone")
    await pool.run(StepInput(state, [1], False), 0.0)
    alive = weakref.ref(state)
    del state
    await asyncio.to_thread(gc.collect)
    assert alive() is None
    await pool.aclose()


async def test_closing_fails_what_waits_and_what_comes() -> None:
    networks = SlowToken2Wav()
    pool = Token2WavPool(networks, num_workers=1, max_batch=1)
    busy = await begun(networks, pool)
    waiting = asyncio.create_task(pool.run(StepInput(State("waiting"), [1], False), 0.0))
    await until_idle()
    closing = asyncio.create_task(pool.aclose())
    await until_idle()
    networks.goes_on.set()
    await closing
    with pytest.raises(SynthesisFailed):
        await waiting
    assert (await busy).samples.tolist() == [0.0]
    with pytest.raises(SynthesisFailed):
        await pool.run(StepInput(State("late"), [1], False), 0.0)
