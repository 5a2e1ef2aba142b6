"""The vLLM generator over an engine that the test controls; tests/vllm has the real one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from firstword.models.lm.alignment import text_attention
from firstword.models.lm.alignment_reader import AlignmentReader
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import BistreamPlan
from firstword.models.lm.token_thread import TorchTokenGenerator
from firstword.models.lm.tokens import (
    EngineRestarting,
    GenerationFailed,
    InvalidTokens,
    TokenGenerator,
    TokenStream,
    TooManyTokens,
    plan_of,
)
from firstword.models.runtimes.engines.decode_engine import EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from tests.support.decode_engine import ToyDecodeEngine, until
from tests.support.small_lm import TEXT, finished, new_generator, small_lm, utterance

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MAX_MODEL_LEN = 1000


@asynccontextmanager
async def generating(
    engine: ToyDecodeEngine, max_model_len: int = MAX_MODEL_LEN, alignment: AlignmentReader | None = None
) -> AsyncIterator[EngineTokenGenerator]:
    async def opened() -> ToyDecodeEngine:
        return engine

    async def never(seconds: float) -> None:
        await asyncio.Event().wait()

    supervisor = EngineSupervisor(opened, sleep=never)
    await supervisor.start()
    generator = EngineTokenGenerator(supervisor, small_lm().config, max_model_len, alignment=alignment)
    try:
        yield generator
    finally:
        await generator.aclose()


async def in_torch(speak: Callable[..., object]) -> list[int]:
    generator = new_generator()
    try:
        return await finished(speak(generator))  # type: ignore[arg-type]
    finally:
        await generator.aclose()


def decoded_with_all_text_there(text: Sequence[int]) -> list[int]:
    """The torch generator's thread may be told the end of the text only after its last block has begun."""
    lm, asked = small_lm(), utterance(None)
    plan = plan_of(asked, lm.vocabulary, lm.config)
    assert isinstance(plan, BistreamPlan)
    plan.push_text(text)
    plan.finish_text()
    decoder = SpeechDecoder(lm, lm.config.sampling)
    decoder.add(RowRequest(plan, asked.seed))
    ids: list[int] = []
    while decoder.rows:
        ids += [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
    return ids


@pytest.mark.parametrize("ids_at_a_time", [1, 4])
async def test_a_whole_text_is_spoken_as_in_torch_however_many_ids_come_at_once(ids_at_a_time: int) -> None:
    expected = await in_torch(lambda generator: generator.start(utterance()))
    engine = ToyDecodeEngine(small_lm(), ids_at_a_time)
    async with generating(engine) as generator:
        assert await finished(generator.start(utterance())) == expected
    assert len(engine.requests) == 1
    assert engine.is_closed


@pytest.mark.parametrize("ids_at_a_time", [1, 4])
async def test_pushed_text_is_spoken_as_in_torch_request_by_request(ids_at_a_time: int) -> None:
    def speak(generator: object) -> object:
        stream = generator.start(utterance(None))  # type: ignore[attr-defined]
        for id in TEXT * 2:
            generator.push_text(stream, [id])  # type: ignore[attr-defined]
        generator.finish_text(stream)  # type: ignore[attr-defined]
        return stream

    expected = decoded_with_all_text_there(TEXT * 2)
    engine = ToyDecodeEngine(small_lm(), ids_at_a_time)
    async with generating(engine) as generator:
        assert await finished(speak(generator)) == expected  # type: ignore[arg-type]
    assert len(engine.requests) > 2
    for earlier, later in zip(engine.requests, engine.requests[1:], strict=False):
        assert later.prompt_ids[: len(earlier.prompt_ids)] == earlier.prompt_ids
        assert later.sampling.num_drawn > earlier.sampling.num_drawn


@pytest.mark.parametrize("ids_at_a_time", [1, 4])
async def test_text_that_tokens_are_about_is_found_as_in_torch(ids_at_a_time: int) -> None:
    lm, reader = deepcopy(small_lm()), deepcopy(small_lm())
    heads = ((0, 1), (1, 0))
    lm.config = reader.config = replace(lm.config, alignment_heads=heads)

    def attention(stream: TokenStream) -> list[npt.NDArray[np.float32]]:
        queries = [detail.query for detail in stream.details]
        return text_attention([query for query in queries if query is not None])

    def pushed(generator: TokenGenerator) -> TokenStream:
        stream = generator.start(replace(utterance(None), wants_attention=True))
        generator.push_text(stream, TEXT * 2)
        generator.finish_text(stream)
        return stream

    def whole(generator: TokenGenerator) -> TokenStream:
        return generator.start(replace(utterance(), wants_attention=True))

    engine = ToyDecodeEngine(small_lm(), ids_at_a_time)
    in_torch = TorchTokenGenerator(lm, lm.config)
    async with generating(engine, alignment=AlignmentReader(reader)) as generator:
        for speak in (whole, pushed):
            expected, found = speak(in_torch), speak(generator)
            assert await finished(found) == await finished(expected)
            assert len(attention(found)) == len(found.ids) > 10
            for ours, theirs in zip(attention(found), attention(expected), strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-5)
        plain = generator.start(utterance())
        await finished(plain)
        assert {detail.query for detail in plain.details} == {None}
    await in_torch.aclose()


async def test_speech_begins_before_the_text_has_ended() -> None:
    async with generating(ToyDecodeEngine(small_lm())) as generator:
        stream = generator.start(utterance(None))
        generator.push_text(stream, TEXT * 3)
        async with asyncio.timeout(60):
            await stream.wait_for(5)
        assert not stream.has_ended


async def test_a_stopped_stream_stops_its_request_and_no_other() -> None:
    engine = ToyDecodeEngine(small_lm())
    async with generating(engine) as generator:
        alone = await finished(generator.start(utterance()))
        engine.goes_on.clear()
        stopped, staying = generator.start(utterance()), generator.start(utterance())
        await until(lambda: engine.num_running == 2)
        generator.stop(stopped)
        generator.stop(stopped)
        assert stopped.reason == "stopped"
        await until(lambda: engine.num_running == 1)
        engine.goes_on.set()
        assert await finished(staying) == alone
        generator.push_text(stopped, TEXT)  # too late: nothing happens
        generator.finish_text(stopped)


async def test_a_dying_engine_fails_what_runs_and_refuses_what_comes() -> None:
    engine = ToyDecodeEngine(small_lm())
    async with generating(engine) as generator:
        engine.goes_on.clear()
        running = generator.start(utterance())
        await until(lambda: engine.num_running == 1)
        engine.die()
        with pytest.raises(EngineRestarting, match="died while this was spoken"):
            await finished(running)
        await until(lambda: bool(generator.unready_reason))
        assert "started again" in generator.unready_reason
        with pytest.raises(EngineRestarting, match="started again"):
            await finished(generator.start(utterance()))


async def test_an_utterance_longer_than_the_engine_takes_is_refused_where_it_becomes_so() -> None:
    async with generating(ToyDecodeEngine(small_lm()), max_model_len=30) as generator:
        with pytest.raises(TooManyTokens, match="longer than the 30 tokens"):
            await finished(generator.start(utterance()))


async def test_ids_that_the_model_does_not_have_are_refused() -> None:
    async with generating(ToyDecodeEngine(small_lm())) as generator:
        with pytest.raises(InvalidTokens, match="text"):
            generator.start(utterance((10_000_000,)))


async def test_closing_fails_what_still_runs() -> None:
    engine = ToyDecodeEngine(small_lm())
    async with generating(engine) as generator:
        stream = generator.start(utterance(None))
    with pytest.raises(GenerationFailed, match="stopped"):
        await stream.wait_for(1)
    with pytest.raises(GenerationFailed, match="stopping"):
        await generator.start(utterance()).wait_for(1)
