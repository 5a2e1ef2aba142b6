"""WebSocket clients that are slow, silent, many or gone, over real sockets."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tests.support.fake_engine import FakeEngine, speech
from tests.support.serving import HELLO, LIMITS, counted, make_services, serving
from tests.support.ws_client import connect_client, pcm_of, received_audio, ws_client

pytestmark = pytest.mark.anyio

SAMPLES_PER_MIB = 1 << 19
NUM_BIG_CHUNKS = 64  # of 1 MiB each: more than sockets hold


def big_chunks() -> FakeEngine:
    return FakeEngine(samples_per_character=SAMPLES_PER_MIB)


async def test_contexts_that_speak_at_once_are_never_mixed() -> None:
    texts = {name: name.upper() * 40 for name in "abcdefgh"}
    async with ws_client(make_services()) as client:
        for name, text in texts.items():
            await client.send_turn(text, name)
        messages = []
        for _ in texts:
            messages.append(await client.receive())
            while messages[-1]["type"] != "done":
                messages.append(await client.receive())
    for name, text in texts.items():
        assert received_audio(messages, name) == pcm_of(speech(text))
    order = [message["context"] for message in messages if message["type"] == "audio"]
    assert order != sorted(order), "they did not take turns"


async def test_who_does_not_read_pauses_only_the_own_stream() -> None:
    engine = big_chunks()
    async with serving(make_services(engine)) as url, connect_client(url, max_queue=1) as slow:
        await slow.send_turn("x" * NUM_BIG_CHUNKS)
        async with connect_client(url) as quick:
            await quick.send_turn("y" * NUM_BIG_CHUNKS)
            messages = await quick.receive_until("done")
        assert len(received_audio(messages)) == NUM_BIG_CHUNKS << 20
        [stream] = engine.open_streams
        assert stream.num_chunks < NUM_BIG_CHUNKS
        rest = await slow.receive_until("done")
    assert len(received_audio(rest)) == NUM_BIG_CHUNKS << 20


async def test_a_cancel_is_read_while_audio_cannot_go_out() -> None:
    engine = big_chunks()
    async with ws_client(make_services(engine), max_queue=1) as client:
        await client.send_turn("x" * NUM_BIG_CHUNKS)
        await client.receive_until("audio")
        await client.send("cancel")
        await engine.streams[0].closed.wait()
        messages = await client.receive_until("cancelled")
        await client.still_answers()
    assert engine.streams[0].cancels == ["client_cancel"]
    sent_ms = messages[-1]["audio_ms_sent"]
    assert sent_ms == pytest.approx(messages[-2]["start_ms"] + messages[-2]["duration_ms"])
    assert engine.streams[0].num_chunks < NUM_BIG_CHUNKS


async def test_a_cancelled_contexts_audio_that_waits_behind_another_is_withdrawn() -> None:
    engine = big_chunks()
    async with ws_client(make_services(engine), max_queue=1) as client:
        for context in "ab":
            await client.send_turn("x" * NUM_BIG_CHUNKS, context)
        begun = await client.receive_until("audio", "b")
        await client.send("cancel", context="b")
        await engine.streams[1].closed.wait()
        messages = begun + await client.receive_until("cancelled", "b")
        await client.send("cancel", context="a")
        rest = await client.receive_until("cancelled", "a")
    assert not received_audio(rest, "b")
    heard_ms = sum(m["duration_ms"] for m in messages if m["type"] == "audio" and m["context"] == "b")
    assert messages[-1]["audio_ms_sent"] == pytest.approx(heard_ms)


async def test_who_does_not_read_for_too_long_is_dropped() -> None:
    engine = big_chunks()
    services = make_services(engine, limits=replace(LIMITS, slow_listener_timeout_s=0.1))
    async with ws_client(services, max_queue=1) as client:
        await client.send_turn("x" * NUM_BIG_CHUNKS)
        await client.receive_until("audio")
        await engine.streams[0].closed.wait()
        client.socket.transport.abort()
    assert engine.streams[0].cancels == ["slow_listener"]
    assert counted(services, "tts_cancelled_total", reason="slow_listener") == 1


@pytest.mark.parametrize("is_polite", [True, False])
async def test_who_leaves_frees_every_stream_at_once(is_polite: bool) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    services = make_services(engine)
    async with serving(services) as url:
        async with connect_client(url) as client:
            for context in "ab":
                await client.send_turn(HELLO, context)
                await client.receive_until("audio", context)
            assert counted(services, "tts_ws_connections") == 1
            assert counted(services, "tts_ws_contexts") == 2
            if not is_polite:
                client.socket.transport.abort()
        for stream in engine.streams:
            await stream.closed.wait()
    assert [stream.cancels for stream in engine.streams] == [["disconnect"], ["disconnect"]]
    assert counted(services, "tts_cancelled_total", reason="disconnect") == 2
    for family in ("tts_ws_connections", "tts_ws_contexts", "tts_requests_in_flight"):
        assert counted(services, family) == 0


async def test_who_leaves_while_nothing_can_be_written_frees_the_stream() -> None:
    engine = big_chunks()
    async with ws_client(make_services(engine), max_queue=1) as client:
        await client.send_turn("x" * NUM_BIG_CHUNKS)
        await client.receive_until("audio")
        client.socket.transport.abort()
        await engine.streams[0].closed.wait()
    assert engine.streams[0].cancels == ["disconnect"]


async def test_a_server_that_stops_tells_its_clients() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    services = make_services(engine)
    async with AsyncExitStack() as clients:
        async with serving(services) as url:
            client = await clients.enter_async_context(connect_client(url))
            await client.send_turn(HELLO)
            await client.receive_until("audio")
        assert await client.closed_with() == 1012
    assert engine.streams[0].cancels == ["shutdown"]
    assert counted(services, "tts_cancelled_total", reason="shutdown") == 1


async def test_a_silent_socket_is_closed() -> None:
    services = make_services(limits=replace(LIMITS, idle_timeout_s=0.05))
    async with ws_client(services) as client:
        assert await client.closed_with() == 1001


async def test_streams_of_a_socket_that_neither_reads_nor_writes_are_freed() -> None:
    engine = big_chunks()
    async with ws_client(
        make_services(engine, limits=replace(LIMITS, idle_timeout_s=0.1)), max_queue=1
    ) as client:
        await client.send_turn("x" * NUM_BIG_CHUNKS)
        await client.receive_until("audio")
        await engine.streams[0].closed.wait()
        client.socket.transport.abort()
    assert engine.streams[0].cancels == ["timeout"]


@pytest.mark.parametrize("text", ["", "x"])
async def test_a_context_whose_text_never_ends_is_given_up(text: str) -> None:
    engine = FakeEngine()
    services = make_services(engine, limits=replace(LIMITS, idle_timeout_s=0.1))
    async with ws_client(services) as client:
        await client.send("start")
        await client.send("text", text=text)
        message = await client.receive()
        while message["type"] != "error":
            await client.send("ping")  # so the socket is not silent
            message = await client.receive()
    assert message["error"]["code"] == "timeout"
    assert not engine.open_streams
    assert counted(services, "tts_cancelled_total", reason="timeout") == len(text)
