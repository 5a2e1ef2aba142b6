"""Servers behind Ray's own proxy, where one of them or the proxy stands still (SIGSTOP)."""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")
import ray
from ray import serve

from firstword.app.hosts.ray.serving import application
from firstword.app.settings import Settings
from tests.chaos.cluster import free_port
from tests.cluster.deaths import ENGINES
from tests.cluster.pauses import heard_new, paused, processes_of, under_streams
from tests.cluster.standin import standin

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)

PAUSE_S = 3.0
PARTS = {"a server": ":ingress", "the proxy": "ray::ProxyActor"}
GIVEN_UP_S = 90.0
SETTLED_S = 5.0  # behind which no new stream fails
CHECKED = {"PERIOD": "1", "TIMEOUT": "5"}  # the proxy by Ray: 10 and 10 s unless it is told


@pytest.fixture(scope="module")
def url(store: str) -> Iterator[str]:
    """The address of Ray's proxy, before two servers and two stand-in engines."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CHECKED.items():
            patch.setenv(f"RAY_SERVE_PROXY_HEALTH_CHECK_{name}_S", value)
        ray.init(include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    port = free_port()
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        settings = Settings(ray={**ENGINES, "ingresses": 2}, speakers={"store": store})
        serve.run(application(settings, standin), name="served", route_prefix="/")
        yield f"http://127.0.0.1:{port}"
        serve.shutdown()
    finally:
        ray.shutdown()


@pytest.mark.parametrize("part", PARTS)
async def test_streams_go_on_when_a_part_before_them_does(url: str, part: str) -> None:
    async with asyncio.TaskGroup() as tasks, under_streams(url, ["hum"] * 6, 80) as heard:
        with paused(processes_of(PARTS[part])[0]):
            new = [tasks.create_task(heard_new(url, "hum")) for _ in range(6)]
            await asyncio.sleep(PAUSE_S)
    logger.warning(
        "%s paused for %g s: gaps of %s s, new ones whole after %s s",
        *(part, PAUSE_S, [one.longest_gap_s for one in heard], sorted(one.result()[1] for one in new)),
    )
    assert all(one.is_whole for one in heard)
    assert all(one.result()[0].is_whole for one in new)
    assert max(one.longest_gap_s for one in heard) >= PAUSE_S - 0.5


@dataclass
class New:
    """New streams, one begun every half second."""

    began_s: float = field(default_factory=time.monotonic)
    whole_s: list[float] = field(default_factory=list)  # of each that was whole
    failed_s: list[float] = field(default_factory=list)  # when one had failed
    is_over: bool = False

    async def listen(self, url: str) -> None:
        async with asyncio.TaskGroup() as tasks:
            while not self.is_over:
                tasks.create_task(self._listen(url))
                await asyncio.sleep(0.5)

    async def _listen(self, url: str) -> None:
        heard, seconds = await heard_new(url, "hum")
        if heard.is_whole:
            self.whole_s.append(seconds)
        else:
            self.failed_s.append(time.monotonic() - self.began_s)


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_before_the_streams_that_stands_still_is_replaced(url: str, part: str) -> None:
    (victim, *_) = processes_of(PARTS[part])
    async with asyncio.TaskGroup() as tasks, under_streams(url, ["hum"] * 6, 300) as heard:
        with paused(victim):
            new = New()
            tasks.create_task(new.listen(url))
            while victim in processes_of(PARTS[part]):
                assert time.monotonic() - new.began_s < GIVEN_UP_S
                await asyncio.sleep(0.1)
            ended_s = time.monotonic() - new.began_s
            while not (await heard_new(url, "hum"))[0].is_whole:
                assert time.monotonic() - new.began_s < GIVEN_UP_S
            back_s = time.monotonic() - new.began_s
            await asyncio.sleep(SETTLED_S)
            new.is_over = True
    logger.warning(
        "%s stood still: ended after %.1f s, back after %.1f s; streams whole: %s, ended after %s s; "
        "of new ones %d whole, %d after a second and more, at most %.1f s; %d failed, the last at %.1f s",
        *(part, ended_s, back_s, [one.is_whole for one in heard]),
        [round(one.ended_at - new.began_s, 1) for one in heard],
        *(len(new.whole_s), sum(one > 1 for one in new.whole_s), max(new.whole_s)),
        *(len(new.failed_s), max(new.failed_s, default=0)),
    )
    assert not all(one.is_whole for one in heard)
    if part == "a server":
        assert not new.failed_s
    assert max(new.failed_s, default=0) < back_s + SETTLED_S
