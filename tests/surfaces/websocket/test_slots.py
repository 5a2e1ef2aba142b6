"""A context takes a place of the engine's only when there is something to say."""

import asyncio

import pytest

from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine
from tests.support.serving import counted, make_services
from tests.support.ws_client import QueueingEngine, types_of, ws_client

pytestmark = pytest.mark.anyio


async def test_contexts_without_text_take_no_places() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with ws_client(services) as client:
        for place in range(8):
            await client.send("start", context=str(place), speaker="anna")
            assert (await client.receive())["type"] == "started"
            await client.send("text", context=str(place), text="")
        await client.still_answers()
        assert engine.streams == []
        assert counted(services, "tts_requests_in_flight") == 0
        assert counted(services, "tts_ws_contexts") == 8
        await client.send_turn("Hi.", "7")
        await client.receive_until("done", "7")
    assert [stream.speaker for stream in engine.streams] == ["anna"]


@pytest.mark.parametrize("first", ["text", "flush", "end"])
async def test_what_comes_first_takes_a_place(first: str) -> None:
    engine = QueueingEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send("start")
        assert (await client.receive())["type"] == "started"
        assert not engine.asked.is_set()
        await client.send(first, **({"text": "Hi."} if first == "text" else {}))
        async with asyncio.timeout(20):
            await engine.asked.wait()


async def test_an_unknown_speaker_is_told_at_the_start() -> None:
    engine = QueueingEngine()
    async with ws_client(make_services(engine)) as client:
        await client.send("start", speaker="nobody")
        assert (await client.receive_error())["error"]["code"] == "speaker_not_found"
    assert not engine.asked.is_set()


async def test_the_time_to_the_first_audio_counts_from_the_first_text() -> None:
    clock, engine = Clock(), QueueingEngine()
    services = make_services(engine, clock=clock)
    async with ws_client(services) as client:
        await client.send("start")
        assert (await client.receive())["type"] == "started"
        clock.now_s += 60
        await client.send("text", text="Hi.")
        await engine.asked.wait()
        clock.now_s += 0.25
        engine.room.set()
        await client.send("end")
        done = (await client.receive_until("done"))[-1]
    assert done["stats"]["ttfb_ms"] == pytest.approx(250)
    for family in ("tts_first_text_to_first_byte_seconds", "tts_time_to_first_byte_seconds"):
        labels = {"protocol": "websocket"} if family.startswith("tts_time") else {}
        assert counted(services, f"{family}_sum", **labels) == pytest.approx(0.25)


async def test_a_first_text_that_is_too_long_is_counted() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with ws_client(services) as client:
        await client.send("text", text="x" * 4097)
        error = (await client.receive_until("error"))[-1]["error"]
    assert error["code"] == "text_too_long"
    assert engine.streams == []
    assert counted(services, "tts_rejected_total", reason="too_long") == 1
    assert counted(services, "tts_requests_in_flight") == 0


async def test_a_context_that_is_cancelled_before_its_first_text_was_no_request() -> None:
    services = make_services()
    async with ws_client(services) as client:
        await client.send("start")
        await client.send("cancel")
        messages = await client.receive_until("cancelled")
    assert types_of(messages) == ["started", "cancelled"]
    assert counted(services, "tts_requests_total", protocol="websocket", outcome="cancelled") == 0
