import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.core.admission import Made
from firstword.app.engine.capacity import (
    MAX_STREAMS,
    NUM_FACTORS,
    Capacity,
    LiveFactors,
    capacity_key,
    measured_before,
    measured_capacity,
)
from firstword.app.errors import Overloaded
from firstword.app.options import LMEngineOptions, NetworkOptions, StateOptions, VllmOptions
from firstword.models.runtimes.measurement import MeasurementFile
from tests.support.toy_engine import ToyEngine, asked

pytestmark = pytest.mark.anyio

AUDIO_S = 5.0


class Machine:
    """Speaks so many seconds of audio a second, as a function of how many streams speak at once."""

    def __init__(self, speed: Callable[[int], float]) -> None:
        self._speed, self._running, self._now_s = speed, 0, 0.0
        self.counts: list[int] = []

    def clock(self) -> float:
        return self._now_s

    async def speak(self) -> float:
        self._running += 1
        await asyncio.sleep(0)  # until all have begun
        if not self.counts or self.counts[-1] != self._running:
            self.counts.append(self._running)
        await asyncio.sleep(0)
        self._now_s += AUDIO_S / self._speed(self.counts[-1])
        self._running -= 1
        return AUDIO_S


@pytest.mark.parametrize(
    ("speed", "num_at_once", "expected", "counts"),
    [
        pytest.param(lambda count: 5.0, 8, 4, [4], id="two cores"),
        pytest.param(lambda count: 0.5, 8, 1, [4], id="slower than speech"),
        pytest.param(lambda count: min(10.0 * count, 100.0), 64, 80, [4, 8, 16, 32, 64], id="saturates"),
        pytest.param(lambda count: 1e6, 2, 800_000, [4], id="busy with four"),
        pytest.param(lambda count: 1e6, 1000, 800_000, [4, 8, 16, 32, 64, 128, MAX_STREAMS], id="endless"),
    ],
)
async def test_as_many_streams_as_are_spoken_in_real_time(
    speed: Callable[[int], float], num_at_once: int, expected: int, counts: list[int]
) -> None:
    machine = Machine(speed)
    assert await measured_capacity(machine.speak, machine.clock, num_at_once) == expected
    assert machine.counts == counts


async def test_what_was_measured_is_kept_for_the_same_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data" / "capacity.json"
    assert MeasurementFile(path, "a").read() is None
    MeasurementFile(path, "a").write(7)
    assert MeasurementFile(path, "a").read() == 7
    assert MeasurementFile(path, "b").read() is None
    assert not caplog.records
    for content in ("{", "[]", '{"key": "a"}'):
        path.write_text(content)
        assert MeasurementFile(path, "a").read() is None
    assert "cannot be read and is written anew" in caplog.text
    kept = (1, 0, True, "7", None, [3, 9], [9, 8, 7, 6], [0, "7"])
    assert [measured_before(one) for one in kept] == [[1], [], [], [], [], [3, 9], [8, 7, 6], []]


def test_the_most_of_the_last_measurements_counts(tmp_path: Path) -> None:
    """A busy minute makes one smaller; a machine that became slower is known after three."""
    file = MeasurementFile(tmp_path / "capacity.json", "a")
    capacity = Capacity(file)
    assert capacity.max_streams is None
    assert [capacity.add(measured) for measured in (3, 9, 5, 4, 4)] == [3, 9, 9, 9, 5]
    assert Capacity(file).max_streams == 5
    assert Capacity(file, measures_anew=True).max_streams is None


def test_the_key_is_of_everything_that_the_capacity_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    options, engines = NetworkOptions(), LMEngineOptions()
    keys = {
        capacity_key("one", options, engines, "torch"),
        capacity_key("other", options, engines, "torch"),
        capacity_key("one", replace(options, state=StateOptions(window_s=5)), engines, "torch"),
        capacity_key("one", options, LMEngineOptions(VllmOptions(max_num_seqs=2)), "torch"),
        capacity_key("one", options, engines, "vllm"),
    }
    assert capacity_key("one", NetworkOptions(), LMEngineOptions(), "torch") in keys
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    keys.add(capacity_key("one", options, engines, "torch"))
    assert len(keys) == 6


def capacity_of(tmp_path: Path) -> Capacity:
    return Capacity(MeasurementFile(tmp_path / "capacity.json", "a"))


def takes(seconds: Callable[[], float], toy: ToyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    step = toy.token2wav.step

    def slow_step(*given: Any) -> Any:
        toy.clock.pass_s(seconds())
        return step(*given)

    monkeypatch.setattr(toy.token2wav, "step", slow_step)


async def test_a_measured_engine_admits_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ToyEngine(max_streams=1) as toy:
        takes(lambda: 0.02, toy, monkeypatch)
        await toy.engine.warm_up(capacity_of(tmp_path))
        assert toy.engine.max_streams > 1
        assert toy.metrics.registry.get_sample_value("tts_max_streams") == toy.engine.max_streams
        places = [await toy.admission.acquire() for _ in range(toy.engine.max_streams)]
        assert toy.admission.num_queued == 0
        for place in places:
            place.release()


async def test_a_start_in_a_busy_minute_is_measured_again_while_nobody_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstword.app.engine.engine.IDLE_S", 0.01)
    seconds = 0.2
    async with ToyEngine(max_streams=1) as toy, asyncio.timeout(20):
        takes(lambda: seconds, toy, monkeypatch)
        capacity = capacity_of(tmp_path)
        slot = await toy.admission.acquire()  # a listener, from the start
        await toy.engine.warm_up(capacity)
        at_start = toy.engine.max_streams
        seconds = 0.02
        await asyncio.sleep(0.1)
        assert toy.engine.max_streams == at_start, "somebody speaks"
        slot.release()
        while toy.engine.max_streams == at_start:  # noqa: ASYNC110  a gauge, which tells nobody
            await asyncio.sleep(0.01)
        assert toy.engine.max_streams > at_start
        assert capacity.max_streams == capacity_of(tmp_path).max_streams == toy.engine.max_streams


async def test_who_comes_while_it_is_measured_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstword.app.engine.engine.IDLE_S", 0.0)
    measuring, ended = asyncio.Event(), asyncio.Event()

    async def measure(*given: Any) -> int:
        measuring.set()
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()
        return 1000

    async with ToyEngine(max_streams=2) as toy, asyncio.timeout(20):
        capacity = capacity_of(tmp_path)
        capacity.add(2)
        monkeypatch.setattr("firstword.app.engine.engine.measured_capacity", measure)
        await toy.engine.warm_up(capacity)
        await measuring.wait()
        (await toy.admission.acquire()).release()
        await ended.wait()
        assert toy.engine.max_streams == 2


@pytest.mark.parametrize(
    ("measured", "made", "expected"),
    [
        pytest.param(3, [Made(5, 1.7, 3)] * 24, [4, 5, 5], id="up while three are three quarters"),
        pytest.param(
            4, [Made(5, 0.5, 16)] * 80, [5, 6, 7, 8, 10, 12, 15, 16, 16, 16], id="at most four times"
        ),
        pytest.param(9, [Made(5, 15, 9)] * 32, [7, 6, 5, 5], id="at least half"),
        pytest.param(1, [Made(5, 50, 1)] * 8, [1], id="at least one"),
        pytest.param(8, [Made(5, 4, 8)] * 8, [8], id="as measured"),
        pytest.param(400, [Made(5, 4, 400)] * 8, [400], id="as measured, more than ran at once"),
        pytest.param(250, [Made(5, 0.5, 250)] * 16, [MAX_STREAMS] * 2, id="not above a measurement"),
        pytest.param(8, [Made(5, 9, 2)] * 8, [8], id="few at once say nothing"),
        pytest.param(8, [Made(0.5, 3, 8)] * 8, [8], id="short ones say nothing"),
        pytest.param(8, [Made(5, 99, 8), *[Made(5, 4, 8)] * 7], [8], id="an odd one"),
    ],
)
def test_live_streams_correct_what_was_measured(measured: int, made: list[Made], expected: list[int]) -> None:
    factors, now, found = LiveFactors(measured), measured, []
    for number, one in enumerate(made, start=1):
        now = factors.corrected(one, now)
        if number % NUM_FACTORS == 0:
            found.append(now)
    assert found == expected


@pytest.mark.parametrize(("chunk_s", "is_more"), [(0.001, True), (2.0, False)])
async def test_an_engine_at_work_finds_its_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    chunk_s: float,
    is_more: bool,
) -> None:
    async with ToyEngine(max_streams=4, max_queued=20, limits=WorkLimits()) as toy, asyncio.timeout(20):
        capacity = capacity_of(tmp_path)
        capacity.add(4)
        await toy.engine.warm_up(capacity)
        assert toy.engine.status.max_streams_from == "measurement"
        takes(lambda: chunk_s, toy, monkeypatch)

        async def speak(**fields: Any) -> None:
            async with toy.engine.open(asked("The train leaves at noon. " * 4, **fields)) as stream:
                async for _ in stream:
                    pass

        with caplog.at_level("INFO"):
            await asyncio.gather(*(speak(is_played=False) for _ in range(12)))
            assert toy.engine.max_streams == 4, "files say nothing of those that are played"
            await asyncio.gather(*(speak() for _ in range(12)))
        assert toy.engine.max_streams == (5 if is_more else 3)
        assert toy.engine.status.max_streams_from == "live streams"
        assert toy.metrics.registry.get_sample_value("tts_measured_streams") == 4
        assert "streams run at once, as live streams show" in caplog.text


async def test_a_refusal_says_how_many_and_what_that_comes_from() -> None:
    async with ToyEngine(max_streams=1, max_queued=0) as toy:
        slot = await toy.admission.acquire()
        with pytest.raises(Overloaded, match=r"full: 1 streams run and 0 wait \(1 at once, by FIRSTWORD_MAX"):
            await toy.admission.acquire()
        slot.release()


async def test_a_larger_capacity_admits_who_waits() -> None:
    async with ToyEngine(max_streams=1) as toy, asyncio.timeout(20):
        slot = await toy.admission.acquire()
        waiting = asyncio.create_task(toy.admission.acquire())
        await asyncio.sleep(0)
        toy.admission.resize(2)
        (await waiting).release()
        slot.release()
