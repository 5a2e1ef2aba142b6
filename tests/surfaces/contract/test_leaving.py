"""Who leaves frees everything at once; a server that stops lets streams finish and takes nothing new."""

import asyncio

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import until
from tests.support.serving import HELLO, counted
from tests.support.ws_client import QueueingEngine
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, SpeakingSurface, Spoken

pytestmark = pytest.mark.anyio


async def left(surface: SpeakingSurface, speaking: "asyncio.Task[object]") -> None:
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    await until(lambda: counted(surface.service, "tts_requests_in_flight") == 0)


@pytest.mark.parametrize("num_chunks", [0, 1])
async def test_who_leaves_frees_the_slot(serve: Serve, num_chunks: int) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=num_chunks)
    async with serve(engine) as surface:
        speaking = asyncio.create_task(surface.speak(HELLO))
        await until(lambda: bool(engine.open_streams) and engine.streams[0].num_chunks == num_chunks)
        await left(surface, speaking)
        await until(lambda: not engine.open_streams)
    assert engine.streams[0].cancels == ["disconnect"]
    service = surface.service
    assert counted(service, "tts_cancelled_total", reason="disconnect") == 1
    assert counted(service, "tts_requests_total", protocol=surface.wire, outcome="cancelled") == 1


async def test_who_leaves_while_it_waits_leaves_the_queue(serve: Serve) -> None:
    engine = QueueingEngine()
    async with serve(engine) as surface:
        speaking = asyncio.create_task(surface.speak(HELLO))
        await engine.asked.wait()
        await left(surface, speaking)
        assert not engine.streams
    assert counted(surface.service, "tts_cancelled_total", reason="disconnect") == 1


async def test_a_draining_server_takes_nothing_new(serve: Serve) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with serve(engine) as surface:
        speaking = asyncio.create_task(surface.speak(HELLO))
        await until(lambda: bool(engine.open_streams))
        for one in surface.surfaces:
            await one.drain()
        draining = asyncio.create_task(engine.drain(timeout_s=20))
        await until(lambda: engine.refusal is not None)
        refused = await surface.speak(HELLO)
        assert engine.pause is not None
        engine.pause.set()
        finished = await speaking
        await draining
    assert isinstance(refused, Refused)
    assert refused.code == "draining"
    assert isinstance(finished, Spoken), "what had begun may finish"


async def test_a_stream_that_a_drain_cannot_wait_for_is_not_complete(serve: Serve) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with serve(engine) as surface:
        speaking = asyncio.create_task(surface.speak(HELLO))
        await until(lambda: bool(engine.open_streams) and engine.streams[0].num_chunks == 1)
        await engine.drain(timeout_s=0)
        answer = await speaking
        await until(lambda: counted(surface.service, "tts_requests_in_flight") == 0)
    assert isinstance(answer, Refused)
    assert answer.code in ("draining", None)
    assert counted(surface.service, "tts_cancelled_total", reason="shutdown") == 1
