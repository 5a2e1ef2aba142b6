"""Starts a server to measure on a free port, reads its counts from outside, and stops it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
from prometheus_client.parser import text_string_to_metric_families

from firstword.app.settings import variable_of

STARTS_WITHIN_S = 300.0
STOPS_WITHIN_S = 40.0
_ADDRESS = re.compile(r"(http://\S+) speaks with")
_PROGRAM = "from firstword.app.cli import main; main()"


class ServerDidNotStart(Exception):
    """The server ended or did not listen in time; the message is its last output."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    url: str
    pid: int
    start_s: float  # from the start of the process until it listens


@dataclass(frozen=True, slots=True)
class Footing:
    """The resources that a server holds, as the system and the server count them."""

    memory_mb: float  # resident
    threads: int
    file_handles: int
    tasks: int  # of the event loop
    requests: int  # in flight, waiting ones included
    sockets: int  # WebSockets
    contexts: int


@contextmanager
def own_server(
    settings: Mapping[str, object] | None = None, checkout: Path | None = None
) -> Iterator[OwnServer]:
    """Start a server, and stop it at the end.

    settings: by their names, before those of the environment; a `.env` file does not count. checkout: the
    folder whose `firstword` runs, in place of this one.

    Raises ServerDidNotStart.
    """
    with tempfile.TemporaryDirectory() as folder:
        fixed = {"host": "127.0.0.1", "port": 0, "data_dir": folder, "api_keys": "", "metrics_port": ""}
        given = fixed | {"log_level": "warning"} | dict(settings or {})
        environment = os.environ | {variable_of(name): str(value) for name, value in given.items()}
        if checkout is not None:
            environment["PYTHONPATH"] = str(checkout.resolve())
        began_s = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "serve"],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None, "it was asked for"
        try:
            url = _address(process, process.stdout)
            draining = threading.Thread(target=_drain, args=(process.stdout,), daemon=True)
            draining.start()
            yield OwnServer(url, process.pid, time.perf_counter() - began_s)
        finally:
            _stop(process)
            process.stdout.close()


def counted(url: str) -> dict[str, float]:
    """Return the value of every series of /metrics, by its name, with labels in braces if it has any."""
    text = httpx.get(f"{url}/metrics", timeout=30).raise_for_status().text
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def footing(server: OwnServer) -> Footing:
    """Read what a server holds. Raises OSError off Linux, where there is no /proc."""
    folder = Path("/proc") / str(server.pid)
    status = dict(
        line.split(":", 1)
        for line in (folder / "status").read_text(encoding="utf-8").splitlines()
        if ":" in line
    )
    series = counted(server.url)
    return Footing(
        memory_mb=int(status["VmRSS"].split()[0]) / 1024,
        threads=int(status["Threads"]),
        file_handles=len(list((folder / "fd").iterdir())),
        tasks=round(series["tts_event_loop_tasks"]),
        requests=round(series["tts_requests_in_flight"]),
        sockets=round(series["tts_ws_connections"]),
        contexts=round(series["tts_ws_contexts"]),
    )


def cpu_s(server: OwnServer) -> float:
    """Seconds of computing by all its threads so far, in steps of a hundredth. Raises OSError off Linux."""
    line = (Path("/proc") / str(server.pid) / "stat").read_text(encoding="utf-8")
    after_name = line.rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _address(process: "subprocess.Popen[str]", output: IO[str]) -> str:
    """Read its output until it says where it listens; a server that takes too long is killed."""
    lines: list[str] = []
    impatience = threading.Timer(STARTS_WITHIN_S, process.kill)
    impatience.start()
    try:
        for line in output:
            if found := _ADDRESS.search(line):
                return found[1]
            lines.append(line.rstrip())
            sys.stderr.write(line)  # now: whoever waits for it in vain may be killed
    finally:
        impatience.cancel()
    raise ServerDidNotStart(f"the server did not start: {' | '.join(lines[-3:]) or 'it wrote nothing'}")


def _drain(output: IO[str]) -> None:
    """Pass on what it writes after its start, warnings and errors, to standard error."""
    for line in output:
        sys.stderr.write(line)


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
