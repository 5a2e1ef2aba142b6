"""Speech tokens that are listed cost what they would as audio."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.core.interface import ListedTokens
from firstword.app.core.parts import PostProcessing
from firstword.app.core.stream import SpeechStream
from firstword.app.engine.token_listing import list_tokens
from firstword.app.errors import Draining, InvalidRequest, SpeakerNotFound, SynthesisFailed
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.text.marks import Voice
from firstword.app.text.stream import Item
from firstword.models.lm.tokens import GenerationFailed, TokenStream
from tests.support.toy_engine import ToyEngine, ToyText, asked

pytestmark = pytest.mark.anyio


async def test_no_more_tokens_are_listed_than_there_may_be_audio() -> None:
    async with ToyEngine(limits=WorkLimits(max_audio_s=1.0)) as toy:
        listed = [tokens async for tokens in toy.engine.list_tokens(asked("A short one."))]
        with pytest.raises(InvalidRequest, match=r"1\.6 s long, at most 1 s"):
            [tokens async for tokens in toy.engine.list_tokens(asked("abcd" * 10 + "."))]
        assert toy.admission.num_running == 0
    assert sum(len(tokens.ids) for tokens in listed) == len("A short one.")


async def test_a_speaker_whose_tokens_are_listed_is_not_measured() -> None:
    asked_for: list[str] = []

    def gain_of(identity: str, speaker: PreparedSpeaker) -> float:
        asked_for.append(identity)
        return 1.0

    async with ToyEngine() as toy:
        parts = replace(toy.parts, post_processing=PostProcessing(False, gain_of))
        request = asked("A short one.", seed=1)
        listing = list_tokens(request, parts.resolved(request), parts, toy.admission, set())
        assert [tokens async for tokens in listing]
        assert not asked_for
        async with SpeechStream(request, parts) as stream:
            assert [event async for event in stream]
    assert asked_for == ["hum"]


class TextWithVoice(ToyText):
    """Names a voice before the last sentence."""

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        *items, last = super().read(piece, flushes, is_end)
        return [*items, Voice("[voice:nobody]", "nobody"), last]


async def test_a_voice_that_nobody_has_is_known_before_any_token() -> None:
    async with ToyEngine(text=TextWithVoice()) as toy:
        with pytest.raises(SpeakerNotFound):
            await anext(toy.engine.list_tokens(asked("First one. Second one.")))
        assert toy.admission.num_running == 0
        toy.speakers.names.add("nobody")
        listed = [tokens async for tokens in toy.engine.list_tokens(asked("First one. Second one."))]
    assert {tokens.segment for tokens in listed} == {0, 1}


async def begun(
    toy: ToyEngine, text: str
) -> tuple[AsyncGenerator[ListedTokens], asyncio.Task[ListedTokens], TokenStream]:
    """Return a listing that waits for its first tokens, which are told by hand, and where to tell them."""
    toy.generator.is_by_hand = True
    listing = toy.engine.list_tokens(asked(text))
    coming = asyncio.create_task(anext(listing))
    return listing, coming, await toy.generator.coming.get()


async def test_the_end_of_a_segment_is_told_that_comes_while_its_tokens_are_sent() -> None:
    async with ToyEngine() as toy:
        listing, first, tokens = await begun(toy, "Hi.")
        toy.generator.say(tokens, [72, 105, 46], ends=False)
        assert (await first).ids == (72, 105, 46)
        tokens.end("eos")
        assert [(one.ids, one.reason) async for one in listing] == [((), "eos")]


async def test_a_failure_is_told_that_comes_while_tokens_are_sent() -> None:
    async with ToyEngine() as toy:
        listing, first, tokens = await begun(toy, "First one. Second one.")
        toy.generator.say(tokens, [72], ends=False)
        await first
        tokens.fail(GenerationFailed("it is gone"))
        with pytest.raises(SynthesisFailed, match="it is gone"):
            await anext(listing)


@pytest.mark.parametrize("is_sending", [True, False])
async def test_a_listing_that_outlasts_the_drain_ends_with_an_error_it_can_see(is_sending: bool) -> None:
    async with ToyEngine() as toy:
        listing, coming, tokens = await begun(toy, "First one. Second one.")
        if is_sending:
            toy.generator.say(tokens, [72], ends=False)
            await coming
        await toy.engine.drain(0)
        with pytest.raises(Draining, match="shut down"):
            await (anext(listing) if is_sending else coming)
        assert toy.generator.stopped == [tokens, tokens]  # the second time by who listed them
        assert toy.admission.num_running == 0
