import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firstword.app.engine.capacity import MAX_STREAMS, capacity_key, is_capacity, measured_capacity
from firstword.app.options import LMEngineOptions, NetworkOptions, VllmOptions
from firstword.models.runtimes.measurement import MeasurementFile
from tests.support.toy_engine import ToyEngine

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
    assert [is_capacity(kept) for kept in (1, 0, True, "7", None)] == [True, False, False, False, False]


def test_the_key_is_of_everything_that_the_capacity_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    options, engines = NetworkOptions(), LMEngineOptions()
    keys = {
        capacity_key("one", options, engines, "torch"),
        capacity_key("other", options, engines, "torch"),
        capacity_key("one", replace(options, window_s=5), engines, "torch"),
        capacity_key("one", options, LMEngineOptions(VllmOptions(max_num_seqs=2)), "torch"),
        capacity_key("one", options, engines, "vllm"),
    }
    assert capacity_key("one", NetworkOptions(), LMEngineOptions(), "torch") in keys
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    keys.add(capacity_key("one", options, engines, "torch"))
    assert len(keys) == 6


async def test_a_measured_engine_admits_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ToyEngine(max_streams=1) as toy:
        step = toy.token2wav.step

        def slow_step(*given: Any) -> Any:
            toy.clock.pass_s(0.02)
            return step(*given)

        monkeypatch.setattr(toy.token2wav, "step", slow_step)
        await toy.engine.warm_up(measures=True)
        assert toy.engine.max_streams > 1
        assert toy.metrics.registry.get_sample_value("tts_max_streams") == toy.engine.max_streams
        places = [await toy.admission.acquire() for _ in range(toy.engine.max_streams)]
        assert toy.admission.num_queued == 0
        for place in places:
            place.release()
