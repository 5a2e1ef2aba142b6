"""Whether a long stream gets slower: chunks around second 60 against those around second 2, at the listener.

One WebSocket turn in one running utterance, all its text given at once, read as fast as it comes: so the
time between two chunks is what the service needs for one. Memory is that of the server's process.
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

from bench.arguments import count
from bench.client import Ask, Client
from bench.estimates import Interval, ratio_of_medians
from bench.hearing import Piece
from bench.server import OwnServer, ServerDidNotStart, footing, own_server
from bench.terminal import progress_of, show_line
from bench.texts import sentences

EARLY_S, LATE_S = (1.0, 4.0), (59.0, 62.0)  # of audio: where the chunks begin that are compared
LAST_S = 63.0
MEMORY_AT_S = (15.0, 60.0)  # the first: its window is full
NUM_CHARACTERS = 2400  # more than is heard, so that tokens are made to the end


class TooShort(Exception):
    """The server ended the stream before it could be measured."""


@dataclass(frozen=True, slots=True)
class Constancy:
    """ratio: seconds for a second of audio, late over early. grown_mb: the server's memory, one a stream."""

    ratio: Interval
    early_s: tuple[float, ...]
    late_s: tuple[float, ...]
    grown_mb: tuple[float, ...]


async def measure(server: OwnServer, streams: int) -> Constancy:
    """Early and late chunks come in turn, so that a noisy machine hits both. Raises TooShort."""
    early_s: list[float] = []
    late_s: list[float] = []
    grown_mb: list[float] = []
    async with Client(server.url) as client:
        client.sample_rate_hz = (await client.get("/v1/capabilities")).json()["default_sample_rate"]
        with progress_of(streams * LAST_S) as bar:
            for seed in range(streams):
                bar.say(f"stream {seed + 1} of {streams}")
                memory_mb: dict[float, float] = {}
                pieces = await _listen(client, server, seed, memory_mb)
                early_s += costs(pieces, client.sample_rate_hz, *EARLY_S)
                late_s += costs(pieces, client.sample_rate_hz, *LATE_S)
                grown_mb.append(memory_mb[MEMORY_AT_S[1]] - memory_mb[MEMORY_AT_S[0]])
                bar.advance(LAST_S)
    ratio = ratio_of_medians(early_s, late_s)
    return Constancy(ratio, tuple(early_s), tuple(late_s), tuple(grown_mb))


def costs(pieces: Sequence[Piece], sample_rate_hz: int, first_s: float, last_s: float) -> list[float]:
    """Seconds that a second of audio took, of each piece that begins within [first_s, last_s) of audio."""
    found, start = [], 0
    for before, piece in pairwise([Piece(0.0, b""), *pieces]):
        num_samples = len(piece.data) // 2
        if start and first_s <= start / sample_rate_hz < last_s:
            found.append((piece.at_s - before.at_s) * sample_rate_hz / num_samples)
        start += num_samples
    return found


async def _listen(client: Client, server: OwnServer, seed: int, memory_mb: dict[float, float]) -> list[Piece]:
    """-> its first LAST_S seconds; fills `memory_mb` at MEMORY_AT_S. Then the stream is left."""
    ask = Ask(_long_text(), "en", seed, "ws")
    pieces: list[Piece] = []
    num_bytes = 0
    async with client.socket() as socket:
        await socket.send(client.start(ask, mode="continuous"))
        await socket.send(json.dumps({"type": "text", "text": ask.text}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            if not isinstance(message, bytes):
                if (said := json.loads(message))["type"] in ("done", "error"):
                    raise TooShort(
                        f"the stream ended after {num_bytes / 2 / client.sample_rate_hz:.1f} s: {said}"
                    )
                continue
            pieces.append(Piece(time.perf_counter(), message))
            num_bytes += len(message)
            audio_s = num_bytes / 2 / client.sample_rate_hz
            for at_s in MEMORY_AT_S:
                if audio_s >= at_s and at_s not in memory_mb:
                    memory_mb[at_s] = await asyncio.to_thread(lambda: footing(server).memory_mb)
            if audio_s >= LAST_S:
                return pieces
    raise TooShort("the socket closed")


def _long_text() -> str:
    text = ""
    for sentence in sentences("en")[40:] * 2:
        text += f"{sentence} "
        if len(text) > NUM_CHARACTERS:
            break
    return text


def show_report(found: Constancy) -> None:
    show_line(f"a second of audio at second 60 ÷ at second 2: {found.ratio}")
    grown = ", ".join(f"{value:.1f}" for value in found.grown_mb)
    show_line(f"the server's memory from second 15 to second 60, MB a stream: {grown}")


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
