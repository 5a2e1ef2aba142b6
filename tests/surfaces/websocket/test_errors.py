"""What a WebSocket refuses: in what words, what ends by it, and what goes on."""

import asyncio
import json
from dataclasses import replace
from itertools import product

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.errors import Draining, InvalidRequest, Overloaded, SynthesisFailed
from tests.support.fake_engine import INFO, FakeEngine, speech
from tests.support.serving import HELLO, counted, make_services
from tests.support.ws_client import QueueingEngine, pcm_of, received_audio, types_of, ws_client

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("raw", "context", "param", "words"),
    [
        ("{", None, None, "JSON"),
        ('"text"', None, None, "object"),
        ("[" * 100_000, None, None, "JSON"),
        ('{"context":"a"}', None, "type", "start, text, flush"),
        ('{"type":"sing","context":"a"}', "a", "type", "start, text, flush"),
        ('{"type":["text"]}', "", "type", "start, text, flush"),
        ('{"type":"text","context":"a"}', "a", "text", "missing"),
        ('{"type":"text","context":"a","text":5}', "a", "text", "string"),
        ('{"type":"text","context":"a","text":"x","voice":"y"}', "a", "voice", "voice"),
        ('{"type":"text","context":5,"text":"x"}', None, "context", "string"),
        ('{"type":"text","text":"\\ud800"}', None, None, "JSON"),
        ('{"type":"ping","context":"a"}', "a", "context", "known field"),
        ('{"type":"start","speed":9}', "", "speed", "less than or equal to 2"),
        ('{"type":"start","speed":NaN}', "", "speed", "speed"),
        ('{"type":"start","sample_rate":11025}', "", "sample_rate", "11025"),
        ('{"type":"start","format":"opus","sample_rate":44100}', "", "sample_rate", "44100"),
        ('{"type":"start","format":"midi"}', "", "format", "wav"),
        ('{"type":"start","mode":"whole"}', "", "mode", "continuous"),
        ('{"type":"start","seed":-1}', "", "seed", "0"),
        (
            '{"type":"start","normalise":true}',
            "",
            "normalise",
            "unknown field `normalise`; did you mean `normalize`?",
        ),
        ('{"type":"start","spaeker":"anna"}', "", "spaeker", "did you mean `speaker`?"),
    ],
)
async def test_a_message_that_is_wrong_is_answered_and_the_socket_stays(
    raw: str, context: str | None, param: str | None, words: str
) -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        await client.socket.send(raw)
        message = await client.receive_error()
        await client.still_answers()
    error = message["error"]
    assert message["context"] == context
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        "invalid_request",
        param,
    )
    assert words in error["message"]
    assert engine.streams == []


async def test_a_binary_message_is_answered_and_the_socket_stays() -> None:
    async with ws_client(make_services()) as client:
        await client.socket.send(b"\x00\x01")
        message = await client.receive_error()
        await client.still_answers()
    assert message["context"] is None
    assert message["error"]["code"] == "invalid_request"


async def test_a_wrong_message_ends_the_context_it_was_for_and_no_other() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        for context in "ab":
            await client.send("text", context=context, text="x")
            await client.receive_until("audio", context)
        await client.send("text", context="a", txt="y")
        assert (await client.receive_error())["context"] == "a"
        await client.send_turn("y", "b")
        messages = await client.receive_until("done", "b")
    assert received_audio(messages, "b") == pcm_of(speech("y"))
    assert not engine.streams[0].is_open


@pytest.mark.parametrize("type", ["flush", "end"])
async def test_a_context_that_nobody_began_is_done_with_nothing_said(type: str) -> None:
    async with ws_client(make_services()) as client:
        await client.send(type, context="nobody's")
        *_, done = await client.receive_until("done", "nobody's")
        await client.still_answers()
    assert done["stats"]["audio_ms"] == 0
    assert done["stats"]["ttfb_ms"] is None


async def test_a_context_to_cancel_that_nobody_began_is_named() -> None:
    async with ws_client(make_services()) as client:
        await client.send("cancel", context="nobody's")
        message = await client.receive_error()
        await client.still_answers()
    assert message["context"] == "nobody's"
    assert message["fatal"] is False
    assert message["error"]["code"] == "invalid_request"
    assert message["error"]["param"] == "context"
    assert "nobody's" in message["error"]["message"]


LATE = ("cancel", "done")  # which is answered: tests/surfaces/websocket/test_context.py


@pytest.mark.parametrize(
    ("type", "ending"),
    [pair for pair in product(("flush", "end", "cancel"), ("done", "cancelled", "error")) if pair != LATE],
)
async def test_what_crosses_the_end_of_its_context_is_answered_by_nothing(type: str, ending: str) -> None:
    async with ws_client(make_services()) as client:
        await client.send("text", context="a", text=HELLO)
        last = {
            "done": {"type": "end"},
            "cancelled": {"type": "cancel"},
            "error": {"type": "text", "txt": ""},
        }
        await client.send(**last[ending], context="a")
        await client.receive_until(ending, "a")
        await client.send(type, context="a")
        await client.still_answers()
        await client.send_turn(HELLO, "a")
        messages = await client.receive_until("done", "a")
    assert received_audio(messages, "a") == pcm_of(speech(HELLO))


@pytest.mark.parametrize("late", [{"type": "text", "text": "More."}, {"type": "flush"}, {"type": "end"}])
async def test_what_comes_behind_the_end_is_refused_and_the_speech_goes_on(late: dict[str, str]) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    assert engine.pause is not None
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO)
        begun = await client.receive_until("audio")
        await client.socket.send(json.dumps(late))
        message = await client.receive_error()
        engine.pause.set()
        rest = await client.receive_until("done")
    assert (message["context"], message["fatal"]) == ("", False)
    assert message["error"]["code"] == "invalid_request"
    assert received_audio(begun + rest) == pcm_of(speech(HELLO))


async def test_a_start_for_a_context_that_speaks_is_refused_and_the_speech_goes_on() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    assert engine.pause is not None
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO)
        await client.receive_until("audio")
        await client.send("start", speaker="anna")
        assert "cancel" in (await client.receive_error())["error"]["message"]
        engine.pause.set()
        await client.receive_until("done")
    assert len(engine.streams) == 1


async def test_text_under_way_to_a_start_that_failed_is_not_spoken_by_another_voice() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO, "a", speaker="nobody")
        errors = [await client.receive_error() for _ in range(2)]
        assert [(error["error"]["code"], error["fatal"]) for error in errors] == [
            ("speaker_not_found", True),
            ("invalid_request", False),  # the text; nothing answers its end
        ]
        await client.still_answers()
        await client.send_turn(HELLO, "a", speaker="anna")
        messages = await client.receive_until("done", "a")
    assert received_audio(messages, "a") == pcm_of(speech(HELLO))
    assert [stream.speaker for stream in engine.streams] == ["anna"]


async def test_behind_the_end_of_a_failed_turn_its_context_may_be_begun_by_text() -> None:
    async with ws_client(make_services()) as client:
        await client.send("start", speed=9)
        await client.receive_error()
        await client.send("text", text="lost")
        assert "start" in (await client.receive_error())["error"]["message"]
        await client.send("end")
        await client.send_turn(HELLO)
        assert received_audio(await client.receive_until("done")) == pcm_of(speech(HELLO))


@pytest.mark.parametrize("text", ["", " \n", "?!..."])
@pytest.mark.parametrize("format", ["pcm", "wav", "opus"])
async def test_text_that_nobody_can_speak_is_done_without_audio(text: str, format: str) -> None:
    services = make_services(FakeEngine(info=replace(INFO, can_continue_text=False)))
    async with ws_client(services) as client:
        await client.send("start", mode="segments", format=format)
        await client.send("text", text=text)
        await client.send("end")
        messages = await client.receive_until("done")
        await client.send_turn(HELLO)
        assert types_of(await client.receive_until("done"))[0] == "started"
    assert types_of(messages) == ["started", "done"]
    assert messages[-1]["stats"]["audio_ms"] == 0
    assert messages[-1]["stats"]["ttfb_ms"] is None
    assert counted(services, "tts_requests_total", protocol="websocket", outcome="ok") == 2


async def test_a_flush_of_nothing_is_flushed() -> None:
    async with ws_client(make_services()) as client:
        await client.send("start")
        await client.send("flush")
        await client.send("end")
        assert types_of(await client.receive_until("done")) == ["started", "flushed", "done"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_too_much_text_ends_its_context(is_open: bool) -> None:
    engine = QueueingEngine(info=replace(INFO, limits=WorkLimits(max_text_chars=10)))
    if is_open:
        engine.room.set()
    services = make_services(engine)
    async with ws_client(services) as client:
        await client.send("text", text="0123456789")
        await engine.asked.wait()
        await client.send("text", text="0")
        message = (await client.receive_until("error"))[-1]
        await client.still_answers()
    assert message["error"]["code"] == "text_too_long"
    assert not engine.open_streams
    assert counted(services, "tts_rejected_total", reason="too_long") == 1


async def test_what_the_checkpoint_cannot_do_is_told_and_the_socket_stays() -> None:
    engine = FakeEngine(refusal=InvalidRequest("no continuous mode here", param="mode"))
    async with ws_client(make_services(engine)) as client:
        await client.send("start", mode="continuous")
        await client.send("text", text=HELLO)
        message = await client.receive_error(is_started=True)
        await client.still_answers()
    assert (message["context"], message["error"]["param"]) == ("", "mode")


@pytest.mark.parametrize(
    ("refusal", "code", "close_code"),
    [
        (Overloaded("full", retry_after_s=2), "overloaded", 1013),
        (Draining("stopping", retry_after_s=2), "draining", 1012),
        (SynthesisFailed("secret"), "internal", 1011),
        (ZeroDivisionError("secret"), "internal", 1011),
    ],
)
async def test_a_server_that_cannot_speak_says_why_and_closes(
    refusal: Exception, code: str, close_code: int
) -> None:
    async with ws_client(make_services(FakeEngine(refusal=refusal))) as client:
        await client.send("text", text=HELLO)
        message = await client.receive_error(is_started=True)
        assert await client.closed_with() == close_code
    assert message["error"]["code"] == code
    assert "secret" not in json.dumps(message)


async def test_a_failure_behind_the_first_audio_is_told_and_closes() -> None:
    services = make_services(FakeEngine(failure=RuntimeError("secret"), fails_after_chunks=2))
    async with ws_client(services) as client:
        await client.send_turn(HELLO)
        messages = await client.receive_until("error")
        assert await client.closed_with() == 1011
    assert received_audio(messages) == pcm_of(speech(HELLO[:2]))
    assert "secret" not in json.dumps(messages[-1])
    assert counted(services, "tts_requests_total", protocol="websocket", outcome="failed") == 1


async def test_a_socket_that_will_close_lets_its_other_contexts_finish_and_begins_none() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    pause = engine.pause
    assert pause is not None
    async with ws_client(make_services(engine)) as client:
        await client.send_turn(HELLO, "a")
        begun = await client.receive_until("audio", "a")
        engine.refusal = Overloaded("full", retry_after_s=2)
        await client.send("text", context="b", text=HELLO)
        assert (await client.receive_error(is_started=True))["error"]["code"] == "overloaded"
        await client.send("text", context="c", text=HELLO)
        assert (await client.receive_error())["error"]["code"] == "invalid_request"
        pause.set()
        rest = await client.receive_until("done", "a")
        assert await client.closed_with() == 1013
    assert received_audio(begun + rest, "a") == pcm_of(speech(HELLO))
