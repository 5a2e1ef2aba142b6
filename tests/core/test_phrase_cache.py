"""Finished speech is kept for equal requests that allow it, within its memory."""

from dataclasses import replace

import numpy as np
import pytest

from firstword.app.audio.dsp import Samples
from firstword.app.clients import Client
from firstword.app.core.interface import Audio
from firstword.app.core.phrase_cache import Phrase, PhraseCache
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import Draining
from firstword.app.text.marks import Reading
from tests.support.toy_engine import ToyEngine, asked, asked_in_pieces

pytestmark = pytest.mark.anyio

TEXT = "First one. Second one."


async def heard(toy: ToyEngine, request: SynthesisRequest) -> tuple[Samples, str]:
    """The audio, and which text it is."""
    async with toy.engine.open(request) as stream:
        if request.text is None:
            stream.push_text(TEXT)
            stream.finish_text()
        pieces = [event.samples async for event in stream if isinstance(event, Audio)]
        samples = np.concatenate(pieces)
        return samples, stream.spoken_text(len(samples))


async def test_equal_request_is_answered_without_the_networks() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        first = await heard(toy, asked(TEXT, seed=1))
        num_started = len(toy.generator.started)
        again = await heard(toy, replace(asked(TEXT, seed=1), request_id="other", wire="openai"))
        assert len(toy.generator.started) == num_started
        np.testing.assert_array_equal(again[0], first[0])
        assert again[1] == first[1] == TEXT


async def test_draining_refuses_what_is_kept_too() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        await heard(toy, asked(TEXT, seed=1))
        await toy.engine.drain(0)
        with pytest.raises(Draining):
            await heard(toy, asked(TEXT, seed=1))


async def test_what_the_text_is_warned_of_is_said_again() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        for _ in range(2):
            async with toy.engine.open(asked("Да. Hi. Да.", language="English", seed=1)) as stream:
                await anext(aiter(stream))
                (warning,) = stream.stats.warnings  # with the first audio: a header has it
                assert warning.startswith("the text seems to have Russian (ru) in it")
                async for _event in stream:
                    pass
        assert len(toy.generator.started) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2},
        {"seed": 1, "cache": False},
        {},
        {"seed": 1, "language": "en"},
        {"seed": 1, "reading": Reading(normalize=False)},
        {"seed": 1, "voice_mode": "zero_shot"},
    ],
)
async def test_other_request_is_spoken(other: dict[str, object]) -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        await heard(toy, asked(TEXT, seed=1))
        num_started = len(toy.generator.started)
        await heard(toy, asked(TEXT, **other))
        await heard(toy, asked_in_pieces(seed=1))
        assert len(toy.generator.started) == num_started + 4


async def test_nobody_learns_what_another_client_has_had_spoken() -> None:
    alice, bob = Client("alice", frozenset({"speak"})), Client("bob", frozenset({"speak"}))
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        for client, num_started in ((alice, 2), (bob, 4), (alice, 4), (bob, 4)):
            await heard(toy, asked(TEXT, seed=1, client=client))
            assert len(toy.generator.started) == num_started, client.name


async def test_client_may_ask_for_it_without_a_seed() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        for _ in range(3):
            await heard(toy, asked(TEXT, cache=True))
        assert len(toy.generator.started) == 2


async def test_speech_that_was_left_is_not_kept() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        async with toy.engine.open(asked(TEXT, seed=1)) as stream:
            async for _ in stream:
                break
        num_started = len(toy.generator.started)
        await heard(toy, asked(TEXT, seed=1))
        assert len(toy.generator.started) > num_started


async def test_hit_needs_no_slot() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20, max_streams=1) as toy:
        await heard(toy, asked(TEXT, seed=1))
        async with toy.engine.open(asked(TEXT)):
            await heard(toy, asked(TEXT, seed=1))


def test_least_recently_used_are_dropped() -> None:
    cache = PhraseCache(100)
    pieces = [Audio(np.zeros(10, np.float32))]  # 40 bytes
    for key in ("a", "b", "c"):
        cache.put(key, Phrase(pieces, []))
    cache.put("huge", Phrase(pieces * 3, []))
    assert list(cache._phrases) == ["b", "c"]
    cache.put("b", Phrase(pieces, []))
    cache.put("d", Phrase(pieces, []))
    assert list(cache._phrases) == ["b", "d"]


async def test_text_that_may_name_voices_is_not_kept() -> None:
    """Another speaker may have such a name later."""
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        for text in (f"[voice:alloy]{TEXT}", f'<speak><voice name="alloy">{TEXT}</voice></speak>'):
            cache = PhraseCache(1 << 20)
            request = asked(text, seed=1)
            assert await cache.find(request, toy.parts.resolved(request), toy.speakers, "") == (None, None)


async def test_another_lexicon_is_another_phrase() -> None:
    async with ToyEngine(phrase_cache_bytes=1 << 20) as toy:
        cache = PhraseCache(1 << 20)
        request = asked(TEXT, seed=1)
        resolved = toy.parts.resolved(request)
        keys = {(await cache.find(request, resolved, toy.speakers, version))[0] for version in ("", "1", "1")}
        assert len(keys) == 2
        assert None not in keys
