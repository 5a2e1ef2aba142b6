"""TensorRT-LLM as a back end, against servers that run the merged model in torch."""

import asyncio
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstword.app.engine.backend import BackendError
from firstword.app.hosts.trtllm.server import MergedModel, create_app
from firstword.app.options import (
    EngineOptions,
    LMEngineOptions,
    NetworkOptions,
    Sampling,
    SpeakerOptions,
    TrtllmOptions,
)
from firstword.app.synthesizer import AsyncSynthesizer
from firstword.models.lm.plan import Forbidden
from firstword.models.lm.tokens import EngineRestarting, GenerationFailed
from firstword.models.runtimes.engines.decode_engine import DecodeEngine, EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from firstword.models.runtimes.engines.sampling_state import SamplingState
from firstword.models.runtimes.tensorrt_llm.engine import (
    CompletionsEngine,
    MergedNames,
    StartedServer,
    server_command,
)
from firstword.models.runtimes.tensorrt_llm.export import MergedIds, export
from tests.support.checkpoints import small_checkpoint
from tests.support.decode_engine import ToyDecodeEngine, until
from tests.support.small_lm import TEXT, finished, new_generator, small_lm, utterance
from tests.support.trtllm import MergedRuntime, in_time, plain_app, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trtllm") / "merged"
    export(small_checkpoint("cosyvoice2"), directory, "float32")
    return directory


@pytest.fixture
def runtime(merged: Path) -> MergedRuntime:
    return MergedRuntime(MergedModel.read(merged))


def names(ids: MergedIds) -> MergedNames:
    lm = small_lm()
    bias = None if lm.head.bias is None else lm.head.bias.detach()
    return MergedNames(lm.vocabulary, ids, bias, lm.config.sampling)


@asynccontextmanager
async def generating(
    open_engine: Callable[[], Awaitable[DecodeEngine]], is_greedy: bool = False
) -> AsyncIterator[EngineTokenGenerator]:
    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0.01)

    supervisor = EngineSupervisor(open_engine, sleep=at_once)
    await supervisor.start()
    generator = EngineTokenGenerator(supervisor, small_lm().config, 1000, is_greedy)
    try:
        yield generator
    finally:
        await generator.aclose()


@asynccontextmanager
async def exactly(runtime: MergedRuntime) -> AsyncIterator[EngineTokenGenerator]:
    """The generator over our own server."""
    async with (
        serving(create_app(runtime, runtime.model, "merged")) as url,
        generating(lambda: CompletionsEngine.open(url, names(runtime.model.ids))) as generator,
    ):
        yield generator


async def in_torch(sampling: Sampling | None = None) -> list[int]:
    generator = new_generator()
    try:
        return await finished(generator.start(replace(utterance(), sampling=sampling)))
    finally:
        await generator.aclose()


@pytest.mark.parametrize("sampling", [None, Sampling(temperature=0.7, ras_window=4, ras_threshold=0.3)])
async def test_our_server_draws_what_torch_draws(runtime: MergedRuntime, sampling: Sampling | None) -> None:
    expected = await in_torch(sampling)
    asked = replace(utterance(), sampling=sampling)
    async with exactly(runtime) as generator:
        assert await finished(generator.start(asked)) == expected
    assert runtime.num_aborted == 0


async def test_text_that_comes_later_is_spoken_as_by_an_engine_of_ours(runtime: MergedRuntime) -> None:
    async def toy() -> ToyDecodeEngine:
        return ToyDecodeEngine(small_lm())

    spoken = []
    async with serving(create_app(runtime, runtime.model, "merged")) as url:
        for opened in (toy, lambda: CompletionsEngine.open(url, names(runtime.model.ids))):
            async with generating(opened) as generator:  # type: ignore[arg-type]
                stream = generator.start(utterance(None))
                for id in TEXT * 2:
                    generator.push_text(stream, [id])
                generator.finish_text(stream)
                spoken.append(await finished(stream))
    assert spoken[0] == spoken[1]
    assert len(spoken[0]) > 0


@pytest.mark.parametrize("form", ["ids", "text"])
async def test_a_plain_server_keeps_to_our_rules(runtime: MergedRuntime, form: str) -> None:
    async def toy() -> ToyDecodeEngine:
        return ToyDecodeEngine(small_lm())

    async with generating(toy, is_greedy=True) as generator:
        expected = await finished(generator.start(utterance()))
    async with serving(plain_app(runtime, form)) as url:
        opened = lambda: CompletionsEngine.open(url, names(runtime.model.ids))  # noqa: E731
        async with generating(opened, is_greedy=True) as generator:
            assert await finished(generator.start(utterance())) == expected
        async with generating(opened) as generator:
            first, again = [await finished(generator.start(utterance())) for _ in range(2)]
    assert first == again, "a seed gives the same speech"
    assert len(first) > 0


def test_biases_keep_text_and_what_is_forbidden_below_every_class(merged: Path) -> None:
    model = MergedModel.read(merged)
    biases = names(model.ids).logit_bias(Forbidden.STOPS)
    stops = {str(id) for id in names(model.ids).stop_ids}
    assert {biases[id] for id in stops} == {-100.0}
    assert min(bias for id, bias in biases.items() if id not in stops) > 40
    assert set(biases) == {str(model.ids.speech + id) for id in range(model.vocabulary.num_classes)}


async def test_a_stopped_stream_aborts_its_request(runtime: MergedRuntime) -> None:
    async with exactly(runtime) as generator:
        stream = generator.start(utterance())
        await stream.wait_for(2)
        runtime.goes_on.clear()
        generator.stop(stream)
        await in_time(lambda: runtime.num_aborted == 1)
        assert runtime.num_running == 0


async def test_what_the_server_refuses_fails_that_text_alone(runtime: MergedRuntime) -> None:
    async with serving(plain_app(runtime, "ids")) as url:

        async def opened() -> CompletionsEngine:
            engine = await CompletionsEngine.open(url, names(runtime.model.ids))
            engine._is_exact = True  # what a plain server has no field for
            return engine

        async with generating(opened) as generator:
            with pytest.raises(GenerationFailed, match="refused"):
                await finished(generator.start(utterance()))
            assert generator.unready_reason == ""


async def test_a_server_that_dies_is_started_again(merged: Path) -> None:
    ids = MergedModel.read(merged).ids
    command = [sys.executable, "-m", "tests.support.trtllm", str(merged)]
    servers: list[StartedServer] = []

    async def opened() -> StartedServer:
        servers.append(await StartedServer.open(command, names(ids)))
        return servers[-1]

    async with generating(opened) as generator:
        expected = await in_torch()
        assert await finished(generator.start(utterance())) == expected
        servers[0].process.send_signal(signal.SIGSTOP)
        stream = generator.start(utterance())
        servers[0].process.kill()
        with pytest.raises(EngineRestarting):
            await finished(stream)
        await in_time(lambda: len(servers) == 2 and not generator.unready_reason)
        assert await finished(generator.start(utterance())) == expected
    assert all(server.process.returncode is not None for server in servers), "no process is left"


async def test_a_server_that_goes_away_is_missed(runtime: MergedRuntime) -> None:
    async with serving(create_app(runtime, runtime.model, "merged")) as url:
        engine = await CompletionsEngine.open(url, names(runtime.model.ids))
        watching = asyncio.create_task(engine.wait_until_dead())
        await until(lambda: not watching.done())
    async with asyncio.timeout(10):
        await watching
    await engine.aclose()


async def test_what_does_not_come_up_says_so(merged: Path) -> None:
    ids = MergedModel.read(merged).ids
    with pytest.raises(BackendError, match=r"URL is http://127\.0\.0\.1:9.*start trtllm-serve"):
        await CompletionsEngine.open("http://127.0.0.1:9", names(ids))
    with pytest.raises(BackendError, match="ended with 3"):
        await StartedServer.open([sys.executable, "-c", "raise SystemExit(3)"], names(ids))


async def test_the_service_speaks_with_it(runtime: MergedRuntime, tmp_path: Path) -> None:
    async with serving(create_app(runtime, runtime.model, "merged")) as url:
        networks = NetworkOptions(small_checkpoint("cosyvoice2"), backend="trtllm")
        engines = LMEngineOptions(trtllm=TrtllmOptions(url=url))
        options = EngineOptions(max_streams=1), SpeakerOptions(data_dir=tmp_path)
        async with AsyncSynthesizer(networks, *options, engines) as synthesizer:
            speech = await synthesizer.speak("Hi.", stream=False, seed=3)
            assert synthesizer._opened.info.backend == "trtllm"
        torch_networks = replace(networks, backend="torch", precision="float32")
        async with AsyncSynthesizer(torch_networks, *options) as synthesizer:
            expected = await synthesizer.speak("Hi.", stream=False, seed=3)
    assert len(speech) == len(expected) > 0


async def test_without_tensorrt_llm_or_an_address_it_is_refused(tmp_path: Path) -> None:
    networks = NetworkOptions(small_checkpoint("cosyvoice2"), backend="trtllm")
    with pytest.raises(BackendError, match=r"not installed.*FIRSTWORD_TRTLLM_URL"):
        async with AsyncSynthesizer(networks, EngineOptions(), SpeakerOptions(data_dir=tmp_path)):
            pass


def test_our_server_is_started_with_what_was_set(tmp_path: Path) -> None:
    given = TrtllmOptions(engine=tmp_path / "engines", tensor_parallel_size=2, memory_share=0.5)
    command = server_command(tmp_path, given)
    assert command[1:4] == ["-m", "firstword.app.hosts.trtllm.server", str(tmp_path)]
    assert command[4:] == [
        *("--engine", str(tmp_path / "engines"), "--tensor-parallel-size", "2"),
        *("--max-model-len", "8192", "--memory-share", "0.5"),
    ]


def test_a_step_that_is_run_again_draws_the_same_and_the_processor_travels(merged: Path) -> None:
    model = MergedModel.read(merged)
    state = SamplingState(5, 0, (), int(Forbidden.STOPS), 3, int(Forbidden.NOTHING))
    processor = pickle.loads(pickle.dumps(model.processor(state)))
    logits = torch.randn(3, 1, 1, model.ids.num_ids, generator=torch.Generator().manual_seed(1))

    def drawn(step: int, num_ids: int) -> int:
        row = logits[step].clone()
        processor(1, row, [list(range(num_ids))], None, None)
        assert row.isfinite().sum() == 1
        return int(row.argmax())

    first = [drawn(step, 10 + step) for step in range(3)]
    assert [drawn(1, 11), drawn(2, 12)] == first[1:]
    broken = torch.full((1, 1, model.ids.num_ids), torch.nan)
    processor(1, broken, [list(range(13))], None, None)
    assert int(broken.argmax()) == model.ids.speech + model.vocabulary.num_classes
