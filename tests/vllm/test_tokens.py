"""vLLM says what the torch decoder says: the most probable ids and the drawn ones, whole and in pieces."""

import asyncio
from collections.abc import Sequence

import pytest

from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import Plan
from firstword.models.lm.tokens import TokenRequest, TokenStream
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from tests.support.reference_lm import bistream_plan, decode_pieces, ids, offline_plan
from tests.vllm.engine import (
    MAX_NUM_SEQS,
    SEED,
    VllmEngine,
    finished,
    pushed_utterance,
    spoken,
    whole_utterance,
)

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]  # vLLM's own


def in_torch(engine: VllmEngine, plan: Plan, is_greedy: bool = False, seed: int = SEED) -> list[int]:
    decoder = SpeechDecoder(engine.lm, engine.lm.config.sampling)
    decoder.add(RowRequest(plan, seed, is_greedy))
    spoken: list[int] = []
    while decoder.rows:
        spoken += [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
    return spoken


def handed_on(expected: Sequence[int]) -> list[int]:
    """What a stream hands on of those ids: it ends at a loop, which the most probable ids may well be."""
    stream = TokenStream()
    stream.deliver(expected, 0.0)
    return stream.ids


async def spoken_in_pieces(
    generator: EngineTokenGenerator, utterance: TokenRequest, text: Sequence[int], lengths: Sequence[int]
) -> list[int]:
    """Each piece comes when all that could be said of the last ones has been."""
    stream, start = generator.start(utterance), 0
    for length in lengths:
        generator.push_text(stream, text[start : start + length])
        start += length
        await asyncio.sleep(0)
    generator.finish_text(stream)
    return await finished(stream)


def test_the_most_probable_ids_are_the_published_ones(engine: VllmEngine) -> None:
    published = ids(engine.case.io["greedy_tokens"])
    assert engine.run(spoken(engine.greedy, whole_utterance(engine))) == published
    assert in_torch(engine, offline_plan(engine.case, engine.lm), is_greedy=True) == published


def test_text_in_pieces_gives_the_most_probable_ids_of_torch(engine: VllmEngine) -> None:
    text, lengths = ids(engine.case.io["text"]), ids(engine.case.io["bistream_text_cuts"])
    plan, _ = bistream_plan(engine.case, engine.lm)
    expected = decode_pieces(engine.lm, plan, text, lengths)
    got = engine.run(spoken_in_pieces(engine.greedy, pushed_utterance(engine), text, lengths))
    assert got == handed_on(expected)
    assert len(got) > 15


def test_equal_seeds_draw_the_ids_of_torch(engine: VllmEngine) -> None:
    """The first alone, the others at once: a step of four takes as long as one of one."""

    async def drawn(seeds: Sequence[int]) -> list[list[int]]:
        return await asyncio.gather(
            *(spoken(engine.generator, whole_utterance(engine, seed)) for seed in seeds)
        )

    expected = [in_torch(engine, offline_plan(engine.case, engine.lm), seed=seed) for seed in range(5)]
    assert engine.run(drawn([0])) == expected[:1]
    assert engine.run(drawn(range(1, 5))) == expected[1:]


def test_text_in_pieces_draws_the_ids_of_torch_over_every_seam(engine: VllmEngine) -> None:
    """Two at once, each with a seed of its own."""
    text = ids(engine.case.io["text"]) * 3

    async def drawn() -> list[list[int]]:
        lengths = [1] * len(text)
        return await asyncio.gather(
            *(
                spoken_in_pieces(engine.generator, pushed_utterance(engine, seed), text, lengths)
                for seed in range(2)
            )
        )

    expected = []
    for seed in range(2):
        plan, _ = bistream_plan(engine.case, engine.lm)
        plan.push_text(text)
        plan.finish_text()
        expected.append(in_torch(engine, plan, seed=seed))
    assert engine.run(drawn()) == expected


def test_neighbours_change_nothing(v2: VllmEngine) -> None:
    """More than fit into one step; what one engine does with them is what another does."""

    async def together() -> list[list[int]]:
        seeds = [SEED, *range(MAX_NUM_SEQS)]
        return await asyncio.gather(*(spoken(v2.generator, whole_utterance(v2, seed)) for seed in seeds))

    alone = v2.run(spoken(v2.generator, whole_utterance(v2)))
    same, *others = v2.run(together())
    assert same == alone
    assert any(other != alone for other in others)
