"""How soon a stream that its listener cancels has given its place back.

The listener's own measure: from sending `cancel` to reading `cancelled`, which the server writes once the
place is free. Several listeners at a time, so that it is told under load.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from firstword.bench.arguments import count
from firstword.bench.client import Ask, Client
from firstword.bench.estimates import Quantile, quantile
from firstword.bench.hearing import ServerAnswer
from firstword.bench.server import ServerDidNotStart, own_server
from firstword.bench.terminal import milliseconds, progress_of, show_line
from firstword.bench.texts import sentences

SHARES = (0.5, 0.95)
MAX_PAUSE_S = 0.3  # between a stream's first audio and its cancel


async def measure(url: str, num_cancels: int, at_a_time: int, seed: int = 0) -> tuple[Quantile, ...]:
    """-> seconds, at SHARES. Raises ServerAnswer where a stream fails before it is cancelled."""
    text = " ".join(sentences("en")[-8:])
    generator, times_s = random.Random(seed), list[float]()
    pauses_s = iter([generator.uniform(0, MAX_PAUSE_S) for _ in range(num_cancels)])
    async with Client(url) as client:
        with progress_of(num_cancels) as bar:
            bar.say("cancelling")

            async def cancel_again() -> None:
                for pause_s in pauses_s:
                    times_s.append(await _cancelled_s(client, Ask(text, "en", len(times_s), "ws"), pause_s))
                    bar.advance(1)

            await asyncio.gather(*(cancel_again() for _ in range(at_a_time)))
    found = [quantile(times_s, share) for share in SHARES]
    return tuple(one for one in found if one is not None)


async def _cancelled_s(client: Client, ask: Ask, pause_s: float) -> float:
    async with client.socket() as socket:
        await socket.send(client.start(ask, mode="segments"))
        await socket.send(json.dumps({"type": "text", "text": ask.text}))
        await socket.send(json.dumps({"type": "end"}))
        while not isinstance(message := await socket.recv(), bytes):
            _refuse_error(message)
        await asyncio.sleep(pause_s)
        began_s = time.perf_counter()
        await socket.send(json.dumps({"type": "cancel"}))
        async for message in socket:
            if isinstance(message, str) and json.loads(message)["type"] == "cancelled":
                return time.perf_counter() - began_s
            _refuse_error(message)
    raise ServerAnswer("closed", "the socket closed before it said cancelled")


def _refuse_error(message: str | bytes) -> None:
    if isinstance(message, str) and (said := json.loads(message))["type"] == "error":
        raise ServerAnswer(said["error"]["code"], said["error"]["message"])


def show_report(found: Sequence[Quantile]) -> None:
    show_line(f"cancel to slot free, ms, p50 / p95 of {found[0].num_values}: {milliseconds(found)}")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench cancels", description=__doc__)
    parser.add_argument("--cancels", type=count, default=60)
    parser.add_argument("--at-a-time", type=count, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    try:
        with own_server() as server:
            found = asyncio.run(measure(server.url, given.cancels, given.at_a_time))
    except (ServerDidNotStart, ServerAnswer, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_report(found)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")
    return 0
