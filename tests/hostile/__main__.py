"""Attack a server over fakes, one attack after the other, and print what it noticed of each.

    python -m tests.hostile [--seconds 10] [ATTACK ...]

The server and the attacker are processes of their own, on a core each where there are two. Meanwhile texts
are spoken one after the other; the longest wait for a chunk is the gap.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx

from tests.hostile.attacks import ATTACKS, Target

MAX_LAG_S = 0.1  # of the server's loop, 99th percentile
MAX_GROWN_MB = 50.0
MAX_GAP_S = 0.5  # between two chunks of a stream that is made faster than it plays
TEXT = "A sentence that is spoken while somebody else does what he can. " * 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack did: the server's own lag and memory, and the gap of a stream beside it."""

    attack: str
    lag_p99_s: float
    lag_max_s: float
    grown_mb: float
    gap_s: float
    answers: int

    @property
    def faults(self) -> list[str]:
        found = []
        if self.lag_p99_s > MAX_LAG_S:
            found.append(f"lag p99 {self.lag_p99_s} s, at most {MAX_LAG_S}")
        if self.grown_mb > MAX_GROWN_MB:
            found.append(f"memory grew {self.grown_mb} MB, at most {MAX_GROWN_MB}")
        if self.gap_s > MAX_GAP_S:
            found.append(f"a gap of {self.gap_s:.2f} s, at most {MAX_GAP_S}")
        if not self.answers:
            found.append("no request was answered")
        return found


def attack(name: str | None, seconds: float) -> Outcome:
    """Start a server, run the attack for so long beside ordinary requests, and return what it did.

    name None: nobody attacks.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    attacker = None
    with subprocess.Popen([sys.executable, "-m", "tests.hostile.server"], **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            target = Target(**json.loads(server.stdout.readline()))
            os.sched_setaffinity(server.pid, {min(os.sched_getaffinity(0))})
            with httpx.Client(base_url=target.url, timeout=30) as client:
                client.post("/tts", json={"text": TEXT}).raise_for_status()  # what the first request loads
                print(file=server.stdin, flush=True)
                until_s = time.monotonic() + seconds
                if name is not None:
                    command = ["-m", "tests.hostile.attacks", name, target.url, target.grpc, str(seconds)]
                    attacker = subprocess.Popen([sys.executable, *command])
                gaps_s: list[float] = []
                listener = threading.Thread(target=listen, args=(target, until_s, gaps_s))
                listener.start()
                answers = 0
                while time.monotonic() < until_s:
                    answers += client.get("/livez").status_code == 200
                    time.sleep(0.05)
                listener.join()
            print(file=server.stdin, flush=True)
            report: dict[str, Any] = json.loads(server.stdout.readline())
        finally:
            server.kill()
            if attacker is not None:
                attacker.kill()
                attacker.wait()
    return Outcome(name or "(nothing)", gap_s=max(gaps_s, default=0.0), answers=answers, **report)


def listen(target: Target, until_s: float, gaps_s: list[float]) -> None:
    """Hear one text after the other, and note how long each chunk was waited for."""
    with httpx.Client(base_url=target.url, timeout=30) as client:
        while time.monotonic() < until_s:
            last_s = time.monotonic()
            with client.stream("POST", "/tts", json={"text": TEXT, "format": "pcm"}) as answer:
                for _ in answer.iter_raw():
                    now_s = time.monotonic()
                    gaps_s.append(now_s - last_s)
                    last_s = now_s


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    names = ", ".join(ATTACKS)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {names}; all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each runs")
    given = parser.parse_args()
    unknown = sorted(set(given.attacks) - set(ATTACKS))
    if unknown:
        parser.error(f"unknown attack {unknown[0]!r}; there are {names}")
    failed = False
    for name in [None, *(given.attacks or ATTACKS)]:
        outcome = attack(name, given.seconds)
        failed |= bool(outcome.faults) and name is not None
        print(  # noqa: T201
            f"{outcome.attack:18} lag p99 {outcome.lag_p99_s:.3f} s, max {outcome.lag_max_s:.3f} s, "
            f"memory {outcome.grown_mb:+.1f} MB, gap {outcome.gap_s:.2f} s, {outcome.answers} answers"
            + "".join(f"\n    MISSED: {fault}" for fault in outcome.faults)
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
