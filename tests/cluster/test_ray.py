"""Ray Serve itself: engines in processes, their deaths, what the way to them costs: `make test-cluster`."""

import asyncio
import json
import logging
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from firstword.app.postgresql import Postgres, migrate
from firstword.app.service import own_engine, running
from firstword.app.settings import Settings
from firstword.app.telemetry.metrics import Metrics
from tests.cluster.standin import SPEAKERS, PacedEngine, info, standin
from tests.hosts.ray.test_remote import heard, samples_of
from tests.support.checkpoints import small_checkpoint
from tests.support.fake_speakers import ANNA, FakeSpeakers
from tests.support.postgres import postgres_server
from tests.support.serving import make_services, serving
from tests.support.toy_engine import asked

ray = pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")
from ray import serve  # noqa: E402

from firstword.app.hosts.ray.link import RayLink  # noqa: E402
from firstword.app.hosts.ray.serving import APP, cluster, opening_of  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)
WORDS = "x" * 60  # six seconds


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with postgres_server() as server:
        url = server.new_database()
        migrate(url)
        yield url


@pytest.fixture(scope="module")
def engines(store: str) -> Iterator[Any]:
    """The handle of two stand-ins."""
    settings = Settings(ray={"engines": 2, "cpus": 0.1}, speakers={"store": store})
    with cluster(settings, standin) as handle:
        yield handle


@asynccontextmanager
async def front(handle: Any, store: str) -> AsyncIterator[str]:
    """A server in front of the engines, in this process, with the speakers of the stand-in; gives its URL."""
    settings = Settings(speakers={"store": store})
    postgres = await asyncio.to_thread(Postgres, store)
    try:
        async with running(settings, None, postgres, opening_of(handle, settings)) as service:
            known = FakeSpeakers({name: replace(ANNA, name=name) for name in SPEAKERS})
            service.engine._speakers = known
            async with serving(replace(service, speakers=known)) as url:
                yield url
    finally:
        await asyncio.to_thread(postgres.close)


async def owners(handle: Any) -> dict[int, list[str]]:
    """The process of each engine, and the speakers it has: three of each engine."""
    found: dict[int, list[str]] = {}
    link = RayLink(handle)
    for number in range(32):
        name = f"voice-{number}"
        async with aclosing(link.stream(name, 0, "speak", asked("x", speaker=name), (), True)) as items:
            replica = (await anext(items))[0].replica
        found.setdefault(replica, []).append(name)
    pids = {one.replica: int(one.info.checkpoint.split()[1]) for one in await link.describe()}
    return {pids[replica]: names for replica, names in found.items()}


async def two_engines(handle: Any) -> dict[int, list[str]]:
    async with asyncio.timeout(120):
        while True:
            found = await owners(handle)
            if len(found) == 2:
                return found
            await asyncio.sleep(0.5)


async def test_an_engine_that_dies_under_four_contexts_leaves_their_socket_open(
    engines: Any, store: str
) -> None:
    async with front(engines, store) as url:
        (victim, names), (_, others) = (await two_engines(engines)).items()
        async with connect(url.replace("http", "ws") + "/tts/stream", max_size=None) as socket:
            speaking = {f"c{n}": name for n, name in enumerate([*names[:2], *others[:2]])}
            for context, name in speaking.items():
                await socket.send(json.dumps({"type": "start", "context": context, "speaker": name}))
                await socket.send(json.dumps({"type": "text", "context": context, "text": WORDS}))
            begun: set[str] = set()
            while len(begun) < 4:
                if isinstance(message := await socket.recv(), str):
                    said = json.loads(message)
                    begun |= {said["context"]} if said["type"] == "audio" else set()
            os.kill(victim, signal.SIGKILL)
            killed_at = time.monotonic()
            errors: dict[str, float] = {}
            while len(errors) < 2:
                if isinstance(message := await asyncio.wait_for(socket.recv(), 5), str):
                    said = json.loads(message)
                    if said["type"] == "error":
                        assert said["error"]["code"] == "restarting", said
                        errors[said["context"]] = time.monotonic() - killed_at
            assert errors.keys() == {"c0", "c1"}
            again_at = time.monotonic()
            await socket.send(json.dumps({"type": "start", "context": "again", "speaker": names[0]}))
            await socket.send(json.dumps({"type": "text", "context": "again", "text": "xx"}))
            heard_contexts: set[str] = set()
            again_s = None
            while again_s is None or not {"c2", "c3"} <= heard_contexts:
                if isinstance(message := await asyncio.wait_for(socket.recv(), 5), str):
                    said = json.loads(message)
                    if said["type"] == "audio":
                        heard_contexts.add(said["context"])
                        if said["context"] == "again" and again_s is None:
                            again_s = time.monotonic() - again_at
    logger.warning("an engine died: errors after %s s, its speaker spoke again in %.3f s", errors, again_s)
    assert max(errors.values()) < 1  # 0.2 on a machine that does nothing else
    assert again_s < 2  # 0.5 there


async def first_byte_s(url: str) -> float:
    """Of a request over a connection of its own."""
    async with httpx.AsyncClient(base_url=url) as client:
        return await _first_byte_s(client)


async def _first_byte_s(client: httpx.AsyncClient) -> float:
    began_s = time.perf_counter()
    async with client.stream("POST", "/tts", json={"text": "xx", "format": "pcm"}) as answer:
        async for _ in answer.aiter_raw():
            return time.perf_counter() - began_s
    raise AssertionError("no audio")


async def test_the_way_over_ray_adds_little_to_the_first_byte(engines: Any, store: str) -> None:
    alone = make_services(PacedEngine(info=info(), speakers=SPEAKERS))
    added_s = []
    async with front(engines, store) as there, serving(alone) as here:
        for number in range(65):
            pair = (await first_byte_s(here), await first_byte_s(there))
            if number >= 5:
                added_s.append(pair[1] - pair[0])
    median_s = statistics.median(added_s)
    logger.warning("Ray adds %.1f ms to the first byte (median of %d pairs)", 1000 * median_s, len(added_s))
    assert median_s < 0.1  # 0.02 on a machine that does nothing else


async def test_audio_over_ray_is_that_of_the_single_process(store: str, engines: Any, tmp_path: Any) -> None:
    serve.delete(APP)
    networks = {"checkpoint": small_checkpoint("cosyvoice2"), "backend": "torch", "flow_backend": "torch"}
    settings = Settings(
        networks=networks,
        engine={"max_streams": 2, "phrase_cache_mb": 0},
        speakers={"data_dir": tmp_path, "store": store},
        ray={"engines": 1, "cpus": 0.1},
    )
    request = asked("The quick brown fox, and 12 dogs.", seed=7)
    postgres = await asyncio.to_thread(Postgres, store)
    try:
        async with (
            own_engine(settings, None, Metrics(), postgres, None) as own,
            own.engine.open(request) as stream,
        ):
            expected = samples_of(await heard(stream))
        with cluster(settings) as handle:
            opening = opening_of(handle, settings)
            async with (
                running(settings, None, postgres, opening) as service,
                service.engine.open(request) as stream,
            ):
                found = samples_of(await heard(stream))
    finally:
        await asyncio.to_thread(postgres.close)
    assert found.tolist() == expected.tolist()
