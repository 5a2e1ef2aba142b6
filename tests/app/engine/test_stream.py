"""One stream, and the engine that opens it, over toy networks."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from firstword.app.audio.dsp import Samples
from firstword.app.engine.interface import Audio, Flushed, StreamEvent
from firstword.app.engine.stream import SpeechStream, faded
from firstword.app.engine.tokens.interface import MAX_REPEATS, TokenStream
from firstword.app.errors import (
    Draining,
    InvalidRequest,
    Overloaded,
    SpeakerNotFound,
    SynthesisFailed,
    TextTooLong,
)
from firstword.app.text.segment import Segment
from tests.app.engine.pace import until_idle
from tests.app.engine.rig import RATE_HZ, SAMPLES_PER_TOKEN, Rig, ToyFeed, asked

pytestmark = pytest.mark.anyio


async def heard(stream: SpeechStream) -> list[StreamEvent]:
    async with asyncio.timeout(30):
        return [event async for event in stream]


def samples_of(events: list[StreamEvent]) -> Samples:
    return np.concatenate([event.samples for event in events if isinstance(event, Audio)])


def letters_of(events: list[StreamEvent]) -> str:
    """What the toy networks were given to say."""
    middles = samples_of(events)[SAMPLES_PER_TOKEN // 2 :: SAMPLES_PER_TOKEN]
    return "".join(chr(round(float(value) * 1000)) for value in middles)


async def spoken(rig: Rig, text: str, **fields: object) -> list[StreamEvent]:
    async with await rig.engine.open(asked(**fields)) as stream:  # type: ignore[arg-type]
        stream.push_text(text)
        stream.finish_text()
        return await heard(stream)


@asynccontextmanager
async def speaking_by_hand(rig: Rig) -> AsyncIterator[tuple[SpeechStream, TokenStream]]:
    """A stream that has all its text, and the tokens that the test has to say for it."""
    rig.generator.is_by_hand = True
    async with await rig.engine.open(asked()) as stream:
        stream.push_text("Some text.")
        stream.finish_text()
        yield stream, await rig.generator.coming.get()


async def test_a_whole_text_is_said_segment_by_segment_in_order() -> None:
    async with Rig() as rig:
        events = await spoken(rig, "First one. Second, a longer one. Third.")
        assert letters_of(events) == "First one. Second, a longer one. Third."
        assert [len(utterance.text_ids or ()) for _, utterance in rig.generator.started] == [10, 22, 7]
        assert len({utterance.seed for _, utterance in rig.generator.started}) == 3


async def test_audio_leaves_before_the_tokens_have_ended() -> None:
    async with Rig() as rig:
        rig.generator.is_by_hand = True
        async with await rig.engine.open(asked()) as stream:
            stream.push_text("Some text.")
            stream.finish_text()
            events = aiter(stream)
            taking = asyncio.ensure_future(anext(events))
            tokens = await rig.generator.coming.get()
            rig.generator.say(tokens, [65, 66, 67, 68, 69], ends=False)
            first = await taking
            assert isinstance(first, Audio)
            assert len(first.samples) == 4 * SAMPLES_PER_TOKEN
            assert not tokens.has_ended


async def test_silence_is_cut_before_the_first_sound_and_nowhere_else() -> None:
    quiet = "\x01"  # an amplitude of 0.001
    text = f"{quiet * 5}abc{quiet * 3}. {quiet * 4}def."
    async with Rig(trims_silence=True) as rig, await rig.engine.open(asked()) as stream:
        stream.push_text(text)
        stream.finish_text()
        samples = samples_of(await heard(stream))
        said = stream.spoken_text(len(samples))
    async with Rig() as rig:
        whole = samples_of(await spoken(rig, text))
    num_cut = len(whole) - len(samples)
    assert 0.03 <= 5 * SAMPLES_PER_TOKEN / RATE_HZ - num_cut / RATE_HZ <= 0.05  # of silence are kept
    np.testing.assert_array_equal(samples[20:], whole[num_cut + 20 :])  # behind the fade
    assert said == text


async def test_the_next_segment_is_read_while_the_last_is_spoken() -> None:
    async with Rig(listener_buffer_s=0.0) as rig, await rig.engine.open(asked()) as stream:
        stream.push_text("One sentence here. And another one. And a third one. And a fourth.")
        stream.finish_text()
        await anext(aiter(stream))
        for _ in range(2):
            await rig.generator.coming.get()
        await until_idle()
        assert 2 <= len(rig.generator.started) <= 3  # ahead, but not of everything


async def test_text_that_comes_in_pieces_is_one_utterance_in_continuous_mode() -> None:
    async with Rig() as rig:
        async with await rig.engine.open(asked("continuous")) as stream:
            for piece in ("Hel", "lo wor", "ld"):
                stream.push_text(piece)
            stream.finish_text()
            assert letters_of(await heard(stream)) == "Hello world"
        assert len(rig.generator.started) == 1


@pytest.mark.parametrize("mode", ["continuous", "segments"])
async def test_a_flush_is_told_after_its_audio_and_the_stream_goes_on(mode: str) -> None:
    async with Rig() as rig, await rig.engine.open(asked(mode)) as stream:  # type: ignore[arg-type]
        stream.push_text("Hello there")
        stream.flush()
        stream.push_text(" and more")
        stream.finish_text()
        events = await heard(stream)
    place = events.index(Flushed())
    assert letters_of(events[:place]) == "Hello there"
    assert letters_of(events[place + 1 :]) == " and more"


async def test_a_flush_of_nothing_is_told_too() -> None:
    async with Rig() as rig, await rig.engine.open(asked("segments")) as stream:
        stream.flush()
        assert await anext(aiter(stream)) == Flushed()


async def test_two_streams_at_once_are_never_mixed() -> None:
    async with Rig() as rig:
        first, second = await asyncio.gather(
            spoken(rig, "aaaa bbbb. cccc dddd."), spoken(rig, "efgh ijkl. mnop qrst uvwx.")
        )
    assert letters_of(first) == "aaaa bbbb. cccc dddd."
    assert letters_of(second) == "efgh ijkl. mnop qrst uvwx."


async def test_a_cancelled_stream_ends_at_once_and_gives_its_place_to_the_next() -> None:
    async with Rig(max_streams=1) as rig:
        rig.generator.is_by_hand = True
        async with await rig.engine.open(asked()) as stream:
            stream.push_text("Never finished.")
            stream.finish_text()
            waiting = asyncio.create_task(rig.engine.open(asked()))
            await rig.generator.coming.get()
            assert not waiting.done()
            stream.cancel("client_cancel")
            assert await heard(stream) == []
            async with await waiting:
                assert rig.generator.stopped == [rig.generator.started[0][0]]
    assert rig.admission.num_running == 0
    assert rig.metrics.registry.get_sample_value("tts_cancel_to_stop_seconds_count") == 1 + 1


async def test_nothing_is_given_out_after_a_cancel_even_if_it_was_ready() -> None:
    async with Rig() as rig, await rig.engine.open(asked()) as stream:
        stream.push_text("A text of some length, all of it ready.")
        stream.finish_text()
        events = aiter(stream)
        await anext(events)
        stream.cancel("client_cancel")
        assert [event async for event in events] == []


async def test_leaving_early_frees_everything() -> None:
    async with Rig() as rig:
        tasks_before = asyncio.all_tasks()
        for _ in range(20):
            async with await rig.engine.open(asked()) as stream:
                stream.push_text("Some text. And more. And more.")
                stream.finish_text()
                async for _ in stream:
                    break
            assert rig.admission.num_running == 0
        assert asyncio.all_tasks() == tasks_before


async def test_a_failing_network_is_told_to_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with Rig() as rig:
        rig.token2wav.failure = RuntimeError("secret details")
        with caplog.at_level(logging.CRITICAL), pytest.raises(SynthesisFailed) as caught:
            await spoken(rig, "Hello.")
        assert "secret" not in caught.value.message
        rig.token2wav.failure = None
        assert letters_of(await spoken(rig, "Hello.")) == "Hello."


async def test_what_is_refused_while_reading_is_told_to_the_listener() -> None:
    async with Rig() as rig:
        with pytest.raises(InvalidRequest, match="no such instruction"):
            await spoken(rig, "Hello.", instruct="refused")
        assert rig.admission.num_running == 0


@pytest.mark.parametrize("instruct", [None, "calmly"])
async def test_the_mode_decides_whether_the_flow_continues_the_prompt(instruct: str | None) -> None:
    async with Rig() as rig:
        await spoken(rig, "Hello.", instruct=instruct)
        assert rig.token2wav.uses_prompt is (instruct is None)


async def test_a_loop_is_counted_and_ends_the_segment_cleanly() -> None:
    async with Rig() as rig:
        async with speaking_by_hand(rig) as (stream, tokens):
            rig.generator.say(tokens, [66] * (MAX_REPEATS + 10), ends=False)
            events = await heard(stream)
        assert len(samples_of(events)) < MAX_REPEATS * SAMPLES_PER_TOKEN
        assert rig.anomalies("token_loop") == 1


async def test_a_loop_of_which_some_was_handed_out_ends_cleanly_too() -> None:
    async with Rig() as rig:
        async with speaking_by_hand(rig) as (stream, tokens):
            events = aiter(stream)
            rig.generator.say(tokens, [62, 63, 64, 65, 66], ends=False)
            first = await anext(events)
            rig.generator.say(tokens, [66] * MAX_REPEATS, ends=False)
            rest = [event async for event in events]
        assert len(samples_of([first, *rest])) < MAX_REPEATS * SAMPLES_PER_TOKEN
        assert rig.anomalies("token_loop") == 1


async def test_text_that_only_looks_as_if_it_could_be_spoken_is_refused() -> None:
    class DeafFeed(ToyFeed):
        def flush(self) -> list[Segment]:
            return []

    async with Rig() as rig:
        rig.feed = DeafFeed
        with pytest.raises(InvalidRequest, match="nothing that can be spoken"):
            await spoken(rig, "\u200b")


async def test_speech_without_end_is_counted() -> None:
    async with Rig() as rig:
        rig.generator.reason = "max_tokens"
        await spoken(rig, "Hello.")
        assert rig.anomalies("max_tokens") == 1


async def test_no_speech_at_all_is_an_error_and_counted() -> None:
    async with Rig() as rig:
        async with speaking_by_hand(rig) as (stream, tokens):
            rig.generator.say(tokens, [])
            with pytest.raises(SynthesisFailed, match="said nothing"):
                await heard(stream)
        assert rig.anomalies("empty") == 1


async def test_too_long_and_unspeakable_texts_are_refused() -> None:
    async with Rig() as rig, await rig.engine.open(asked()) as stream:
        stream.push_text(" ... ")
        with pytest.raises(InvalidRequest, match="nothing that can be spoken"):
            stream.finish_text()
        with pytest.raises(TextTooLong, match="at most 200"):
            stream.push_text("a" * 196)
        stream.push_text("a")
        stream.finish_text()
        with pytest.raises(InvalidRequest, match="after its end"):
            stream.push_text("more")


async def test_what_the_checkpoint_cannot_do_and_unknown_speakers_are_refused_and_hold_no_place() -> None:
    async with Rig(max_streams=1, max_queued=0, can_do_all=False) as rig:
        async with await rig.engine.open(asked()):  # a full engine knows its speakers too
            with pytest.raises(SpeakerNotFound):
                await rig.engine.open(asked(speaker="nobody"))
        with pytest.raises(InvalidRequest, match="use mode segments"):
            await rig.engine.open(asked("continuous"))
        with pytest.raises(InvalidRequest, match="no instructions"):
            await rig.engine.open(asked(instruct="gladly"))
        assert rig.admission.num_running == 0


async def test_the_spoken_text_follows_what_was_heard() -> None:
    async with Rig() as rig, await rig.engine.open(asked()) as stream:
        stream.push_text("First one. Second one.")
        stream.finish_text()
        total = len(samples_of(await heard(stream)))
        assert stream.spoken_text(total) == "First one. Second one."
        assert stream.spoken_text(total // 2) == "First one."
        assert stream.spoken_text(0) == ""


async def test_statistics_count_what_was_done() -> None:
    async with Rig() as rig, await rig.engine.open(asked()) as stream:
        stream.push_text("Hello you.")
        stream.finish_text()
        num_samples = len(samples_of(await heard(stream)))
        assert stream.stats.characters == stream.stats.speech_tokens == 10
        assert stream.stats.audio_samples == num_samples == 10 * SAMPLES_PER_TOKEN
        assert stream.stats.compute_s == pytest.approx(0.5 + 1.0 * 3)  # tokens, and three chunks


async def test_draining_lets_streams_finish_and_refuses_new_ones() -> None:
    async with Rig() as rig, await rig.engine.open(asked()) as stream:
        draining = asyncio.create_task(rig.engine.drain(30))
        await until_idle()
        assert not rig.engine.status.is_ready
        with pytest.raises(Draining):
            await rig.engine.open(asked())
        stream.push_text("Still said.")
        stream.finish_text()
        assert letters_of(await heard(stream)) == "Still said."
        await draining


async def test_draining_waits_until_what_was_made_has_been_heard() -> None:
    async with Rig() as rig:
        async with await rig.engine.open(asked()) as stream:
            stream.push_text("All of it is made at once.")
            stream.finish_text()
            await anext(aiter(stream))
            async with asyncio.timeout(30):
                await rig.admission.wait_until_idle()
            draining = asyncio.create_task(rig.engine.drain(30))
            await until_idle()
            assert not draining.done()
            await heard(stream)
        await draining


async def test_a_stream_that_outlasts_the_drain_ends_with_an_error_it_can_see() -> None:
    async with Rig() as rig, await rig.engine.open(asked("continuous")) as stream:
        await rig.engine.drain(0)
        with pytest.raises(Draining, match="shut down"):
            await heard(stream)


async def test_a_full_engine_says_so() -> None:
    async with Rig(max_streams=1, max_queued=0) as rig:
        await rig.engine.warm_up()
        assert rig.engine.status.is_ready
        async with await rig.engine.open(asked()):
            assert rig.engine.status.reason.startswith("full")
            with pytest.raises(Overloaded):
                await rig.engine.open(asked())
        assert rig.engine.status.is_ready


def test_fades_touch_the_ends_of_an_utterance_only() -> None:
    ones = np.ones(10, np.float32)
    assert faded(ones, 3, is_first=False, is_last=False) is ones
    assert faded(ones, 3, is_first=True, is_last=False).tolist() == [0, 0.5, *[1] * 8]
    assert faded(ones, 3, is_first=False, is_last=True).tolist() == [*[1] * 8, 0.5, 0]
    assert faded(ones[:0], 3, is_first=True, is_last=True).tolist() == []
    assert RATE_HZ * 0.003 < SAMPLES_PER_TOKEN / 2  # the letters above are read beyond the fades
