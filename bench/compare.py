"""Two settings, two checkouts or two commands against each other, in turn: a noisy machine hits both alike.

    python -m bench compare "FIRSTWORD_NUM_WORKERS=1" "FIRSTWORD_NUM_WORKERS=2"
    python -m bench compare ../before . --pairs 40 --starts 30
    python -m bench compare http://127.0.0.1:8001 http://127.0.0.1:8002
    python -m bench compare "cd old && make speak" "cd new && make speak" --value "RTF ([0-9.]+)"

Settings, checkouts, or a checkout with settings behind it: two servers are started in turn `--starts`
times, for the seconds until they listen and their memory then; then two stand side by side, each text is
asked of one and then of the other, one request at a time, over HTTP and over WebSocket, which tells the
compute RTF, and their memory is told again. Addresses: the same of two servers that run already, speech
only. Commands: what they take, or the number in what they print that --value finds. Result: the median of B
over A with its bootstrap interval; under 1 is B the quicker. The same on both sides says how far the
machine can be trusted.
"""

import argparse
import asyncio
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from firstword.app.settings import PREFIX
from firstword.bench.arguments import count
from firstword.bench.client import Ask, Client, Outcome, Protocol
from firstword.bench.estimates import ratio_of_pairs
from firstword.bench.hearing import ServerAnswer
from firstword.bench.server import OwnServer, ServerDidNotStart, footing, own_server
from firstword.bench.terminal import progress_of, show_line
from firstword.bench.texts import spoken_in

PROTOCOLS: tuple[Protocol, ...] = ("http", "ws")
_ADDRESS = ("http://", "https://")
_SETTING = re.compile(rf"{PREFIX}(\w+)=(.*)")
Pairs = list[tuple[float, float]]
Figure = TypeVar("Figure")


class CannotCompare(Exception):
    """The arguments are neither two settings nor two commands that print a number."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A server to start. checkout: the folder whose `firstword` it runs; None: this one."""

    settings: dict[str, str]
    checkout: Path | None = None

    def start(self) -> AbstractContextManager[OwnServer]:
        return own_server(self.settings, self.checkout)


def subject_of(words: str) -> Subject | None:
    """Read "FOLDER FIRSTWORD_A=1 FIRSTWORD_B=x", where either part may be left out; None: a command."""
    given = shlex.split(words)
    checkout = Path(given[0]) if given and (Path(given[0]) / "firstword").is_dir() else None
    found = [_SETTING.fullmatch(word) for word in given[checkout is not None :]]
    if not all(found):
        return None
    return Subject({match[1].lower(): match[2] for match in found if match is not None}, checkout)


def in_turn(a: Callable[[], Figure], b: Callable[[], Figure], num_pairs: int) -> list[tuple[Figure, Figure]]:
    """Call both in pairs: A B, B A, A B …, so that a drift favors neither."""
    pairs: list[tuple[Figure, Figure]] = []
    with progress_of(num_pairs) as bar:
        for number in range(num_pairs):
            bar.say(f"pair {number + 1} of {num_pairs}")
            if number % 2:
                second = b()
                pairs.append((a(), second))
            else:
                pairs.append((a(), b()))
            bar.advance(1)
    return pairs


def compare_commands(a: str, b: str, num_pairs: int, value: str | None) -> dict[str, Pairs]:
    """Run two commands in turn. Raises CannotCompare if one fails or prints no such number."""
    name = "seconds" if value is None else value
    return {name: in_turn(lambda: _figure(a, value), lambda: _figure(b, value), num_pairs)}


def compare_starts(a: Subject, b: Subject, num_pairs: int) -> dict[str, Pairs]:
    """Start two servers in turn. Raises ServerDidNotStart, and OSError off Linux."""

    def started(subject: Subject) -> tuple[float, float]:
        with subject.start() as server:
            return server.start_s, footing(server).memory_mb

    pairs = in_turn(lambda: started(a), lambda: started(b), num_pairs)
    return {
        "start-up": [(one[0], other[0]) for one, other in pairs],
        "memory after it": [(one[1], other[1]) for one, other in pairs],
    }


def compare_subjects(a: Subject, b: Subject, num_pairs: int, num_starts: int) -> dict[str, Pairs]:
    """Compare starts and speech. Raises CannotCompare and ServerDidNotStart, and OSError off Linux."""
    figures = compare_starts(a, b, num_starts)
    with a.start() as first, b.start() as second:
        figures |= asyncio.run(compare_servers((first.url, second.url), num_pairs))
        figures["memory after all"] = [(footing(first).memory_mb, footing(second).memory_mb)]
    return figures


async def compare_servers(urls: tuple[str, str], num_pairs: int) -> dict[str, Pairs]:
    """Ask two running servers for each text in turn. Raises CannotCompare if one does not speak."""
    figures: dict[str, Pairs] = {"first byte": [], "first sound": [], "all of it": [], "compute RTF": []}
    async with Client(urls[0]) as a, Client(urls[1]) as b:
        texts = spoken_in(tuple((await a.get("/v1/capabilities")).json()["languages"]))
        with progress_of(num_pairs + 1) as bar:
            for number in range(-1, num_pairs):  # the first pair warms up
                language, text = texts[number % len(texts)]
                clients = (b, a) if number % 2 else (a, b)
                for protocol in PROTOCOLS:
                    ask = Ask(text, language, number + 1, protocol)
                    spoken = [await client.speak(ask) for client in clients]
                    if number >= 0:
                        _note(figures, spoken[::-1] if number % 2 else spoken)
                bar.advance(1)
    return figures


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    a, b = subject_of(given.a), subject_of(given.b)
    try:
        if a is not None and b is not None:
            figures = compare_subjects(a, b, given.pairs, given.starts)
        elif given.a.startswith(_ADDRESS) and given.b.startswith(_ADDRESS):
            figures = asyncio.run(compare_servers((given.a, given.b), given.pairs))
        elif a is None and b is None:
            figures = compare_commands(given.a, given.b, given.pairs, given.value)
        else:
            raise CannotCompare(
                f"settings against a command: give two {PREFIX}NAME=value lists, checkouts, addresses or "
                "commands"
            )
    except (CannotCompare, ServerDidNotStart, ServerAnswer, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for name, pairs in figures.items():
        show_line(f"{name}: B ÷ A {ratio_of_pairs(pairs)}")
    return 0


def _figure(command: str, value: str | None) -> float:
    began_s = time.perf_counter()
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    took_s = time.perf_counter() - began_s
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it wrote nothing"]
        raise CannotCompare(f"{command!r} ended with {done.returncode}: {last[0]}")
    if value is None:
        return took_s
    found = re.search(value, done.stdout)
    if found is None:
        raise CannotCompare(
            f"{command!r} printed nothing that {value!r} finds; expected a pattern with a group"
        )
    return float(found[1])


def _note(figures: dict[str, Pairs], spoken: Sequence[Outcome]) -> None:
    first, second = (outcome.heard for outcome in spoken)
    if first is None or second is None or first.ttfa_s is None or second.ttfa_s is None:
        why = "; ".join(outcome.why for outcome in spoken if outcome.why)
        raise CannotCompare(f"a server did not speak: {why}")
    if spoken[0].ask.protocol == "ws":
        a, b = (outcome.compute_rtf for outcome in spoken)
        if a is not None and b is not None:
            figures["compute RTF"].append((a, b))
        return
    figures["first byte"].append((first.ttfb_s, second.ttfb_s))
    figures["first sound"].append((first.ttfa_s, second.ttfa_s))
    figures["all of it"].append((first.total_s / first.audio_s, second.total_s / second.audio_s))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "a", metavar="A", help="settings such as FIRSTWORD_NUM_THREADS=1, a checkout, an address or a command"
    )
    parser.add_argument("b", metavar="B")
    parser.add_argument("--pairs", type=count, default=10)
    parser.add_argument("--starts", type=count, default=5, help="pairs of starts")
    parser.add_argument("--value", help="regular expression whose group is the number that a command prints")
    return parser
