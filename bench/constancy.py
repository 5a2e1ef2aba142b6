"""Whether a long stream gets slower: what a second of audio costs around second 60, over around second 2.

One WebSocket turn in one running utterance, all its text given at once, read as fast as it comes. Told twice:
by the time between two chunks at the listener, and by the seconds that the server's process computes for one,
which other work on the machine hardly touches. Of a server of our own on a CPU; memory is its process's.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from firstword.bench.arguments import count
from firstword.bench.client import Ask, Client
from firstword.bench.estimates import Interval, ratio_of_medians
from firstword.bench.server import OwnServer, ServerDidNotStart, cpu_s, footing, own_server
from firstword.bench.terminal import progress_of, show_line
from firstword.bench.texts import sentences

EARLY_S, LATE_S = (1.0, 4.0), (59.0, 62.0)  # of audio: where the chunks begin that are compared
LAST_S = 63.0
MEMORY_AT_S = (15.0, LAST_S)  # the first: its window is full. Looking holds up the reading for a moment
NUM_CHARACTERS = 2400  # more than is heard, so that tokens are made to the end


class TooShort(Exception):
    """The server ended the stream before it could be measured."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of audio came: when, what the server had computed by then, and the samples it holds."""

    at_s: float
    cpu_s: float
    num_samples: int


@dataclass(frozen=True, slots=True)
class Constancy:
    """Late over early. ratio: by the clock. cpu_ratio: by what was computed. grown_mb: one a stream."""

    ratio: Interval
    cpu_ratio: Interval
    grown_mb: tuple[float, ...]


async def measure(server: OwnServer, streams: int) -> Constancy:
    """Early and late chunks come in turn, so that a noisy machine hits both. Raises TooShort."""
    early: list[Mark] = []
    late: list[Mark] = []
    grown_mb: list[float] = []
    async with Client(server.url) as client:
        client.sample_rate_hz = (await client.get("/v1/capabilities")).json()["default_sample_rate"]
        with progress_of(streams * LAST_S) as bar:
            for seed in range(streams):
                bar.say(f"stream {seed + 1} of {streams}")
                memory_mb: dict[float, float] = {}
                marks = await _listen(client, server, seed, memory_mb)
                early += costs(marks, client.sample_rate_hz, *EARLY_S)
                late += costs(marks, client.sample_rate_hz, *LATE_S)
                grown_mb.append(memory_mb[MEMORY_AT_S[1]] - memory_mb[MEMORY_AT_S[0]])
                bar.advance(LAST_S)
    return Constancy(
        ratio_of_medians([one.at_s for one in early], [one.at_s for one in late]),
        ratio_of_medians([one.cpu_s for one in early], [one.cpu_s for one in late]),
        tuple(grown_mb),
    )


def costs(marks: Sequence[Mark], sample_rate_hz: int, first_s: float, last_s: float) -> list[Mark]:
    """What a second of audio took, of each piece that begins within [first_s, last_s) of audio."""
    found, start = [], 0
    for before, mark in pairwise([Mark(0, 0, 0), *marks]):
        if start and first_s <= start / sample_rate_hz < last_s:
            pace = sample_rate_hz / mark.num_samples
            took_s, computed_s = mark.at_s - before.at_s, mark.cpu_s - before.cpu_s
            found.append(Mark(pace * took_s, pace * computed_s, sample_rate_hz))
        start += mark.num_samples
    return found


async def _listen(client: Client, server: OwnServer, seed: int, memory_mb: dict[float, float]) -> list[Mark]:
    """-> its first LAST_S seconds; fills `memory_mb` at MEMORY_AT_S. Then the stream is left."""
    ask = Ask(_long_text(), "en", seed, "ws")
    marks: list[Mark] = []
    num_samples = 0
    async with client.socket() as socket:
        await socket.send(client.start(ask, mode="continuous"))
        await socket.send(json.dumps({"type": "text", "text": ask.text}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            if not isinstance(message, bytes):
                if (said := json.loads(message))["type"] in ("done", "error"):
                    raise TooShort(
                        f"the stream ended after {num_samples / client.sample_rate_hz:.1f} s: {said}"
                    )
                continue
            marks.append(Mark(time.perf_counter(), cpu_s(server), len(message) // 2))
            num_samples += len(message) // 2
            audio_s = num_samples / client.sample_rate_hz
            for at_s in MEMORY_AT_S:
                if audio_s >= at_s and at_s not in memory_mb:
                    memory_mb[at_s] = await asyncio.to_thread(lambda: footing(server).memory_mb)
            if audio_s >= LAST_S:
                return marks
    raise TooShort("the socket closed")


def _long_text() -> str:
    text = ""
    for sentence in sentences("en")[40:] * 2:
        text += f"{sentence} "
        if len(text) > NUM_CHARACTERS:
            break
    return text


def show_report(found: Constancy) -> None:
    show_line(f"a second of audio at second 60 ÷ at second 2, by the clock: {found.ratio}")
    show_line(f"the same by what the server computed: {found.cpu_ratio}")
    grown = ", ".join(f"{value:.1f}" for value in found.grown_mb)
    show_line(f"the server's memory from second 15 to its end, MB a stream: {grown}")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench constancy", description=__doc__)
    parser.add_argument("--streams", type=count, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    try:
        with own_server() as server:
            found = asyncio.run(measure(server, given.streams))
    except (ServerDidNotStart, TooShort, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_report(found)
    if given.json:
        given.json.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 0
