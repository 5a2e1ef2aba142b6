"""One stream, and the engine that opens it, over toy networks."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from firstword.app.clients import Client
from firstword.app.core.audio import faded
from firstword.app.core.audio_queue import AudioQueue
from firstword.app.core.interface import Audio, Flushed, StreamEvent
from firstword.app.core.request import Mode
from firstword.app.core.stream import SpeechStream
from firstword.app.errors import (
    Draining,
    InvalidRequest,
    Overloaded,
    SpeakerNotFound,
    SynthesisFailed,
    TextTooLong,
)
from firstword.app.events import Event, Stage, StreamEvents
from firstword.app.speakers.interface import Description
from firstword.app.text.stream import Item
from firstword.models.lm.tokens import MAX_REPEATS, TokenStream
from tests.support.pace import until_idle
from tests.support.toy_engine import (
    RATE_HZ,
    SAMPLES_PER_TOKEN,
    ToyEngine,
    ToyText,
    asked,
    asked_in_pieces,
    heard,
    samples_of,
)

pytestmark = pytest.mark.anyio


def letters_of(events: list[StreamEvent]) -> str:
    """What the toy networks were given to say."""
    middles = samples_of(events)[SAMPLES_PER_TOKEN // 2 :: SAMPLES_PER_TOKEN]
    return "".join(chr(round(float(value) * 1000)) for value in middles)


async def spoken(toy: ToyEngine, text: str, **fields: Any) -> list[StreamEvent]:
    async with toy.engine.open(asked(text, **fields)) as stream:
        return await heard(stream)


@asynccontextmanager
async def speaking_by_hand(toy: ToyEngine) -> AsyncIterator[tuple[SpeechStream, TokenStream]]:
    """A stream that has all its text, and the tokens that the test has to say for it."""
    toy.generator.is_by_hand = True
    async with toy.engine.open(asked("Some text.")) as stream:
        yield stream, await toy.generator.coming.get()


async def test_a_whole_text_is_said_segment_by_segment_in_order() -> None:
    async with ToyEngine() as toy:
        events = await spoken(toy, "First one. Second, a longer one. Third.")
        assert letters_of(events) == "First one. Second, a longer one. Third."
        assert [len(utterance.text_ids or ()) for _, utterance in toy.generator.started] == [10, 22, 7]
        assert len({utterance.seed for _, utterance in toy.generator.started}) == 3


async def test_audio_leaves_before_the_tokens_have_ended() -> None:
    async with ToyEngine() as toy:
        toy.generator.is_by_hand = True
        async with toy.engine.open(asked("Some text.")) as stream:
            events = aiter(stream)
            taking = asyncio.ensure_future(anext(events))
            tokens = await toy.generator.coming.get()
            toy.generator.say(tokens, [65, 66, 67, 68, 69], ends=False)
            first = await taking
            assert isinstance(first, Audio)
            assert len(first.samples) == 4 * SAMPLES_PER_TOKEN
            assert not tokens.has_ended


async def test_silence_is_cut_before_the_first_sound_and_nowhere_else() -> None:
    quiet = "\x01"  # an amplitude of 0.001
    text = f"{quiet * 5}abc{quiet * 3}. {quiet * 4}def."
    async with ToyEngine(trims_silence=True) as toy, toy.engine.open(asked(text)) as stream:
        samples = samples_of(await heard(stream))
        said = stream.spoken_text(len(samples))
    async with ToyEngine() as toy:
        whole = samples_of(await spoken(toy, text))
    num_cut = len(whole) - len(samples)
    assert 0.03 <= 5 * SAMPLES_PER_TOKEN / RATE_HZ - num_cut / RATE_HZ <= 0.05  # of silence are kept
    np.testing.assert_array_equal(samples[20:], whole[num_cut + 20 :])  # behind the fade
    assert said == text


async def test_the_next_segment_is_read_while_the_last_is_spoken() -> None:
    async with (
        ToyEngine(listener_buffer_s=0.0) as toy,
        toy.engine.open(
            asked("One sentence here. And another one. And a third one. And a fourth.")
        ) as stream,
    ):
        await anext(aiter(stream))
        for _ in range(2):
            await toy.generator.coming.get()
        await until_idle()
        assert 2 <= len(toy.generator.started) <= 3  # ahead, but not of everything


async def test_text_that_comes_in_pieces_is_one_utterance_in_continuous_mode() -> None:
    async with ToyEngine() as toy:
        async with toy.engine.open(asked_in_pieces("continuous")) as stream:
            for piece in ("Hel", "lo wor", "ld"):
                stream.push_text(piece)
            stream.finish_text()
            assert letters_of(await heard(stream)) == "Hello world"
        assert len(toy.generator.started) == 1


@pytest.mark.parametrize("mode", ["whole", "continuous", "segments"])
@pytest.mark.parametrize(("language", "said"), [("en", "Hello."), ("en-US", "Hello."), ("en-GB", "HELLO.")])
async def test_the_language_model_reads_what_the_accent_says(mode: Mode, language: str, said: str) -> None:
    async with ToyEngine() as toy:
        if mode == "whole":
            events = await spoken(toy, "Hello.", language=language)
        else:
            async with toy.engine.open(asked_in_pieces(mode, language=language)) as stream:
                stream.push_text("Hello.")
                stream.finish_text()
                events = await heard(stream)
        assert letters_of(events) == said


@pytest.mark.parametrize(("language", "said"), [(None, "HELLO."), ("en", "HELLO."), ("en-US", "Hello.")])
async def test_a_british_speaker_speaks_british_unasked(language: str | None, said: str) -> None:
    async with ToyEngine() as toy:
        toy.speakers.description = Description("female", "adult", "clear", "British", "en-GB")
        assert letters_of(await spoken(toy, "Hello.", language=language)) == said


@pytest.mark.parametrize("mode", ["continuous", "segments"])
async def test_text_that_comes_before_there_is_a_slot_is_spoken_as_it_came(mode: Mode) -> None:
    async with ToyEngine(max_streams=1) as toy:
        stream = toy.engine.open(asked_in_pieces(mode))
        stream.push_text("Hel")
        stream.push_text("lo there.")
        with pytest.raises(TextTooLong, match="at most 200"):
            stream.push_text("a" * 200)
        async with toy.engine.open(asked("The one before.")) as before:
            assert toy.admission.num_running == 1
            entering = asyncio.create_task(stream.__aenter__())
            await until_idle()
            assert toy.admission.num_queued == 1
            stream.flush()
            stream.push_text(" And more.")
            stream.finish_text()
            before.cancel("client_cancel")
        await entering
        events = await heard(stream)
        await stream.__aexit__(None, None, None)
    index = events.index(Flushed())
    assert letters_of(events[:index]) == "Hello there."
    assert letters_of(events[index + 1 :]) == " And more."


@pytest.mark.parametrize("leaving", ["cancel of the stream", "cancel of its task", "before it is entered"])
async def test_a_cancel_before_there_is_a_slot_frees_the_place_in_the_queue(leaving: str) -> None:
    async with ToyEngine(max_streams=1) as toy, toy.engine.open(asked_in_pieces()) as running:
        stream = toy.engine.open(asked("Never said."))
        if leaving == "before it is entered":
            stream.cancel("client_cancel")
        entering = asyncio.create_task(stream.__aenter__())
        await until_idle()
        if leaving == "cancel of its task":
            entering.cancel()
        else:
            stream.cancel("client_cancel")
            stream.cancel("client_cancel")
        await asyncio.wait([entering], timeout=30)
        assert toy.admission.num_queued == 0
        assert toy.metrics.registry.get_sample_value("tts_queue_depth") == 0
        assert entering.cancelled() == (leaving == "cancel of its task")
        assert await heard(stream) == []
        await stream.__aexit__(None, None, None)
        running.cancel("client_cancel")
        assert toy.admission.num_running == 0
    assert len(toy.generator.started) == 0


async def test_a_cancel_in_the_moment_when_a_slot_comes_frees_it() -> None:
    async with ToyEngine(max_streams=1) as toy, toy.engine.open(asked_in_pieces()) as running:
        stream = toy.engine.open(asked("Never said."))
        entering = asyncio.create_task(stream.__aenter__())
        await until_idle()
        running.cancel("client_cancel")
        stream.cancel("client_cancel")
        await entering
        assert await heard(stream) == []
        assert toy.admission.num_running == 0


@pytest.mark.parametrize("mode", ["continuous", "segments"])
async def test_a_flush_is_told_after_its_audio_and_the_stream_goes_on(mode: Mode) -> None:
    async with ToyEngine() as toy, toy.engine.open(asked_in_pieces(mode)) as stream:
        stream.push_text("Hello there")
        stream.flush()
        stream.push_text(" and more")
        stream.finish_text()
        events = await heard(stream)
    index = events.index(Flushed())
    assert letters_of(events[:index]) == "Hello there"
    assert letters_of(events[index + 1 :]) == " and more"


async def test_a_flush_of_nothing_is_told_too() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked_in_pieces("segments")) as stream:
        stream.flush()
        assert await anext(aiter(stream)) == Flushed()


async def test_two_streams_at_once_are_never_mixed() -> None:
    async with ToyEngine() as toy:
        first, second = await asyncio.gather(
            spoken(toy, "aaaa bbbb. cccc dddd."), spoken(toy, "efgh ijkl. mnop qrst uvwx.")
        )
    assert letters_of(first) == "aaaa bbbb. cccc dddd."
    assert letters_of(second) == "efgh ijkl. mnop qrst uvwx."


async def test_a_cancelled_stream_ends_at_once_and_gives_its_place_to_the_next() -> None:
    async with ToyEngine(max_streams=1) as toy:
        toy.generator.is_by_hand = True
        async with toy.engine.open(asked("Never finished.")) as stream:
            following = toy.engine.open(asked("The next."))
            waiting = asyncio.create_task(following.__aenter__())
            await toy.generator.coming.get()
            assert not waiting.done()
            stream.cancel("client_cancel")
            assert await heard(stream) == []
            await waiting
            assert toy.generator.stopped == [toy.generator.started[0][0]]
            await following.__aexit__(None, None, None)
    assert toy.admission.num_running == 0
    assert toy.metrics.registry.get_sample_value("tts_cancel_to_stop_seconds_count") == 1 + 1


async def test_nothing_is_given_out_after_a_cancel_even_if_it_was_ready() -> None:
    async with (
        ToyEngine() as toy,
        toy.engine.open(asked("A text of some length, all of it ready.")) as stream,
    ):
        events = aiter(stream)
        await anext(events)
        stream.cancel("client_cancel")
        assert [event async for event in events] == []


async def test_leaving_early_frees_everything() -> None:
    async with ToyEngine() as toy:
        tasks_before = asyncio.all_tasks()
        for _ in range(20):
            async with toy.engine.open(asked("Some text. And more. And more.")) as stream:
                async for _ in stream:
                    break
            assert toy.admission.num_running == 0
        assert asyncio.all_tasks() == tasks_before


async def test_a_failing_network_is_told_to_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with ToyEngine() as toy:
        toy.token2wav.failure = RuntimeError("secret details")
        with caplog.at_level(logging.CRITICAL), pytest.raises(SynthesisFailed) as caught:
            await spoken(toy, "Hello.")
        assert "secret" not in caught.value.message
        toy.token2wav.failure = None
        assert letters_of(await spoken(toy, "Hello.")) == "Hello."


async def test_what_is_refused_while_reading_is_told_to_the_listener() -> None:
    async with ToyEngine() as toy:
        with pytest.raises(InvalidRequest, match="no such instruction"):
            await spoken(toy, "Hello.", instruct="refused")
        assert toy.admission.num_running == 0


@pytest.mark.parametrize("instruct", [None, "calmly"])
async def test_the_mode_decides_whether_the_flow_continues_the_prompt(instruct: str | None) -> None:
    async with ToyEngine() as toy:
        await spoken(toy, "Hello.", instruct=instruct)
        assert toy.token2wav.uses_prompt is (instruct is None)


async def test_a_loop_is_counted_and_ends_the_segment_cleanly() -> None:
    async with ToyEngine() as toy:
        async with speaking_by_hand(toy) as (stream, tokens):
            toy.generator.say(tokens, [66] * (MAX_REPEATS + 10), ends=False)
            events = await heard(stream)
        assert len(samples_of(events)) < MAX_REPEATS * SAMPLES_PER_TOKEN
        assert toy.anomalies("token_loop") == 1


async def test_a_loop_of_which_some_was_handed_out_ends_cleanly_too() -> None:
    async with ToyEngine() as toy:
        async with speaking_by_hand(toy) as (stream, tokens):
            events = aiter(stream)
            toy.generator.say(tokens, [62, 63, 64, 65, 66], ends=False)
            first = await anext(events)
            toy.generator.say(tokens, [66] * MAX_REPEATS, ends=False)
            rest = [event async for event in events]
        assert len(samples_of([first, *rest])) < MAX_REPEATS * SAMPLES_PER_TOKEN
        assert toy.anomalies("token_loop") == 1


async def test_text_that_comes_behind_a_loop_is_spoken() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked_in_pieces("continuous")) as stream:
        stream.push_text("a" * (MAX_REPEATS + 1))
        tokens = await toy.generator.coming.get()
        await tokens.wait_until_ended()
        stream.push_text("Hello.")
        stream.finish_text()
        samples = samples_of(await heard(stream))
        assert tokens.reason == "token_loop"
        assert len(samples) == (1 + len("Hello.")) * SAMPLES_PER_TOKEN
        assert stream.spoken_text(len(samples)).endswith("Hello.")


async def test_text_that_only_looks_as_if_it_could_be_spoken_is_no_audio() -> None:
    class DeafText(ToyText):
        def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
            return []

    async with ToyEngine(text=DeafText()) as toy:
        assert await spoken(toy, "\u200b") == []


async def test_speech_without_end_is_counted() -> None:
    async with ToyEngine() as toy:
        toy.generator.reason = "max_tokens"
        await spoken(toy, "Hello.")
        assert toy.anomalies("max_tokens") == 1


async def test_no_speech_at_all_is_an_error_and_counted() -> None:
    async with ToyEngine() as toy:
        async with speaking_by_hand(toy) as (stream, tokens):
            toy.generator.say(tokens, [])
            with pytest.raises(SynthesisFailed, match="said nothing"):
                await heard(stream)
        assert toy.anomalies("empty") == 1


async def test_too_long_texts_are_refused_and_unspeakable_ones_are_no_audio() -> None:
    async with ToyEngine() as toy:
        assert await spoken(toy, " ... ") == []
        with pytest.raises(TextTooLong, match="at most 200"):
            toy.engine.open(asked("a" * 201))
        assert toy.admission.num_running == 0


@pytest.mark.parametrize("mode", ["continuous", "segments"])
async def test_too_long_texts_in_pieces_are_refused_and_unspeakable_ones_are_no_audio(mode: Mode) -> None:
    async with ToyEngine() as toy:
        async with toy.engine.open(asked_in_pieces(mode)) as stream:
            stream.push_text(" ... ")
            with pytest.raises(TextTooLong, match="at most 200"):
                stream.push_text("a" * 196)
            stream.push_text("a")
            stream.finish_text()
            with pytest.raises(InvalidRequest, match="after its end"):
                stream.push_text("more")
        async with toy.engine.open(asked_in_pieces(mode)) as stream:
            stream.push_text(" ... ")
            stream.finish_text()
            assert await heard(stream) == []


async def test_what_the_checkpoint_cannot_do_and_unknown_speakers_are_refused_and_hold_no_place() -> None:
    async with ToyEngine(max_streams=1, max_queued=0, can_do_all=False) as toy:
        async with toy.engine.open(asked_in_pieces()):  # a full engine knows its speakers too
            with pytest.raises(SpeakerNotFound):
                toy.engine.open(asked("Hi.", speaker="nobody"))
        with pytest.raises(InvalidRequest, match="use mode segments"):
            toy.engine.open(asked_in_pieces("continuous"))
        with pytest.raises(InvalidRequest, match="no instructions"):
            toy.engine.open(asked("Hi.", instruct="gladly"))
        assert toy.admission.num_running == 0


async def test_speaker_is_looked_up_for_who_asks_both_times() -> None:
    anna = Client("anna", frozenset({"speak"}))
    async with ToyEngine() as toy:
        await spoken(toy, "Hi.", speaker="hum", client=anna)
        assert toy.speakers.clients == [anna, anna]


async def test_the_spoken_text_follows_what_was_heard() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked("First one. Second one.")) as stream:
        total = len(samples_of(await heard(stream)))
        assert stream.spoken_text(total) == "First one. Second one."
        assert stream.spoken_text(total // 2) == "First one."
        assert stream.spoken_text(0) == ""


async def test_statistics_count_what_was_done() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked("Hello you.")) as stream:
        num_samples = len(samples_of(await heard(stream)))
        assert stream.stats.characters == stream.stats.speech_tokens == 10
        assert stream.stats.audio_samples == num_samples == 10 * SAMPLES_PER_TOKEN
        assert stream.stats.compute_s == pytest.approx(0.5 + 1.0 * 3)  # tokens, and three chunks


async def test_draining_lets_streams_finish_and_refuses_new_ones() -> None:
    async with ToyEngine() as toy:
        async with toy.engine.open(asked_in_pieces()) as stream:
            draining = asyncio.create_task(toy.engine.drain(30))
            await until_idle()
            assert not toy.engine.status.is_ready
            with pytest.raises(Draining):
                await toy.engine.open(asked("Too late.")).__aenter__()
            stream.push_text("Still said.")
            stream.finish_text()
            assert letters_of(await heard(stream)) == "Still said."
        await draining


async def test_draining_waits_until_what_was_made_has_been_heard() -> None:
    async with ToyEngine() as toy:
        async with toy.engine.open(asked("All of it is made at once.")) as stream:
            await anext(aiter(stream))
            async with asyncio.timeout(30):
                await toy.admission.wait_until_idle()
            draining = asyncio.create_task(toy.engine.drain(30))
            await until_idle()
            assert not draining.done()
            await heard(stream)
        await draining


async def test_a_stream_that_outlasts_the_drain_ends_with_an_error_it_can_see() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked_in_pieces("continuous")) as stream:
        await toy.engine.drain(0)
        with pytest.raises(Draining, match="shut down"):
            await heard(stream)


async def test_a_full_engine_says_so() -> None:
    async with ToyEngine(max_streams=1, max_queued=0) as toy:
        await toy.engine.warm_up()
        assert toy.engine.status.is_ready
        async with toy.engine.open(asked_in_pieces()):
            assert toy.engine.status.reason.startswith("full")
            with pytest.raises(Overloaded):
                await toy.engine.open(asked("One more.")).__aenter__()
        assert toy.engine.status.is_ready


def test_fades_touch_the_ends_of_an_utterance_only() -> None:
    ones = np.ones(10, np.float32)
    assert faded(ones, 3, is_first=False, is_last=False) is ones
    assert faded(ones, 3, is_first=True, is_last=False).tolist() == [0, 0.5, *[1] * 8]
    assert faded(ones, 3, is_first=False, is_last=True).tolist() == [*[1] * 8, 0.5, 0]
    assert faded(ones[:0], 3, is_first=True, is_last=True).tolist() == []
    assert RATE_HZ * 0.003 < SAMPLES_PER_TOKEN / 2  # the letters above are read beyond the fades


async def test_text_that_is_not_spoken_well_is_known_before_the_first_audio() -> None:
    async with ToyEngine() as toy, toy.engine.open(asked("Да. Hi. Да.", language="English")) as stream:
        assert stream.reading.language == "en"
        first = await anext(aiter(stream))
        assert isinstance(first, Audio)
        (warning,) = stream.stats.warnings
        assert warning.startswith("the text seems to have Russian (ru) in it, and toy speaks en only; Fun-")


async def test_a_language_that_is_not_spoken_is_refused_at_once() -> None:
    async with ToyEngine() as toy:
        with pytest.raises(InvalidRequest, match="does not speak German; choose one of en") as refused:
            toy.engine.open(asked("Hi.", language="de"))
    assert refused.value.param == "language"


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
async def test_chunks_are_due_when_a_listener_at_another_speed_runs_dry(
    monkeypatch: pytest.MonkeyPatch, speed: float
) -> None:
    async with ToyEngine(listener_buffer_s=1.0) as toy:
        leads_s: list[float] = []
        run = toy.parts.pool.run

        async def noted(given: Any, deadline_s: float, on_event: Any) -> Any:
            leads_s.append(deadline_s - toy.clock())
            return await run(given, deadline_s, on_event)

        monkeypatch.setattr(toy.parts.pool, "run", noted)
        events = await spoken(toy, "a text of some chunks", speed=speed)
    ahead_s = np.cumsum([len(event.samples) for event in events if isinstance(event, Audio)]) / RATE_HZ
    assert len(leads_s) > 3
    np.testing.assert_allclose(
        leads_s[2:], ahead_s[1:-1] / speed
    )  # the second is begun before the first is taken


async def test_files_never_keep_a_played_stream_waiting_and_are_all_answered() -> None:
    """No played stream may wait here: one that finds no slot at once is refused."""
    async with ToyEngine(max_streams=4, max_queued=0) as toy:
        files = [asyncio.create_task(spoken(toy, f"File {n}.", is_played=False)) for n in range(20)]
        await until_idle()
        num_beside = []

        async def listen(num_streams: int) -> None:
            for _ in range(num_streams):
                async with toy.engine.open(asked("Played.")) as stream:
                    num_beside.append(toy.admission.num_running)
                    await heard(stream)

        await asyncio.gather(listen(20), listen(20), listen(20), listen(5))
        answers = await asyncio.gather(*files)
    assert [letters_of(answer) for answer in answers] == [f"File {n}." for n in range(20)]
    assert max(num_beside) == 5  # four that are played, and one file


async def test_words_that_came_are_spoken_where_the_writer_pauses() -> None:
    async with ToyEngine(writer_pause_s=0.05) as toy:
        async with toy.engine.open(asked_in_pieces("continuous", seed=3)) as stream:
            stream.push_text("Hi ")  # too few tokens for a chunk
            early = [await anext(aiter(stream))]
            stream.push_text("three.")
            stream.finish_text()
            late = await heard(stream)
            assert stream.stats.pauses == [3]
        paused = letters_of(early + late)
        async with toy.engine.open(asked_in_pieces("continuous", seed=3, pauses=frozenset({3}))) as stream:
            for piece in ("Hi ", "three."):
                stream.push_text(piece)
            stream.finish_text()
            assert letters_of(await heard(stream)) == paused == "Hi three."
            assert stream.stats.pauses == [3]
        assert [request.seed for _, request in toy.generator.started] == [3, 4, 3, 4]


async def test_a_writer_may_pause_while_the_listener_has_audio() -> None:
    async with (
        ToyEngine(writer_pause_s=0.2) as toy,
        toy.engine.open(asked_in_pieces("continuous")) as stream,
    ):
        stream.push_text("abcdefghij" * 10)
        await anext(aiter(stream))
        await asyncio.sleep(0.5)  # by the engine's clock no time has passed
        stream.push_text("b.")
        stream.finish_text()
        await heard(stream)
        assert stream.stats.pauses == []


async def test_a_stream_waits_is_admitted_speaks_and_ends() -> None:
    async with ToyEngine(max_streams=1) as toy:
        stream = toy.engine.open(asked("Some text. And more."))
        assert stream.state == "waiting"
        async with stream:
            assert stream.state == "admitted"
            await anext(aiter(stream))
            assert stream.state == "speaking"
            stream.cancel("client_cancel")
            stream.cancel(Draining("too late", 1))
            assert toy.admission.num_running == 0
            assert [event async for event in stream] == []
        assert stream.state == "ended"
        async with toy.engine.open(asked("Some text.")) as spoken_whole:
            await heard(spoken_whole)
        assert spoken_whole.state == "ended"


async def test_each_stage_is_told_once_to_everybody_who_subscribed() -> None:
    told: list[Event] = []
    async with ToyEngine() as toy:
        events = StreamEvents(toy.clock, told.append, toy.metrics.on_event)
        async with toy.engine.open(asked("Hello you."), events) as stream:
            await heard(stream)
        names = [event.name for event in told if isinstance(event, Stage)]
        num_chunks = names.count("flow")
        assert sorted(names) == sorted(
            [
                "speaker",
                "queue",
                "text",
                "prefill",
                "first_hop",
                "decode",
                "lm",
                *["flow", "vocoder"] * num_chunks,
            ]
        )
        assert stream.stats.compute_s == sum(
            event.compute_s or 0.0 for event in told if isinstance(event, Stage)
        )
        value = toy.metrics.registry.get_sample_value("tts_stage_seconds_count", {"stage": "llm_first_hop"})
        assert value == 1


async def test_nothing_looks_again_and_again_while_a_listener_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    num_looks = 0

    def look(self: AudioQueue) -> float:
        nonlocal num_looks
        num_looks += 1
        return 0.0

    solved: asyncio.Queue[Event] = asyncio.Queue()

    def note(event: Event) -> None:
        if isinstance(event, Stage) and event.name == "flow":
            solved.put_nowait(event)

    async with (
        ToyEngine(writer_pause_s=0.01) as toy,
        toy.engine.open(asked_in_pieces("continuous"), StreamEvents(toy.clock, note)) as stream,
    ):
        stream.push_text("abcdefghij")
        for _ in range(2):  # chunks that are solved; the third waits for text
            await solved.get()
        await until_idle()
        monkeypatch.setattr(AudioQueue, "playout_deadline_s", property(look))
        await asyncio.sleep(0.4)
        assert num_looks == 0
        assert stream.stats.pauses == []
