"""`WS /tts/stream` does what docs/api.md says, message by message."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from firstword.app.audio.formats import AudioFormat
from firstword.app.core.interface import Audio
from firstword.app.core.transcript import TimedWord
from firstword.app.http.context import Context
from firstword.app.server_options import Limits
from tests.support import sounds
from tests.support.fake_engine import (
    INFO,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_CHARACTER,
    FakeEngine,
    FakeStream,
    speech,
)
from tests.support.serving import HELLO, make_services
from tests.support.ws_client import QueueingEngine, pcm_of, received_audio, types_of, ws_client

pytestmark = pytest.mark.anyio

CHARACTER_MS = 1000 * SAMPLES_PER_CHARACTER / SAMPLE_RATE_HZ


def paused(after_chunks: int, **fields: Any) -> FakeEngine:
    """Its streams wait behind their first chunks for `pause`."""
    return FakeEngine(pause=asyncio.Event(), pauses_after_chunks=after_chunks, **fields)


async def test_text_alone_starts_a_context_with_the_defaults() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO)
        messages = await client.receive_until("done")
    assert types_of(messages) == ["started", "audio", "done"]
    assert received_audio(messages) == pcm_of(speech(HELLO))
    [stream] = engine.streams
    assert messages[0] == {
        "type": "started",
        "context": "",
        "request_id": stream.request.request_id,
        "sample_rate": 24000,
        "format": "pcm",
        "channels": 1,
    }
    assert (stream.request.wire, stream.request.mode, stream.speaker) == ("websocket", "continuous", "hum")


async def test_audio_messages_tell_where_their_frames_lie() -> None:
    async with ws_client(make_services()) as client:
        await client.send_turn("abc")
        _, *audio, _ = await client.receive_until("done")
    assert [message["start_ms"] for message in audio] == [0, CHARACTER_MS, 2 * CHARACTER_MS]
    assert {message["duration_ms"] for message in audio} == {CHARACTER_MS}
    assert set(audio[0]) == {"type", "context", "bytes", "start_ms", "duration_ms", "data"}


async def test_words_that_come_behind_all_audio_have_an_empty_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    word = TimedWord("Hi", 0, 2, 0, SAMPLES_PER_CHARACTER)

    async def events(stream: FakeStream) -> AsyncIterator[Audio]:
        yield Audio(speech("a"))
        yield Audio(speech(""), [word])

    monkeypatch.setattr(FakeStream, "_events", events)
    async with ws_client(make_services()) as client:
        await client.send_turn("Hi", timestamps="word")
        _, first, last, _ = await client.receive_until("done")
    assert (first["words"], last["data"]) == ([], b"")
    assert [word["text"] for word in last["words"]] == ["Hi"]


async def test_done_tells_what_was_spoken() -> None:
    async with ws_client(make_services()) as client:
        await client.send_turn(HELLO)
        done = (await client.receive_until("done"))[-1]
    stats = done["stats"]
    assert set(stats) == {"ttfb_ms", "audio_ms", "rtf", "speech_tokens", "characters", "first_byte"}
    assert stats["ttfb_ms"] > 0
    assert stats["audio_ms"] == pytest.approx(len(HELLO) * CHARACTER_MS)
    assert stats["rtf"] == 0  # the fake computes nothing
    assert stats["speech_tokens"] == stats["characters"] == len(HELLO)


async def test_start_says_who_speaks_and_how() -> None:
    engine = FakeEngine()
    asked = {"speaker": "anna", "language": "en", "instruct": "gladly", "seed": 7, "mode": "segments"}
    async with ws_client(make_services(engine)) as client:
        await client.send_turn("Oh.", "a", format="wav", sample_rate=16000, **asked)
        messages = await client.receive_until("done", "a")
    assert (messages[0]["sample_rate"], messages[0]["format"]) == (16000, "wav")
    request = engine.streams[0].request
    voice = request.voice
    found = (voice.speaker, voice.language, voice.instruct, request.seed, request.mode)
    assert found == tuple(asked.values())


async def test_text_is_spoken_in_segments_where_the_checkpoint_cannot_continue_it() -> None:
    engine = FakeEngine(info=replace(INFO, can_continue_text=False))
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO)
        await client.receive_until("done")
    assert engine.streams[0].request.mode == "segments"


async def test_pieces_of_text_are_joined_exactly_as_they_came() -> None:
    engine = FakeEngine()
    pieces = ["Hel", "lo", " ", "", " wor", "ld", "!\n", "Ünd"]
    async with ws_client(make_services(engine)) as client:
        for piece in pieces:
            await client.send("text", text=piece)
        await client.send("end")
        messages = await client.receive_until("done")
    assert engine.streams[0].text == "".join(pieces)
    assert received_audio(messages) == pcm_of(speech("".join(pieces)))


async def test_audio_goes_out_while_text_still_comes() -> None:
    async with ws_client(make_services()) as client:
        await client.send("text", text="a")
        first = await client.receive_until("audio")
        await client.send_turn("b")
        rest = await client.receive_until("done")
    assert received_audio(first + rest) == pcm_of(speech("ab"))


async def test_flushed_follows_the_audio_of_its_flush_and_the_context_goes_on() -> None:
    async with ws_client(make_services()) as client:
        await client.send("start", mode="segments")
        await client.send("text", text="One")
        await client.send("flush")
        flushed = await client.receive_until("flushed")
        await client.send_turn(" two.")
        rest = await client.receive_until("done")
    assert received_audio(flushed) == pcm_of(speech("One"))
    assert flushed[-1] == {"type": "flushed", "context": ""}
    assert received_audio(rest) == pcm_of(speech(" two."))


@pytest.mark.parametrize(
    ("format", "sample_rate", "speed"),
    [("pcm", 48000, 1.0), ("pcm", 8000, 1.0), ("pcm", 24000, 2.0), ("wav", 16000, 0.5), ("ulaw", 8000, 1.0)],
)
async def test_nothing_of_a_flush_comes_behind_flushed(format: str, sample_rate: int, speed: float) -> None:
    async with ws_client(make_services()) as client:
        await client.send("start", format=format, sample_rate=sample_rate, speed=speed)
        await client.send("text", text="One")
        await client.send("flush")
        messages = await client.receive_until("flushed")
        await client.send_turn(" two.")
        rest = await client.receive_until("done")
    told_ms = [sum(m.get("duration_ms", 0) for m in part) for part in (messages, rest)]
    assert told_ms == [pytest.approx(n * CHARACTER_MS / speed, abs=0.2) for n in (3, 5)]
    num_bytes = len(received_audio(messages)) - (44 if format == "wav" else 0)
    assert num_bytes / (1 if format == "ulaw" else 2) == pytest.approx(told_ms[0] * sample_rate / 1000, abs=2)


async def test_a_cancelled_context_tells_what_was_heard_and_says_nothing_more() -> None:
    engine = paused(after_chunks=9)
    async with ws_client(make_services(engine)) as client:
        await client.send_turn("One two three.")
        audio = [(await client.receive_until("audio"))[-1] for _ in range(9)]
        await client.send("cancel")
        cancelled = await client.receive()
        await client.still_answers()
    assert cancelled == {
        "type": "cancelled",
        "context": "",
        "audio_ms_sent": pytest.approx(sum(message["duration_ms"] for message in audio)),
        "spoken_text": "One two",
        "remaining_text": " three.",
    }
    assert engine.streams[0].cancels == ["client_cancel"]
    assert not engine.streams[0].is_open


@pytest.mark.parametrize(
    ("played_ms", "spoken"), [(0, ""), (200, "One"), (390, "One two"), (100_000, "One two three")]
)
async def test_a_cancel_says_how_much_was_played(played_ms: float, spoken: str) -> None:
    """A character takes 50 ms; 13 of them are sent."""
    text = "One two three four."
    async with ws_client(make_services(paused(after_chunks=13))) as client:
        for piece in ("One two", " three four."):
            await client.send("text", text=piece)
        await client.send("end")
        for _ in range(13):
            await client.receive_until("audio")
        await client.send("cancel", played_ms=played_ms)
        cancelled = await client.receive()
    assert (cancelled["spoken_text"], cancelled["remaining_text"]) == (spoken, text[len(spoken) :])
    assert cancelled["audio_ms_sent"] == pytest.approx(650)


@pytest.mark.parametrize(("played_ms", "spoken"), [(200, "One"), (390, "One two"), (None, "One two three.")])
async def test_a_cancel_behind_done_says_how_much_was_played(played_ms: float | None, spoken: str) -> None:
    text = "One two three."
    async with ws_client(make_services()) as client:
        await client.send_turn(text)
        await client.receive_until("done")
        await client.send("cancel", **({} if played_ms is None else {"played_ms": played_ms}))
        cancelled = await client.receive()
        assert cancelled["type"] == "cancelled"
        assert (cancelled["spoken_text"], cancelled["remaining_text"]) == (spoken, text[len(spoken) :])
        await client.send("cancel")
        await client.still_answers()  # once


async def test_a_cancel_long_behind_done_is_answered_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.surfaces.websocket.session.CANCEL_AFTER_DONE_S", 0.0)
    async with ws_client(make_services()) as client:
        await client.send_turn("One.")
        await client.receive_until("done")
        await client.send("cancel", played_ms=10)
        await client.still_answers()


async def test_contexts_that_are_done_are_forgotten_when_others_are() -> None:
    limits = Limits(max_contexts=2)
    async with ws_client(make_services(limits=limits)) as client:
        for name in "abc":
            await client.send_turn("One.", name)
            await client.receive_until("done", name)
        await client.send("cancel", context="a")
        await client.still_answers()
        await client.send("cancel", context="b")
        assert (await client.receive())["type"] == "cancelled"


async def test_contexts_that_are_forgotten_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = weakref.WeakSet[Context]()

    class Watched(Context):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            begun.add(self)

    monkeypatch.setattr("firstword.app.surfaces.websocket.session.Context", Watched)
    async with ws_client(make_services(limits=Limits(max_contexts=2))) as client:
        for name in "abcde":
            await client.send_turn("One.", name)
            await client.receive_until("done", name)
        await client.still_answers()
        gc.collect()
        assert len(begun) == 2
    gc.collect()
    assert not begun  # though a socket's last ones may be cancelled for a minute


async def test_a_cancel_with_a_bad_time_is_refused() -> None:
    async with ws_client(make_services(paused(after_chunks=1))) as client:
        await client.send("text", text=HELLO)
        await client.receive_until("audio")
        await client.send("cancel", played_ms=-1)
        assert (await client.receive_error())["error"]["param"] == "played_ms"


@pytest.mark.parametrize(("speed", "sample_rate"), [(2.0, 24000), (0.5, 48000), (1.0, 8000)])
async def test_what_was_heard_is_told_at_any_speed_and_rate(speed: float, sample_rate: int) -> None:
    engine = paused(after_chunks=40, samples_per_character=4800)
    text = "One two " * 10
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(text, speed=speed, sample_rate=sample_rate)
        heard_ms, messages = 0.0, []
        while heard_ms < 7000 / speed:  # of 8 s that are made
            messages += await client.receive_until("audio")
            heard_ms = messages[-1]["start_ms"] + messages[-1]["duration_ms"]
        await client.send("cancel")
        messages += await client.receive_until("cancelled")
    cancelled = messages[-1]
    assert cancelled["audio_ms_sent"] == pytest.approx(1000 * len(received_audio(messages)) / 2 / sample_rate)
    num_characters = cancelled["audio_ms_sent"] * speed / 200
    assert num_characters - 4 <= len(cancelled["spoken_text"]) <= num_characters
    assert text.startswith(cancelled["spoken_text"])


@pytest.mark.parametrize(("speed", "sample_rate"), [(2.0, 24000), (0.5, 16000), (1.0, 48000)])
async def test_durations_are_those_that_the_listener_hears(speed: float, sample_rate: int) -> None:
    async with ws_client(make_services()) as client:
        await client.send_turn(HELLO, speed=speed, sample_rate=sample_rate)
        messages = await client.receive_until("done")
    played_ms = 1000 * len(received_audio(messages)) / 2 / sample_rate
    told_ms = sum(message.get("duration_ms", 0) for message in messages)
    assert told_ms == pytest.approx(played_ms, abs=0.1)
    assert messages[-1]["stats"]["audio_ms"] == pytest.approx(played_ms, abs=0.1)
    assert played_ms == pytest.approx(len(HELLO) * CHARACTER_MS / speed, abs=1)


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
async def test_the_frames_of_a_context_are_one_file_of_its_format(format: AudioFormat) -> None:
    async with ws_client(make_services()) as client:
        await client.send_turn(HELLO, format=format)
        messages = await client.receive_until("done")
    samples, rate_hz = sounds.decode(format, received_audio(messages), SAMPLE_RATE_HZ)
    assert len(samples) / rate_hz == pytest.approx(len(HELLO) * CHARACTER_MS / 1000, abs=0.1)


@pytest.mark.parametrize("ending", ["done", "cancelled"])
async def test_a_context_may_be_used_again(ending: str) -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send("text", context="a", text="One.")
        await client.send("end" if ending == "done" else "cancel", context="a")
        await client.receive_until(ending, "a")
        await client.send_turn("Two.", "a")
        messages = await client.receive_until("done", "a")
    assert types_of(messages) == ["started", "audio", "done"]
    assert received_audio(messages, "a") == pcm_of(speech("Two."))
    assert engine.streams[0].request.request_id != engine.streams[1].request.request_id


async def test_a_context_may_be_begun_anew_right_behind_its_cancel() -> None:
    engine = paused(after_chunks=1)
    async with ws_client(make_services(engine)) as client:
        await client.send("text", text="One.")
        await client.receive_until("audio")
        engine.pause = None
        await client.send("cancel")
        await client.send_turn("Two.")
        messages = await client.receive_until("done")
    assert types_of(messages) == ["cancelled", "started", "audio", "done"]
    assert received_audio(messages) == pcm_of(speech("Two."))


async def test_what_comes_before_there_is_a_place_is_spoken_in_order() -> None:
    engine = QueueingEngine()
    async with ws_client(make_services(engine)) as client:
        for piece in ["On", "e"]:
            await client.send("text", text=piece)
        await client.send("flush")
        await client.send_turn(" two.")
        await client.receive_until("started")
        await client.still_answers()
        engine.room.set()
        messages = await client.receive_until("done")
    assert types_of(messages) == ["audio", "flushed", "audio", "done"]
    assert received_audio(messages) == pcm_of(speech("One two."))


async def test_as_much_may_come_before_there_is_a_place_as_later() -> None:
    engine = QueueingEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send("text", text="Hi.")
        for _ in range(100):
            await client.send("flush")
        await client.send("end")
        assert (await client.receive())["type"] == "started"
        await client.still_answers()
        engine.room.set()
        messages = await client.receive_until("done")
    assert types_of(messages) == ["audio", "flushed", "done"]
    assert [message["type"] for message in messages].count("flushed") == 100


async def test_a_context_can_be_cancelled_while_it_waits_for_a_place() -> None:
    engine = QueueingEngine()
    services = make_services(engine)
    async with ws_client(services) as client:
        await client.send_turn(HELLO)
        await engine.asked.wait()
        await client.send("cancel")
        messages = await client.receive_until("cancelled")
        engine.room.set()
        await client.still_answers()
    assert types_of(messages) == ["started", "cancelled"]
    nothing = {"audio_ms_sent": 0, "spoken_text": "", "remaining_text": HELLO}
    assert messages[-1] == {"type": "cancelled", "context": "", **nothing}
    assert engine.streams == []


async def test_a_ping_is_answered_while_audio_goes_out() -> None:
    async with ws_client(make_services(paused(after_chunks=1))) as client:
        await client.send_turn(HELLO)
        await client.receive_until("audio")
        await client.still_answers()


async def test_voice_and_null_mean_the_same_as_elsewhere() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO, voice="anna", speed=None, format=None, mode=None)
        messages = await client.receive_until("done")
    assert engine.streams[0].speaker == "anna"
    assert messages[0]["format"] == "pcm"
