"""vLLM says what the torch decoder says: the most probable ids and the drawn ones, whole and in pieces."""

import asyncio
from collections.abc import Sequence

import pytest

from firstword.app.engine.tokens.interface import TokenRequest, TokenStream
from firstword.app.engine.tokens.vllm_generator import VllmTokenGenerator
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import Plan
from tests.parity.test_lm import bistream_plan, decode_pieces, ids, offline_plan
from tests.vllm.house import House, finished, spoken

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]  # vLLM's own

SEED = 11


def in_torch(house: House, plan: Plan, is_greedy: bool = False, seed: int = SEED) -> list[int]:
    decoder = SpeechDecoder(house.lm, house.lm.config.sampling)
    decoder.add(RowRequest(plan, seed, is_greedy))
    spoken: list[int] = []
    while decoder.rows:
        spoken += [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
    return spoken


def whole_utterance(house: House, seed: int = SEED) -> TokenRequest:
    io = house.case.io
    text, prompt = tuple(ids(io["text"])), tuple(ids(io["prompt_text"]))
    return TokenRequest(text, prompt, tuple(ids(io["prompt_speech_token"])), (), None, seed)


def pushed_utterance(house: House, seed: int = SEED) -> TokenRequest:
    io = house.case.io
    _, prefix = bistream_plan(house.case, house.lm)
    prompt_text = tuple(ids(io["prompt_text"]))[len(prefix) :]
    return TokenRequest(None, prompt_text, tuple(ids(io["prompt_speech_token"])), tuple(prefix), None, seed)


def heard(expected: Sequence[int]) -> list[int]:
    """Of what a decoder says: a stream ends at a loop, which the most probable ids may well be."""
    stream = TokenStream()
    stream.deliver(expected, 0.0)
    return stream.ids


async def spoken_in_pieces(
    generator: VllmTokenGenerator, utterance: TokenRequest, text: Sequence[int], lengths: Sequence[int]
) -> list[int]:
    """Each piece comes when all that could be said of the last ones has been."""
    stream, start = generator.start(utterance), 0
    for length in lengths:
        generator.push_text(stream, text[start : start + length])
        start += length
        await asyncio.sleep(0)
    generator.finish_text(stream)
    return await finished(stream)


def test_the_most_probable_ids_are_the_published_ones(house: House) -> None:
    published = ids(house.case.io["greedy_tokens"])
    assert house.run(spoken(house.greedy, whole_utterance(house))) == published
    assert in_torch(house, offline_plan(house.case, house.lm), is_greedy=True) == published


def test_text_in_pieces_gives_the_most_probable_ids_of_torch(house: House) -> None:
    text, lengths = ids(house.case.io["text"]), ids(house.case.io["bistream_text_cuts"])
    plan, _ = bistream_plan(house.case, house.lm)
    expected = decode_pieces(house.lm, plan, text, lengths)
    got = house.run(spoken_in_pieces(house.greedy, pushed_utterance(house), text, lengths))
    assert got == heard(expected)
    assert len(got) > 15


def test_equal_seeds_draw_the_ids_of_torch(house: House) -> None:
    for seed in range(5):
        expected = in_torch(house, offline_plan(house.case, house.lm), seed=seed)
        assert house.run(spoken(house.generator, whole_utterance(house, seed))) == expected


def test_text_in_pieces_draws_the_ids_of_torch_over_every_seam(house: House) -> None:
    text = ids(house.case.io["text"]) * 3
    for seed in range(5):
        plan, _ = bistream_plan(house.case, house.lm)
        plan.push_text(text)
        plan.finish_text()
        expected = in_torch(house, plan, seed=seed)
        one_by_one = spoken_in_pieces(house.generator, pushed_utterance(house, seed), text, [1] * len(text))
        assert house.run(one_by_one) == expected


def test_neighbours_change_nothing(house: House) -> None:
    async def together() -> list[list[int]]:
        seeds = [SEED, *range(20)]  # more than fit into one step
        return await asyncio.gather(
            *(spoken(house.generator, whole_utterance(house, seed)) for seed in seeds)
        )

    alone = house.run(spoken(house.generator, whole_utterance(house)))
    same, *others = house.run(together())
    assert same == alone
    assert any(other != alone for other in others)
