"""The Open Inference Protocol of a real server: the service's own, or tritonserver's with our repository."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.readings import series
from tests.support.readme import ROOT

STARTS_WITHIN_S = 240  # on a machine that does something else too
STOPS_WITHIN_S = 30
INSTALLED = Path(sys.prefix) / "triton/tritonserver"
TRITONSERVER = os.environ.get("TRITONSERVER") or (str(INSTALLED) if INSTALLED.exists() else None)
"""None: it is not installed."""


@dataclass(frozen=True, slots=True)
class Front:
    """batches: whether it hands several requests on at once, and counts them so."""

    url: str
    grpc_address: str
    metrics_url: str
    batches: bool

    def gauge(self, name: str) -> float:
        exposition = httpx.get(self.metrics_url, timeout=30).raise_for_status().text
        return series(exposition)[name, frozenset()]

    def wait_until_idle(self, timeout_s: float = 30.0) -> float:
        """Return the seconds until no request holds anything any more."""
        began_s = time.perf_counter()
        while self.gauge("tts_requests_in_flight"):
            assert time.perf_counter() < began_s + timeout_s, "requests that nobody waits for"
            time.sleep(0.002)
        return time.perf_counter() - began_s


@contextmanager
def triton_front(folder: Path) -> Iterator[Front]:
    """Run stages 1 to 3 of deploy/triton/run.sh on the built-in voice."""
    http_port, grpc_port, triton_metrics_port, metrics_port = free_ports(4)
    ports = f"--http-port {http_port} --grpc-port {grpc_port} --metrics-port {triton_metrics_port}"
    ports += f" --engine-metrics-port {metrics_port}"
    words = f"--stage 1 --stop-stage 3 --checkpoint builtin --repository {folder}/models {ports}"
    words += " -- --queue-delay-us 5000"
    own = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
    settings = {"DATA_DIR": folder, "MAX_STREAMS": 16, "DRAIN_TIMEOUT_S": 5, "QUEUE_TIMEOUT_S": 5}
    environment = own | {f"FIRSTWORD_{name}": str(value) for name, value in settings.items()}
    environment |= {"TRITONSERVER": str(TRITONSERVER), "PATH": f"{Path(sys.executable).parent}:{own['PATH']}"}
    with open(folder / "log.txt", "w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [shutil.which("bash") or "bash", ROOT / "deploy/triton/run.sh", *words.split()],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            url = f"http://127.0.0.1:{http_port}"
            _wait_until_ready(process, f"{url}/v2/health/ready", folder / "log.txt")
            yield Front(
                url, f"127.0.0.1:{grpc_port}", f"http://127.0.0.1:{metrics_port}/metrics", batches=True
            )
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOPS_WITHIN_S)
            finally:
                process.kill()
                process.wait()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    give_up_s = time.monotonic() + STARTS_WITHIN_S
    while True:
        assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:]
        assert time.monotonic() < give_up_s, log.read_text(encoding="utf-8")[-3000:]
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
