"""Parts of Ray Serve that stand still (SIGSTOP): what a listener notices, and when all is back."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.cluster import Heard, listen, until

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")

from tests.cluster.deaths import Front, front, held, two_engines

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cluster,
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
logger = logging.getLogger(__name__)

PAUSE_S = 3.0
PARTS = {"controller": "ray::ServeController", "GCS": "gcs_server", "raylet": "/raylet/raylet"}


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # Ray ended it
            os.kill(pid, signal.SIGCONT)


def process_of(name: str) -> int:
    """The one below this process whose command has the name."""
    found = [os.getpid()]
    for pid in found:
        for children in glob(f"/proc/{pid}/task/*/children"):
            found += map(int, told(children).split())
    (only,) = [pid for pid in found if name in told(f"/proc/{pid}/cmdline")]
    return only


def told(path: str) -> str:
    """What the system tells of a process or a thread: nothing where it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(path).read_text()
    return ""


@asynccontextmanager
async def under_streams(there: Front, names: list[str], length: int) -> AsyncIterator[list[Heard]]:
    """Streams of so many pieces that have begun; what they hear is whole at the end."""
    heard = [Heard() for _ in names]
    async with httpx.AsyncClient(base_url=there.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for name, one in zip(names, heard, strict=True):
            tasks.create_task(listen(client, "x" * length, name, one))
        await until(lambda: all(one.num_bytes for one in heard))
        yield heard


async def first_s(there: Front, name: str) -> float:
    """To the first byte of a new stream."""
    began_s = time.monotonic()
    async with httpx.AsyncClient(base_url=there.url, timeout=60) as client:
        assert (await listen(client, "xx", name, Heard())).is_whole
    return time.monotonic() - began_s


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_of_ray_that_stands_still_stops_no_stream(engines: Any, store: str, part: str) -> None:
    async with front(engines, store) as there:
        own, others = (await two_engines(engines)).values()
        await first_s(there, own[0])
        before = await held(engines, there.engine)
        async with under_streams(there, [own[0], others[0]], 60) as heard:
            with paused(process_of(PARTS[part])):
                paused_at = time.monotonic()
                new_s = [await first_s(there, name) for name in (own[1], others[1])]
                await asyncio.sleep(paused_at + PAUSE_S - time.monotonic())
                status = there.engine.status
        assert all(one.is_whole for one in heard)
        after = await held(engines, there.engine)
    gaps_s = [one.longest_gap_s for one in heard]
    logger.warning("%s paused: %s, new ones after %s s, gaps of %s s", part, status, new_s, gaps_s)
    assert (after.streams, after.slots, after.tasks) == (before.streams, before.slots, before.tasks)
