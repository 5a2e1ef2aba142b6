"""Processes of Ray that stand still (SIGSTOP) under streams of listeners."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from glob import glob
from pathlib import Path

import httpx

from tests.chaos.cluster import Heard, listen, until


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # Ray ended it
            os.kill(pid, signal.SIGCONT)


def processes_of(name: str) -> list[int]:
    """Those below this process whose command has the name."""
    found = [os.getpid()]
    for pid in found:
        for children in glob(f"/proc/{pid}/task/*/children"):
            found += map(int, _told(children).split())
    return [pid for pid in found if name in _told(f"/proc/{pid}/cmdline")]


def stands_still(pid: int) -> bool:
    return ") T " in _told(f"/proc/{pid}/stat")


def _told(path: str) -> str:
    """What the system tells of a process or a thread: nothing where it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(path).read_text()
    return ""


@asynccontextmanager
async def under_streams(url: str, names: Sequence[str], length: int) -> AsyncIterator[list[Heard]]:
    """Streams of so many pieces that have begun; what they hear is whole at the end."""
    heard = [Heard() for _ in names]
    async with httpx.AsyncClient(base_url=url, timeout=90) as client, asyncio.TaskGroup() as tasks:
        for name, one in zip(names, heard, strict=True):
            tasks.create_task(listen(client, "x" * length, name, one))
        await until(lambda: all(one.num_bytes for one in heard))
        yield heard


async def heard_new(url: str, name: str) -> tuple[Heard, float]:
    """What is heard of a new stream, and how long it took."""
    began_s = time.monotonic()
    async with httpx.AsyncClient(base_url=url, timeout=90) as client:
        return await listen(client, "xx", name, Heard()), time.monotonic() - began_s


async def whole_after_s(url: str, name: str) -> float:
    """Of a new stream, which must be whole."""
    heard, seconds = await heard_new(url, name)
    assert heard.is_whole, heard
    return seconds
