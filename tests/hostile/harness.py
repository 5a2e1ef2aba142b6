"""One server, attacked by one client after the other, and what it noticed of each."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import httpx

from tests.hostile.attacks import Target

MAX_LAG_S = 0.1  # of the server's loop, 99th percentile
MAX_GROWN_MB = 50.0  # above what speaking alone takes, from an attack's start to its end
MAX_HELD_MB = 150.0  # the same of messages within streams: one of the largest in each of 12
BESIDE = 4  # times lag and gap without an attack are allowed more
CALL_TIMEOUT_S = 10.0  # a call that is answered late on a busy machine is not lost
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
    lost_calls: int  # over gRPC, of who attacks nobody

    def faults(self, unattacked: "Outcome") -> list[str]:
        """unattacked: what the machine does to the server by itself, with whatever else runs on it."""
        found = []
        max_lag_s = MAX_LAG_S + BESIDE * unattacked.lag_p99_s
        max_gap_s = MAX_GAP_S + BESIDE * unattacked.gap_s
        if self.lag_p99_s > max_lag_s:
            found.append(f"lag p99 {self.lag_p99_s} s, at most {max_lag_s:.3f}")
        max_grown_mb = MAX_HELD_MB if self.attack == "held_messages" else MAX_GROWN_MB
        max_grown_mb += max(0.0, unattacked.grown_mb if unattacked is not self else 0.0)
        if self.grown_mb > max_grown_mb:
            found.append(f"memory grew {self.grown_mb} MB, at most {max_grown_mb:.1f}")
        if self.gap_s > max_gap_s:
            found.append(f"a gap of {self.gap_s:.2f} s, at most {max_gap_s:.2f}")
        if not self.answers:
            found.append("no request was answered")
        if self.lost_calls:
            found.append(f"{self.lost_calls} calls over gRPC were not answered")
        return found


class Victim:
    """The server, in a process of its own, on a core that attackers do not have where there are two."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._target = Target(**json.loads(process.stdout.readline()))
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {min(os.sched_getaffinity(0))})
        with httpx.Client(base_url=self._target.url, timeout=30) as client:
            client.post("/tts", json={"text": TEXT}).raise_for_status()  # what the first request loads

    def attacked(self, name: str | None, seconds: float) -> Outcome:
        """Run an attack for so long beside ordinary requests. name None: nobody attacks."""
        with _attacking(name, self._target, seconds):
            print(file=self._stdin, flush=True)
            until_s = time.monotonic() + seconds
            gaps_s: list[float] = []
            listener = threading.Thread(target=listen, args=(self._target, until_s, gaps_s))
            listener.start()
            answers = lost_calls = 0
            with (
                httpx.Client(base_url=self._target.url, timeout=30) as client,
                grpc.insecure_channel(self._target.grpc) as channel,
            ):
                list_speakers = channel.unary_unary("/firstword.v1.Speech/ListSpeakers")
                while time.monotonic() < until_s:
                    answers += client.get("/livez").status_code == 200
                    try:
                        list_speakers(b"", timeout=CALL_TIMEOUT_S)
                    except grpc.RpcError:
                        lost_calls += 1
                    time.sleep(0.05)
            listener.join()
            print(file=self._stdin, flush=True)
            report: dict[str, Any] = json.loads(self._stdout.readline())
        gap_s = max(gaps_s, default=0.0)
        return Outcome(name or "(nothing)", gap_s=gap_s, answers=answers, lost_calls=lost_calls, **report)


@contextmanager
def victim(checkpoint: str | None = None) -> Iterator[Victim]:
    """A server that has answered a first request. checkpoint: None: over fakes."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "tests.hostile.server"]
    with TemporaryDirectory() as data_dir:
        given = [] if checkpoint is None else [checkpoint, data_dir]
        with subprocess.Popen([*command, *given], **pipes) as server:
            try:
                yield Victim(server)
            finally:
                server.kill()


@contextmanager
def _attacking(name: str | None, target: Target, seconds: float) -> Iterator[None]:
    """Run the attack, from where it begins."""
    if name is None:
        yield
        return
    command = [sys.executable, "-m", "tests.hostile.attacks", name, *asdict(target).values(), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        try:
            assert attacker.stdout is not None
            attacker.stdout.readline()
            yield
        finally:
            attacker.kill()


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
