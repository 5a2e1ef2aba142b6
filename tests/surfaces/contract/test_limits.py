"""A key's owner has so many requests a minute and so many streams at once, whatever carries them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from firstword.app.http.keys import KeyRing
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import until
from tests.support.serving import HELLO, LIMITS, counted
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, Spoken

pytestmark = pytest.mark.anyio


@pytest.fixture
def keys(tmp_path: Path) -> KeyRing:
    path = tmp_path / "keys.toml"
    path.write_text(
        'anna = { key = "annas", scopes = ["speak"] }\nben = { key = "bens", scopes = ["speak"] }\n'
    )
    return KeyRing(file=path)


async def test_a_key_has_so_many_requests_a_minute(serve: Serve, keys: KeyRing) -> None:
    async with serve(keys=keys, limits=replace(LIMITS, requests_per_minute=1)) as surface:
        assert isinstance(await surface.speak(HELLO, key="annas"), Spoken)
        answer = await surface.speak(HELLO, key="annas")
        assert isinstance(answer, Refused)
        assert isinstance(await surface.speak(HELLO, key="bens"), Spoken)
    assert answer.code == "rate_limited"
    assert counted(surface.service, "tts_rejected_total", reason="rate_limit") == 1


async def test_a_key_has_so_many_streams_at_once(serve: Serve, keys: KeyRing) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with serve(engine, keys, replace(LIMITS, streams_per_key=1)) as surface:
        first = asyncio.create_task(surface.speak(HELLO, key="annas"))
        await until(lambda: len(engine.streams) == 1)
        refused = await surface.speak(HELLO, key="annas")
        other = asyncio.create_task(surface.speak(HELLO, key="bens"))
        await until(lambda: len(engine.streams) == 2)
        assert engine.pause is not None
        engine.pause.set()
        assert isinstance(await first, Spoken)
        assert isinstance(await other, Spoken)
        assert isinstance(await surface.speak(HELLO, key="annas"), Spoken)
    assert isinstance(refused, Refused)
    assert refused.code == "rate_limited"
