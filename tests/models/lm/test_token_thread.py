"""The torch token generator, on a small checkpoint with random weights."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import torch

from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.token_thread import TorchTokenGenerator
from firstword.models.lm.tokens import GenerationFailed, InvalidTokens, TokenRequest
from tests.models.lm.networks import FAMILIES, make_model
from tests.support.small_lm import TEXT, finished, new_generator, utterance

pytestmark = pytest.mark.anyio


@pytest.fixture
async def generator() -> AsyncIterator[TorchTokenGenerator]:
    generator = new_generator()
    yield generator
    await generator.aclose()


async def test_equal_seeds_and_texts_speak_alike_alone_and_among_others(
    generator: TorchTokenGenerator,
) -> None:
    alone = await finished(generator.start(utterance()))
    others = [generator.start(utterance(seed=seed)) for seed in range(2, 6)]
    same = [generator.start(utterance()) for _ in range(3)]
    assert [await finished(stream) for stream in same] == [alone] * 3
    spoken = [await finished(stream) for stream in others]
    assert any(ids != alone for ids in spoken)
    assert len(alone) > 0


async def test_pushed_text_speaks_the_same_however_it_is_cut(generator: TorchTokenGenerator) -> None:
    async def spoken(pieces: list[tuple[int, ...]]) -> list[int]:
        stream = generator.start(utterance(None))
        for piece in pieces:
            generator.push_text(stream, piece)
        generator.finish_text(stream)
        return await finished(stream)

    whole = await spoken([TEXT])
    assert whole == await spoken([(id,) for id in TEXT])
    assert len(whole) > 0


async def test_speech_begins_before_the_text_has_ended(generator: TorchTokenGenerator) -> None:
    stream = generator.start(utterance(None))
    generator.push_text(stream, TEXT * 3)
    async with asyncio.timeout(60):
        await stream.wait_for(5)
    assert not stream.has_ended
    generator.finish_text(stream)
    await finished(stream)


async def test_a_stopped_utterance_ends_at_once_and_the_others_go_on(generator: TorchTokenGenerator) -> None:
    alone = await finished(generator.start(utterance()))
    stopped, staying = generator.start(utterance(None)), generator.start(utterance())
    generator.push_text(stopped, TEXT)
    generator.stop(stopped)
    assert stopped.reason == "stopped"
    generator.push_text(stopped, TEXT)  # too late: nothing happens
    generator.stop(stopped)
    assert await finished(staying) == alone


async def test_ids_that_the_model_does_not_have_are_refused(generator: TorchTokenGenerator) -> None:
    with pytest.raises(InvalidTokens, match="text"):
        generator.start(utterance((10_000_000,)))
    with pytest.raises(InvalidTokens):
        generator.start(utterance(()))


async def test_a_failing_step_costs_the_newest_utterance_only(
    generator: TorchTokenGenerator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    poison = (9, 9, 9, 9)
    run = Qwen2LM.prompt_embeddings

    def failing(model: Qwen2LM, ids: tuple[int, ...], speaker: object) -> object:
        if model.vocabulary.text((9,))[0] in ids:
            raise RuntimeError("a network failed")
        return run(model, ids, None)

    alone = await finished(generator.start(utterance((1, 2, 3))))
    monkeypatch.setattr(Qwen2LM, "prompt_embeddings", failing)
    with caplog.at_level(logging.CRITICAL, "firstword.models.lm.token_thread"):
        well, broken = generator.start(utterance((1, 2, 3))), generator.start(utterance(poison))
        with pytest.raises(GenerationFailed):
            await finished(broken)
        assert await finished(well) == alone


async def test_closing_fails_what_still_runs() -> None:
    generator = new_generator()
    stream = generator.start(utterance(None))
    await generator.aclose()
    with pytest.raises(GenerationFailed, match="stopped"):
        await stream.wait_for(1)


@pytest.mark.parametrize(("family", "is_withheld"), [("cosyvoice2", False), ("cosyvoice3", True)])
async def test_long_silence_is_withheld_from_the_flow_where_the_family_says_so(
    family: str, is_withheld: bool
) -> None:
    model = make_model(family)
    silent = [1, 2, 28, 29, 55]
    model.head.weight.data.zero_()
    model.head.bias = torch.nn.Parameter(torch.full((model.vocabulary.num_classes,), -100.0))
    model.head.bias.data[silent] = 0.0
    generator = TorchTokenGenerator(model, FAMILIES[family])
    stream = generator.start(TokenRequest(TEXT, (), (), (), None, seed=1))
    ids = await finished(stream)
    await generator.aclose()
    assert stream.reason == "max_tokens"
    assert set(ids) <= set(silent)
    assert len(ids) == (5 if is_withheld else 20 * len(TEXT))
