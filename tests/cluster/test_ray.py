"""Ray Serve itself: engines in processes, their deaths, what the way to them costs: `make test-cluster`."""

import asyncio
import logging
import statistics
import time
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx
import pytest

from firstword.app.clients import ANYBODY
from firstword.app.errors import SpeakerNotFound
from firstword.app.hosts.ray.remote import ask
from firstword.app.postgresql import Postgres
from firstword.app.service import own_engine, running
from firstword.app.settings import Settings
from firstword.app.telemetry.metrics import Metrics
from tests.cluster.standin import SPEAKERS, PacedEngine, info, standin
from tests.hosts.ray.test_remote import heard, samples_of
from tests.support.checkpoints import small_checkpoint
from tests.support.serving import make_services, serving
from tests.support.toy_engine import asked

ray = pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")
from ray import serve  # noqa: E402

from firstword.app.hosts.ray.link import RayLink  # noqa: E402
from firstword.app.hosts.ray.serving import APP, cluster, opening_of  # noqa: E402
from tests.cluster.deaths import front, is_left, kill_many  # noqa: E402

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)


async def test_engines_that_die_under_four_contexts_leave_their_socket_open_and_nothing_behind(
    engines: Any, store: str
) -> None:
    deaths, before, after = await kill_many(engines, store, 2, warm_up=1)
    for death in deaths:
        logger.warning("%s", death)
    assert max(max(death.errors_s) for death in deaths) < 1  # 0.2 on a machine that does nothing else
    assert max(death.again_s for death in deaths) < 2  # 0.5 there
    # Responses aside: pytest keeps log records, and those what failed. `tests.cluster.deaths` counts them.
    assert not is_left(replace(before, responses=0), replace(after, responses=0))


async def test_calls_at_once_are_each_answered_by_an_engine(engines: Any, store: str) -> None:
    async with front(engines, store) as there:
        reports = await asyncio.gather(*(there.engine.read_text(asked(f"Text {n}.")) for n in range(8)))
        with pytest.raises(SpeakerNotFound):
            await ask(RayLink(engines), "", "speakers", "export", "nobody", client=ANYBODY)
    assert [report.parts[0].spoken for report in reports] == [f"Text {n}." for n in range(8)]


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
            pair = (await first_byte_s(here), await first_byte_s(there.url))
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


async def test_an_engine_is_added_while_slots_are_in_use(store: str) -> None:
    if APP in serve.status().applications:
        serve.delete(APP)
    settings = Settings(
        ray={"engines": 1, "max_engines": 2, "cpus": 0.1},
        engine={"max_streams": 4},
        speakers={"store": store},
    )
    with cluster(settings, standin) as handle:
        link = RayLink(handle)
        began_s = time.monotonic()
        is_enough = False

        async def listen(speaker: str) -> None:
            while not is_enough:
                stream = link.stream(speaker, 0, "speak", asked("x" * 20, speaker=speaker), (), True)
                async with aclosing(stream) as items:
                    async for _ in items:
                        pass

        async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
            for number in range(4):
                tasks.create_task(listen(f"voice-{number}"))
            while len(await link.describe()) < 2:  # noqa: ASYNC110  of other processes there are no events
                await asyncio.sleep(0.5)
            is_enough = True
    logger.warning("a second engine after %.0f s of four streams of four", time.monotonic() - began_s)
