"""Speaks short streams without end, some cancelled, some read slowly, and tells what they leave behind.

Memory, threads, file handles, tasks and places of a server of our own, at the start, on the way and at the
end, each time when nothing is spoken. Linux only: they are read from /proc.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

import httpx
from rich.table import Table
from websockets.exceptions import WebSocketException

from firstword.bench.arguments import count
from firstword.bench.client import Ask, Client
from firstword.bench.server import Footing, OwnServer, ServerDidNotStart, footing, own_server
from firstword.bench.terminal import progress_of, show, show_line

Way = Literal["heard", "socket", "cancelled", "left", "slow"]
WAYS: dict[Way, int] = {"heard": 25, "socket": 15, "cancelled": 25, "left": 25, "slow": 10}  # per cent
TEXTS = ("Yes.", "No.", "Hello.", "Thank you.", "One moment.", "I see.")
SETTLES_WITHIN_S = 30.0
MARKS = (0.1, 0.25, 0.5, 0.75, 1.0)  # of all streams: when a reading is taken; the first is the reference
SLACK = {"threads": 4, "file_handles": 4, "tasks": 0, "requests": 0, "sockets": 0, "contexts": 0}
"""How many more than before are none that were left behind: worker threads come as they are needed."""
SLOW_PAUSE_S, SLOW_BYTES, SLOW_BUFFER_BYTES = 0.03, 4096, 4096


@dataclass(frozen=True, slots=True)
class Reading:
    num_streams: int  # that had ended
    footing: Footing


@dataclass(frozen=True, slots=True)
class Soak:
    """The result of a soak. ways: how many streams went which way. faults: what went wrong, and how often."""

    readings: tuple[Reading, ...]
    ways: dict[str, int]
    faults: dict[str, int]
    seconds: float

    @property
    def memory_ratio(self) -> float:
        """Memory after all streams over memory after the first tenth."""
        return self.readings[-1].footing.memory_mb / self.readings[1].footing.memory_mb

    @property
    def leaks(self) -> list[str]:
        """Names of resources that grew between the first tenth and the end."""
        first, last = self.readings[1].footing, self.readings[-1].footing
        grown = [(name, getattr(first, name), getattr(last, name), slack) for name, slack in SLACK.items()]
        return [
            f"{name}: {before}, then {after}"
            for name, before, after, slack in grown
            if after > before + slack
        ]


async def measure(server: OwnServer, num_streams: int, at_a_time: int, seed: int = 0) -> Soak:
    began_s, generator = time.perf_counter(), random.Random(seed)
    ways = generator.choices(list(WAYS), weights=list(WAYS.values()), k=num_streams)
    faults: Counter[str] = Counter()
    readings = [Reading(0, await _settled(server))]
    with progress_of(num_streams) as bar:
        for mark in MARKS:
            stop = round(mark * num_streams)
            bar.say(f"streams up to {stop} of {num_streams}")
            part = ways[readings[-1].num_streams : stop]
            faults += await _streams(server.url, part, at_a_time, generator)
            bar.advance(len(part))
            readings.append(Reading(stop, await _settled(server)))
    return Soak(tuple(readings), dict(Counter(ways)), dict(faults), time.perf_counter() - began_s)


async def _streams(url: str, ways: Sequence[Way], at_a_time: int, generator: random.Random) -> Counter[str]:
    """Run streams until every connection is closed. Return what went wrong, and how often."""
    faults: Counter[str] = Counter()
    coming = iter([(way, generator.choice(TEXTS), generator.random()) for way in ways])

    async def work(client: Client) -> None:
        for seed, (way, text, chance) in enumerate(coming):
            try:
                why = await _stream(client, way, Ask(text, "en", seed), chance)
            except (httpx.HTTPError, WebSocketException, OSError) as error:
                why = f"{type(error).__name__} {error}"
            if why:
                faults[f"{way}: {why}"] += 1

    async with Client(url) as client, asyncio.TaskGroup() as tasks:
        for _ in range(at_a_time):
            tasks.create_task(work(client))
    return faults


async def _stream(client: Client, way: Way, ask: Ask, chance: float) -> str:
    """Run one stream; return its fault or "". chance: in [0, 1), how late it is cancelled or left."""
    match way:
        case "heard":
            return (await client.speak(ask)).why
        case "socket":
            return (await client.speak(replace(ask, protocol="ws"))).why
        case "cancelled":
            await _cancel(client, ask, chance)
        case "left":
            await _leave(client.url, ask, chance)
        case "slow":
            await _read_slowly(client.url, ask)
    return ""


async def _cancel(client: Client, ask: Ask, chance: float) -> None:
    async with client.socket() as connection:
        await connection.send(client.start(ask))
        await connection.send(json.dumps({"type": "text", "text": ask.text}))
        await connection.send(json.dumps({"type": "end"}))
        await asyncio.sleep(chance / 2)
        await connection.send(json.dumps({"type": "cancel"}))
        async for message in connection:  # an error: it was done before it was cancelled
            if isinstance(message, str) and json.loads(message)["type"] in ("cancelled", "done", "error"):
                return


async def _leave(url: str, ask: Ask, chance: float) -> None:
    """Close the connection without a word, before the first audio or behind it."""
    body = {"text": ask.text, "format": "pcm", "seed": ask.seed}
    try:
        async with asyncio.timeout(chance / 2 + 0.01), httpx.AsyncClient(base_url=url) as http:
            await http.post("/tts", json=body)
    except TimeoutError:
        pass  # it has left


async def _read_slowly(url: str, ask: Ask) -> None:
    """Read more than the system buffers, by a small socket buffer, so that the server has to wait."""
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)]
    transport = httpx.AsyncHTTPTransport(socket_options=options)
    body = {"text": f"{ask.text} {ask.text}", "format": "pcm", "sample_rate": 48_000, "speed": 0.5}
    async with (
        httpx.AsyncClient(base_url=url, transport=transport, timeout=SETTLES_WITHIN_S) as http,
        http.stream("POST", "/tts", json=body) as response,
    ):
        async for _ in response.aiter_raw(SLOW_BYTES):
            await asyncio.sleep(SLOW_PAUSE_S)


async def _settled(server: OwnServer) -> Footing:
    """Read the resources once no stream and no connection is left, or when that takes too long."""
    stop_s = time.perf_counter() + SETTLES_WITHIN_S
    while True:
        found = await asyncio.to_thread(footing, server)
        if not (found.requests or found.sockets or found.contexts) or time.perf_counter() > stop_s:
            await asyncio.sleep(1)  # sockets that were closed leave their last tasks and handles
            return await asyncio.to_thread(footing, server)
        await asyncio.sleep(0.2)


def show_report(found: Soak) -> None:
    table = Table(title="the server when nothing is spoken", title_justify="left", box=None, pad_edge=False)
    names = [field.name for field in fields(Footing)]
    for name in ("streams", *(name.replace("_", " ") for name in names)):
        table.add_column(name, justify="right")
    for reading in found.readings:
        values = [getattr(reading.footing, name) for name in names]
        table.add_row(str(reading.num_streams), *(f"{value:.4g}" for value in values))
    ways = ", ".join(f"{times} {way}" for way, times in sorted(found.ways.items()))
    show(table, f"{found.seconds:.0f} s: {ways}; memory at the end ÷ after a tenth: {found.memory_ratio:.3f}")
    for line in (*found.leaks, *(f"FAILED {times} times: {why}" for why, times in found.faults.items())):
        show_line(line)


def as_json(found: Soak) -> dict[str, object]:
    return asdict(found) | {"memory_ratio": found.memory_ratio, "leaks": found.leaks}


def main(words: Sequence[str]) -> int:
    """-> 1 where something is left behind, or a stream that was heard to its end was not sound."""
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--streams", type=count, default=1000)
    parser.add_argument("--at-a-time", type=count, default=4)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    try:
        with own_server() as server:
            found = asyncio.run(measure(server, given.streams, given.at_a_time))
    except (ServerDidNotStart, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_report(found)
    if given.json:
        given.json.write_text(json.dumps(as_json(found), indent=1) + "\n", encoding="utf-8")
    return 1 if found.leaks or found.faults else 0
