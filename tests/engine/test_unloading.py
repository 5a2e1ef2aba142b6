"""Networks are freed while nobody uses them, and who comes next finds them as they were."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from firstword.app.core.admission import Admission
from firstword.app.core.interface import Audio
from firstword.app.engine.loading import load_networks
from firstword.app.engine.unloading import Unloading, WakingWorker, open_unloading
from firstword.app.errors import Restarting
from firstword.app.options import InvalidOptions, LMEngineOptions, NetworkOptions
from tests.support.checkpoints import small_checkpoint
from tests.support.clock import Clock
from tests.support.grpc_serving import until
from tests.support.toy_engine import SpeechlikeToken2Wav, ToyEngine, asked

pytestmark = pytest.mark.anyio
SOON_S = 0.02


async def until_unloaded(unloading: Unloading) -> None:
    await until(lambda: unloading.state == "unloaded")


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
        assert toy.engine.status.networks == "loaded"
        assert toy.metrics.registry.get_sample_value("tts_networks_unloaded") == 0
        await until_unloaded(toy.unloading)


async def test_a_stream_keeps_them_and_so_does_other_work() -> None:
    clock, network = Clock(), SimpleNamespace(weights=[1.0], rate=24_000)
    unloading = Unloading([network], lambda: [SimpleNamespace(weights=[1.0], rate=1)], 5.0, clock)
    unloading.using(lambda: clock.pass_s(60.0))
    assert unloading._taken_out() == [], "it has just been used"
    clock.pass_s(6.0)
    assert unloading.using(unloading._taken_out) == [], "it is being used"
    clock.pass_s(6.0)
    assert unloading._taken_out() == [[1.0]]
    assert vars(network) == {"rate": 24_000}, "a rate is asked for without any use"
    with WakingWorker(unloading) as worker:
        assert worker.submit(lambda times: times * network.weights, 2).result() == [1.0, 1.0]
    assert unloading.state == "loaded"


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
    unloading._taken_out()
    with pytest.raises(Restarting, match="could not be loaded again"):
        await unloading.wake()
    assert unloading.state == "unloaded"
    await unloading.wake()
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
    networks = cast(Any, SimpleNamespace(reader=reader))
    unloading = open_unloading(SOON_S, loaded, networks, options, LMEngineOptions())
    assert unloading is not None
    assert loaded.lm is not None
    mel = torch.randn(80, 20)

    def computed() -> Any:
        assert loaded.lm is not None
        with torch.inference_mode():
            return loaded.lm.embed(torch.arange(4)[None]), cast(Any, loaded.token2wav).predict_f0(mel)

    before = computed()
    freeing = asyncio.create_task(unloading.run(Admission(1, 1, 1.0, Clock())))
    await until_unloaded(unloading)
    freeing.cancel()
    assert not hasattr(reader, "_speech_tokenizer")
    with pytest.raises(AttributeError):
        computed()
    await unloading.wake()
    assert all(map(torch.equal, computed(), before))
    assert hasattr(reader, "_speech_tokenizer")
