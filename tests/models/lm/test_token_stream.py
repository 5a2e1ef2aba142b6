"""The tokens of one utterance as they come."""

import asyncio

import pytest

from firstword.app.errors import SynthesisFailed
from firstword.models.lm.tokens import MAX_REPEATS, TokenStream
from tests.support.pace import until_idle

pytestmark = pytest.mark.anyio


async def test_waiting_ends_with_the_token_that_was_wanted() -> None:
    stream = TokenStream()
    waiting = asyncio.create_task(stream.wait_for(3))
    await until_idle()
    stream.deliver([1, 2], 0.1)
    await until_idle()
    assert not waiting.done()
    stream.deliver([3], 0.1)
    await waiting
    assert stream.ids == [1, 2, 3]
    assert stream.compute_s == pytest.approx(0.2)


async def test_an_end_wakes_whoever_waits_for_more() -> None:
    stream = TokenStream()
    waiting = asyncio.create_task(stream.wait_for(100))
    await until_idle()
    stream.deliver([1], 0)
    stream.end("eos")
    await waiting
    assert stream.reason == "eos"


async def test_a_failure_is_raised_where_tokens_are_awaited() -> None:
    stream = TokenStream()
    stream.fail(SynthesisFailed("broken"))
    stream.end("eos")
    assert stream.reason is None
    with pytest.raises(SynthesisFailed, match="broken"):
        await stream.wait_for(1)
    await stream.wait_until_ended()


async def test_one_token_over_and_over_is_stopped_and_its_repeats_are_dropped() -> None:
    stream = TokenStream()
    stream.deliver([1, 2, *[7] * (MAX_REPEATS - 1), 3], 0)
    assert not stream.has_ended
    stream.deliver([7] * (MAX_REPEATS + 5), 0)
    assert stream.reason == "token_loop"
    assert stream.ids[-2:] == [3, 7]
    stream.deliver([8], 0)
    assert stream.ids[-1] == 7


async def test_repeats_are_held_back_until_another_token_follows() -> None:
    stream = TokenStream()
    stream.deliver([1, 7, 7, 7], 0)
    assert stream.ids == [1, 7]
    stream.deliver([7, 8], 0)
    assert stream.ids == [1, 7, 7, 7, 7, 8]
    stream.deliver([8, 8], 0)
    stream.end("eos")
    assert stream.ids == [1, 7, 7, 7, 7, 8, 8, 8]


async def test_no_token_is_taken_back_from_a_loop_that_was_waited_for() -> None:
    stream = TokenStream()
    stream.deliver([1, *[7] * 5], 0)
    handed_on = list(stream.ids)
    stream.deliver([7] * MAX_REPEATS, 0)
    assert stream.ids == handed_on
    assert stream.reason == "token_loop"


async def test_of_silence_only_five_tokens_in_a_row_are_handed_on() -> None:
    stream = TokenStream(silent_ids=frozenset({3, 4}))
    stream.deliver([1, 3, 4, 4, 3, 4, 3, 3, 9, 4], 0)
    assert stream.ids == [1, 3, 4, 4, 3, 4, 9, 4]
