"""Networks are freed while nobody uses them, and who comes next finds them as they were."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from firstword.app.core.admission import Admission
from firstword.app.core.interface import Audio
from firstword.app.engine.loading import load_networks
from firstword.app.engine.unloading import (
    LoadOnDemandAdmission,
    LoadOnDemandThreads,
    Unloading,
    open_unloading,
)
from firstword.app.errors import Overloaded, Restarting
from firstword.app.options import InvalidOptions, LMEngineOptions, NetworkOptions, QueueOptions
from firstword.models.checkpoint.open import fingerprint
from tests.support.checkpoints import small_checkpoint
from tests.support.clock import Clock
from tests.support.grpc_serving import until
from tests.support.toy_engine import SpeechlikeToken2Wav, ToyEngine, asked, asked_in_pieces

pytestmark = pytest.mark.anyio
SOON_S = 0.02


async def until_unloaded(unloading: Unloading) -> None:
    await until(lambda: unloading.state == "unloaded")


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


async def spoken(toy: ToyEngine) -> Any:
    async with toy.engine.open(asked("Hi there.", seed=1)) as stream:
        return np.concatenate([event.samples async for event in stream if isinstance(event, Audio)])


async def test_idle_networks_go_and_the_next_request_finds_them_as_they_were() -> None:
    async with ToyEngine(token2wav=SpeechlikeToken2Wav(), unload_after_s=SOON_S) as toy:
        assert toy.unloading is not None
        first = await spoken(toy)
        await toy.engine.warm_up()
        await until_unloaded(toy.unloading)
        assert not hasattr(toy.token2wav, "_sound"), "nothing keeps what is large"
        assert (toy.engine.status.is_ready, toy.engine.status.networks) == (True, "unloaded")
        assert toy.metrics.registry.get_sample_value("tts_networks_unloaded") == 1
        assert np.array_equal(await spoken(toy), first)
        slot = await toy.admission.acquire()  # nothing goes while it is held
        assert toy.engine.status.networks == "loaded"
        assert toy.metrics.registry.get_sample_value("tts_networks_unloaded") == 0
        slot.release()
        await until_unloaded(toy.unloading)


async def test_work_beside_the_streams_keeps_them() -> None:
    clock, network = Clock(), SimpleNamespace(weights=[1.0], rate=24_000)
    unloading = Unloading([network], lambda: [SimpleNamespace(weights=[1.0], rate=1)], 5.0, clock)
    unloading.using(lambda: clock.pass_s(60.0))
    assert unloading.take_weights() == [], "it has just been used"
    clock.pass_s(6.0)
    assert unloading.using(unloading.take_weights) == [], "it is being used"
    clock.pass_s(6.0)
    assert unloading.take_weights() == [[1.0]]
    assert vars(network) == {"rate": 24_000}, "a rate is asked for without any use"
    with LoadOnDemandThreads(unloading, 2) as threads:
        assert threads.submit(lambda times: times * network.weights, 2).result() == [1.0, 1.0]
    assert unloading.state == "loaded"


async def test_a_running_stream_keeps_them() -> None:
    async with ToyEngine(token2wav=SpeechlikeToken2Wav(), unload_after_s=SOON_S) as toy:
        assert toy.unloading is not None
        freeing = asyncio.create_task(toy.unloading.run(toy.admission))
        async with toy.engine.open(asked_in_pieces()) as stream:
            stream.push_text("Hi there. ")
            await asyncio.sleep(5 * SOON_S)
            assert toy.unloading.state == "loaded"
            stream.finish_text()
            assert [event async for event in stream if isinstance(event, Audio)]
        await until_unloaded(toy.unloading)
        await ended(freeing)


class SlowLoad:
    """A load that ends, by hand, well or with an error."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.may_end = threading.Event()
        self.failure: Exception | None = None

    def __call__(self) -> list[object]:
        self.num_calls += 1
        assert self.may_end.wait(30)
        if self.failure is not None:
            raise self.failure
        return [SimpleNamespace(weights=1)]


def unloaded(load: SlowLoad) -> Unloading:
    clock = Clock()
    unloading = Unloading([SimpleNamespace(weights=1)], load, 1.0, clock)
    clock.pass_s(2.0)
    unloading.take_weights()
    assert unloading.state == "unloaded"
    return unloading


async def test_requests_during_a_load_share_it_and_the_line_keeps_its_limits() -> None:
    load = SlowLoad()
    unloading = unloaded(load)
    admission = LoadOnDemandAdmission(unloading.ensure_loaded, 2, QueueOptions(1, 60.0), Clock())
    running = [asyncio.create_task(admission.acquire()) for _ in range(3)]
    await until(lambda: load.num_calls == 1 and admission.num_queued == 1)
    with pytest.raises(Overloaded, match="2 streams run and 1 wait"):
        await admission.acquire()
    left = running.pop(0)
    left.cancel()  # its client leaves: the load goes on for the others
    await asyncio.wait([left])
    await until(lambda: admission.num_queued == 0)
    load.may_end.set()
    for slot in await asyncio.gather(*running):
        slot.release()
    assert (load.num_calls, admission.num_running, unloading.state) == (1, 0, "loaded")


async def test_a_load_that_fails_fails_once_for_all_who_wait() -> None:
    load = SlowLoad()
    load.failure = OSError("no such file")
    unloading = unloaded(load)
    admission = LoadOnDemandAdmission(unloading.ensure_loaded, 40, QueueOptions(0, 60.0), Clock())
    waiting = [asyncio.create_task(admission.acquire()) for _ in range(40)]
    await until(lambda: load.num_calls == 1)
    async with asyncio.timeout(10):
        await asyncio.to_thread(lambda: "there are threads for others")
    load.may_end.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Restarting] * 40
    assert (load.num_calls, admission.num_running) == (1, 0)


async def test_a_load_that_takes_too_long_is_no_longer_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.engine.unloading.LOAD_TIMEOUT_S", SOON_S)
    load = SlowLoad()
    unloading = unloaded(load)
    with pytest.raises(Restarting, match=r"not loaded after 0\.02 s"):
        await unloading.ensure_loaded()
    load.may_end.set()
    await until(lambda: unloading.state == "loaded")


async def test_a_server_whose_networks_cannot_be_loaded_is_not_ready_until_they_are() -> None:
    async with ToyEngine(token2wav=SpeechlikeToken2Wav(), unload_after_s=SOON_S) as toy:
        unloading = toy.unloading
        assert unloading is not None
        load = SlowLoad()
        load.failure = OSError("no such file")
        load.may_end.set()
        good, unloading._load = unloading._load, load
        await toy.engine.warm_up()
        await until_unloaded(unloading)
        with pytest.raises(Restarting):
            await spoken(toy)
        assert not toy.engine.status.is_ready
        assert "could not be loaded again" in toy.engine.status.reason
        assert toy.metrics.registry.get_sample_value("tts_ready") == 0
        await until(lambda: load.num_calls > 1)  # it tries on its own: nobody sends it requests
        unloading._load = good
        await until(lambda: toy.engine.status.is_ready)


async def test_networks_that_cannot_be_loaded_are_tried_again_by_the_next() -> None:
    answers: list[Any] = [OSError("no such file"), [SimpleNamespace(weights=1)]]

    def load() -> list[object]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast(list[object], answer)

    clock = Clock()
    unloading = Unloading([SimpleNamespace(weights=1)], load, 1.0, clock)
    clock.pass_s(2.0)
    unloading.take_weights()
    with pytest.raises(Restarting, match="could not be loaded again"):
        await unloading.ensure_loaded()
    assert unloading.state == "unloaded"
    await unloading.ensure_loaded()
    assert unloading.state == "loaded"


async def test_without_the_setting_nothing_stands_on_a_requests_way() -> None:
    async with ToyEngine() as toy:
        assert toy.unloading is None
        assert type(toy.admission) is Admission
    anything = cast(Any, None)
    assert open_unloading(0, anything, anything, NetworkOptions(), LMEngineOptions()) is None
    elsewhere = cast(Any, SimpleNamespace(lm=None, backend=SimpleNamespace(name="vllm")))
    with pytest.raises(InvalidOptions, match=r"here it runs in vllm\. Set FIRSTWORD_BACKEND=torch"):
        open_unloading(1, elsewhere, anything, NetworkOptions(), LMEngineOptions())


@pytest.mark.slow
async def test_real_networks_compute_the_same_before_and_after() -> None:
    options = NetworkOptions(small_checkpoint("cosyvoice2"), device="cpu", precision="float32")
    loaded = load_networks(options)
    reader = loaded.checkpoint.load_prompt_reader(1)
    networks = cast(Any, SimpleNamespace(reader=reader, fingerprint=fingerprint(options.checkpoint)))
    unloading = open_unloading(SOON_S, loaded, networks, options, LMEngineOptions())
    assert unloading is not None
    assert loaded.lm is not None
    mel = torch.randn(80, 20)

    def computed() -> Any:
        assert loaded.lm is not None
        with torch.inference_mode():
            return loaded.lm.embed(torch.arange(4)[None]), cast(Any, loaded.token2wav).predict_f0(mel)

    before = computed()
    freeing = asyncio.create_task(unloading.run(Admission(1, QueueOptions(1, 1.0), Clock())))
    await until_unloaded(unloading)
    await ended(freeing)
    assert not hasattr(reader, "_speech_tokenizer")
    with pytest.raises(AttributeError):
        computed()
    await unloading.ensure_loaded()
    assert all(map(torch.equal, computed(), before))
    assert hasattr(reader, "_speech_tokenizer")
    networks.fingerprint = "that of other weights"
    await asyncio.sleep(2 * SOON_S)
    assert unloading.take_weights()
    with pytest.raises(Restarting) as refused:
        await unloading.ensure_loaded()
    assert "holds another checkpoint than" in str(refused.value.__cause__)
