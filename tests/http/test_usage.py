"""`GET /v1/usage`: what a key has used."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from firstword.app.clients import STRANGER
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import Overloaded
from firstword.app.http.keys import KeyRing
from firstword.app.http.session import StreamSession
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import Usage
from tests.support.fake_engine import FakeEngine
from tests.support.serving import counted, error_of, in_process, make_services, serving
from tests.support.ws_client import connect_client

pytestmark = pytest.mark.anyio

FILE = """
anna = { key = "open-sesame", scopes = ["speak"] }
bob = { key = "abracadabra", scopes = ["speak"] }
root = { key = "root-key", scopes = ["admin"] }
"""
ANNA, BOB, ROOT = ({"X-API-Key": key} for key in ("open-sesame", "abracadabra", "root-key"))


@pytest.fixture
async def usage(tmp_path: Path) -> AsyncIterator[Usage]:
    async with Usage(tmp_path / "usage.sqlite3", Metrics()) as usage:
        yield usage


@pytest.fixture
def keys(tmp_path: Path) -> KeyRing:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return KeyRing(file=path)


async def test_each_protocol_is_counted_for_its_key_and_shown_to_it_alone(
    usage: Usage, keys: KeyRing
) -> None:
    services = make_services(usage=usage, keys=keys)  # 50 ms a character
    async with in_process(services) as client:
        before = (await client.get("/v1/usage", headers=ANNA)).json()
        await client.post("/tts", json={"text": "Hello."}, headers=ANNA)
        await client.post("/tts", json={"text": "Hello.", "stream": False}, headers=ANNA)
        await client.post("/v1/audio/speech", json={"input": "Hi."}, headers=ANNA)
        url = (await client.post("/v1/signed-urls", json={"text": "Hi."}, headers=ANNA)).json()["url"]
        await client.get(url)
        await client.get("/tts?text=Hi.&api_key=abracadabra")
        async with serving(services) as address, connect_client(address, "?api_key=abracadabra") as socket:
            await socket.send_turn("Hello you.")
            await socket.receive_until("done")
        anna, bob, root = [
            (await client.get("/v1/usage", headers=headers)).json() for headers in (ANNA, BOB, ROOT)
        ]
    row = {"name": "anna", "requests": 0, "characters": 0, "audio_seconds": 0.0}
    assert before["keys"] == [row]
    annas = {"name": "anna", "requests": 4, "characters": 18, "audio_seconds": 0.9}
    bobs = {"name": "bob", "requests": 2, "characters": 13, "audio_seconds": 0.65}
    assert anna["keys"] == [annas]
    assert bob["keys"] == [bobs]
    assert root["keys"] == [annas, bobs]
    assert anna["since"] == usage.began_at.replace("+00:00", "Z")
    assert counted(services, "tts_key_characters_total", key="anna") == 18


async def test_a_speech_that_is_cancelled_while_it_waits_is_not_counted(usage: Usage) -> None:
    class FullEngine(FakeEngine):
        async def admit(self) -> None:
            self.has_opened.set()
            await asyncio.Event().wait()

    services = make_services(engine := FullEngine(), usage=usage)
    session = StreamSession(services, SynthesisRequest("waits", "http", text="Hello you.", client=STRANGER))
    waiting = asyncio.create_task(session.__aenter__())
    await engine.has_opened.wait()
    session.cancel("client_cancel")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with in_process(services) as client:
        assert (await client.get("/v1/usage")).json()["keys"] == []


async def test_refused_requests_are_not_counted(usage: Usage) -> None:
    engine = FakeEngine(refusal=Overloaded("full", 1))
    async with in_process(make_services(engine, usage=usage)) as client:
        assert (await client.post("/tts", json={"text": "Hello."})).status_code == 503
        assert (await client.get("/v1/usage")).json()["keys"] == []
        engine.refusal = None
        await client.post("/tts", json={"text": "Hello."})
        assert (await client.get("/v1/usage")).json()["keys"] == [
            {"name": None, "requests": 1, "characters": 6, "audio_seconds": 0.3}
        ]


async def test_file_that_is_gone_is_said(usage: Usage, tmp_path: Path) -> None:
    async with in_process(make_services(usage=usage)) as client:
        os.unlink(tmp_path / "usage.sqlite3")
        answer = await client.get("/v1/usage")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "store_unavailable")
