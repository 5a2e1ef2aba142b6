"""A network between two nodes of Ray that is slow or cut: what a listener notices, and when all is back."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")
import ray
from ray import serve

from firstword.app.hosts.ray.serving import cluster
from firstword.app.postgresql import migrate
from firstword.app.settings import Settings
from tests.chaos.cluster import until
from tests.cluster.deaths import front, two_engines
from tests.cluster.network import HERE, THERE, Cable, may_have_networks, two_networks
from tests.cluster.pauses import under_streams, whole_after_s
from tests.cluster.standin import standin
from tests.support.postgres import postgres_server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.chaos,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)

RAY = Path(sys.executable).parent / "ray"
PORT = 6379
SLOW_S = 0.1  # one way
CUT_S = 3.0
GIVEN_UP_S = 90.0


@contextmanager
def node(*options: str, within: tuple[str, ...] = ()) -> Iterator["subprocess.Popen[bytes]"]:
    """A node of Ray with room for one engine. Raises RuntimeError where none has started."""
    sizes = ("--num-cpus=1", "--object-store-memory=100000000", "--block", "--disable-usage-stats")
    for _ in range(3):  # Ray gives up a start after 30 s, which a busy machine may take
        process = subprocess.Popen([*within, RAY, "start", *options, *sizes], stdout=subprocess.PIPE)
        assert process.stdout is not None
        if any(b"Ray runtime started" in line for line in process.stdout):
            break
        process.stdout.close()
        process.wait()
    else:
        raise RuntimeError(f"`ray start` failed three times, at last with {process.returncode}")
    try:
        yield process
    finally:
        process.terminate()
        process.stdout.close()
        process.wait()


@dataclass(frozen=True)
class Far:
    """Engines here and behind the cable."""

    handle: Any
    store: str
    cable: Cable
    node: "subprocess.Popen[bytes]"  # behind the cable
    begin_node: Callable[[], "subprocess.Popen[bytes]"]  # another there

    async def own_and_others(self) -> tuple[list[str], list[str]]:
        """The speakers of the engine that is far, and of the one here."""
        pids = await two_engines(self.handle)
        far = {pid for pid in pids if os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")}
        assert len(far) == 1, pids
        (own,) = [names for pid, names in pids.items() if pid in far]
        (others,) = [names for pid, names in pids.items() if pid not in far]
        return own, others


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    if not may_have_networks():
        pytest.skip("needs iproute2, and root that may make networks")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        cable, there = stack.enter_context(two_networks())
        server = stack.enter_context(postgres_server())
        store = server.new_database()
        migrate(store)
        head = ("--head", f"--node-ip-address={HERE}", f"--port={PORT}", "--include-dashboard=false")
        # Of its own, or a later `ray.init` would take this cluster for the machine's.
        folder = stack.enter_context(TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
        stack.enter_context(node(*head, f"--temp-dir={folder}"))
        patch.setenv("RAY_ADDRESS", f"{HERE}:{PORT}")
        within = ("ip", "netns", "exec", there)

        def begin_node() -> "subprocess.Popen[bytes]":
            options = (f"--address={HERE}:{PORT}", f"--node-ip-address={THERE}")
            return stack.enter_context(node(*options, within=within))

        process = begin_node()
        ray.init(log_to_driver=False)
        stack.callback(ray.shutdown)
        settings = Settings(ray={"engines": 2, "cpus": 0.6}, speakers={"store": store})
        handle = stack.enter_context(cluster(settings, standin))
        stack.callback(serve.shutdown)
        yield Far(handle, store, cable, process, begin_node)


async def test_a_slow_network_delays_speech(far: Far) -> None:
    async with front(far.handle, far.store) as there:
        own, others = await far.own_and_others()
        before_s = min([await whole_after_s(there.url, own[0]) for _ in range(3)])
        async with under_streams(there.url, [own[0], others[0]], 60) as heard:
            with far.cable.delaying(SLOW_S):
                new_s = [await whole_after_s(there.url, name) for name in (own[1], own[1], others[1])]
    logger.warning(
        "a packet takes %g s: new ones after %s s (%.2f before), gaps of %s s",
        *(SLOW_S, new_s, before_s, [one.longest_gap_s for one in heard]),
    )
    assert all(one.is_whole for one in heard)
    assert max(new_s[:2]) > before_s + SLOW_S


async def test_streams_go_on_when_a_network_was_cut_for_seconds(far: Far) -> None:
    async with front(far.handle, far.store) as there:
        own, others = await far.own_and_others()
        async with under_streams(there.url, [own[0], others[0]], 100) as heard:
            with far.cable.delaying(None):
                cut_at = time.monotonic()
                new_s = await whole_after_s(there.url, others[1])
                await asyncio.sleep(cut_at + CUT_S - time.monotonic())
            back_s = await whole_after_s(there.url, own[1])
    logger.warning(
        "cut for %g s: a new one here after %.1f s, far off %.1f s after its return, gaps of %s s",
        *(CUT_S, new_s, back_s, [one.longest_gap_s for one in heard]),
    )
    assert all(one.is_whole for one in heard)
    assert heard[0].longest_gap_s >= CUT_S - 0.5


async def test_an_engine_that_is_cut_off_is_given_up(far: Far) -> None:
    async with front(far.handle, far.store) as there:
        own, others = await far.own_and_others()
        new_s = []
        async with under_streams(there.url, [own[0], own[1], others[0]], 600) as heard:
            far.cable.delay_s = None
            cut_at = time.monotonic()
            while not all(one.ended_at for one in heard[:2]) or len(new_s) < 2:
                assert time.monotonic() - cut_at < GIVEN_UP_S
                new_s.append(await whole_after_s(there.url, own[2]))
            while all(one["Alive"] for one in ray.nodes()):
                new_s.append(await whole_after_s(there.url, own[2]))
            dead_s = time.monotonic() - cut_at
        new_s.append(await whole_after_s(there.url, own[2]))
        far.cable.delay_s = 0.0
        returned_at = time.monotonic()
        await until(lambda: far.node.poll() is not None, GIVEN_UP_S)
        left_s = time.monotonic() - returned_at
        far.begin_node()
        await far.own_and_others()
        back_s = time.monotonic() - returned_at - left_s
    logger.warning(
        "cut off: streams ended after %s s, new ones whole after %.1f, then at most %.1f s, its node dead "
        "for Ray after %.1f s; it ended itself %.1f s after the return, the next had its engine %.1f s later",
        *([one.ended_at - cut_at for one in heard[:2]], new_s[0], max(new_s[1:]), dead_s, left_s, back_s),
    )
    assert [one.is_whole for one in heard] == [False, False, True]
    assert max(new_s[1:]) < 2
