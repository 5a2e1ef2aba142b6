"""Two servers, one PostgreSQL and a real Envoy on this machine.

The servers have toy networks; with CHAOS_CHECKPOINT=DIR, for a run by hand, those of DIR.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from firstword.app.postgresql import migrate
from tests.chaos.disk import Disk, own_disk
from tests.chaos.wire import Wire
from tests.e2e.server import Server, serving
from tests.support.checkpoints import small_checkpoint
from tests.support.postgres import PostgresServer, postgres_server

ENVOY = Path(sys.executable).parent / "envoy"
CHECKED_S = 0.5  # how often Envoy asks whether a server is ready
SERVED_BY = "x-served-by"  # with the address of a server, in answers through Envoy
ENVOY_FILE = Path(__file__).parents[2] / "deploy/envoy/envoy.yaml"
BYTES_PER_S = 2 * 24_000
CHECKPOINT = os.environ.get("CHAOS_CHECKPOINT")


@dataclass
class Cluster:
    postgres: PostgresServer
    servers: list[Server]
    stacks: list[ExitStack]
    url: str  # of Envoy
    directory: Path
    store: str  # by way of `to_database`
    to_database: Wire
    to_servers: list[Wire]  # of Envoy
    disk: Disk | None  # of the database; None: it shares one

    def start(self, number: int, port: int = 0) -> None:
        """Start a server, or another in the place of one that was killed."""
        toy = {"backend": "torch", "flow_backend": "torch", "trim_silence": "false"}
        self.servers[number] = self.stacks[number].enter_context(
            serving(
                self.directory / f"data-{number}",
                **{} if CHECKPOINT else toy,
                checkpoint=CHECKPOINT or small_checkpoint("cosyvoice2"),
                max_streams=8,
                store=self.store,
                port=port,
            )
        )

    def restart(self, number: int) -> None:
        """Start a server that has ended at its address again, and wait until Envoy sends to it."""
        port = httpx.URL(self.servers[number].url).port
        self.stacks[number].close()
        self.start(number, port or 0)
        while httpx.get(f"{self.servers[number].url}/readyz").status_code != 200:
            time.sleep(0.05)
        time.sleep(2 * CHECKED_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        disk = stack.enter_context(own_disk())
        postgres = stack.enter_context(postgres_server(disk and disk.path))
        store = postgres.new_database()
        migrate(store)
        stacks = [stack.enter_context(ExitStack()) for _ in range(2)]
        to_database = stack.enter_context(Wire("127.0.0.1", postgres.port).open())
        store = store.replace(f":{postgres.port}/", f":{to_database.port}/")
        servers: list[Server] = [None, None]  # type: ignore[list-item]
        made = Cluster(postgres, servers, stacks, "", directory, store, to_database, [], disk)
        small_checkpoint("cosyvoice2")  # written before both want it
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(made.start, range(2)))
        for server in made.servers:
            url = httpx.URL(server.url)
            made.to_servers.append(stack.enter_context(Wire(url.host, url.port or 0).open()))
        urls = [f"http://127.0.0.1:{wire.port}" for wire in made.to_servers]
        made.url, _ = stack.enter_context(envoy(directory, urls))
        yield made


@contextmanager
def envoy(directory: Path, urls: list[str]) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Envoy with the committed file, but for its port and the servers' addresses."""
    config: Any = yaml.safe_load(ENVOY_FILE.read_text())
    port = free_port()
    resources = config["static_resources"]
    resources["listeners"][0]["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": port}
    resources["clusters"][0]["type"] = "STATIC"
    addresses = [{"address": url.host, "port_value": url.port} for url in map(httpx.URL, urls)]
    resources["clusters"][0]["load_assignment"]["endpoints"] = [
        {"lb_endpoints": [{"endpoint": {"address": {"socket_address": address}}} for address in addresses]}
    ]
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    shown = {"header": {"key": SERVED_BY, "value": "%UPSTREAM_HOST%"}}
    manager["route_config"]["response_headers_to_add"] = [shown]
    path = directory / "envoy.yaml"
    path.write_text(yaml.safe_dump(config))
    options = ("--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning")
    with (directory / "envoy.log").open("wb") as log:
        process = subprocess.Popen([ENVOY, "-c", path, *options], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 30
        while True:
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert time.monotonic() < until, (directory / "envoy.log").read_text()
            time.sleep(0.05)
        yield url, process
    finally:
        process.kill()
        process.wait()


@contextmanager
def paused(process: "subprocess.Popen[Any]") -> Iterator[None]:
    """Stop a child with all of its threads, which takes a while on a busy machine; it goes on behind."""
    process.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@dataclass
class Heard:
    """What a listener got of one stream."""

    status: int = 0
    num_bytes: int = 0
    is_whole: bool = False
    refusal: str = ""
    longest_gap_s: float = 0.0
    late_s: float = 0.0  # the longest silence of a player that began with the first piece
    ended_at: float = 0.0


async def listen(client: httpx.AsyncClient, text: str, speaker: str, heard: Heard) -> Heard:
    """Listen to raw audio until it ends, however it does."""
    body = {"text": text, "format": "pcm", "speaker": speaker}
    at = time.monotonic()
    played_until = at
    try:
        async with client.stream("POST", "/tts", json=body, headers={"X-Speaker": speaker}) as answer:
            heard.status = answer.status_code
            if heard.status != 200:
                heard.refusal = (await answer.aread()).decode()
                return heard
            async for piece in answer.aiter_raw():
                now = time.monotonic()
                heard.longest_gap_s = max(heard.longest_gap_s, now - at) if heard.num_bytes else 0.0
                at = now
                if heard.num_bytes:
                    heard.late_s = max(heard.late_s, now - played_until)
                played_until = max(played_until, now) + len(piece) / BYTES_PER_S
                heard.num_bytes += len(piece)
        heard.is_whole = True
    except httpx.HTTPError:
        heard.is_whole = False
    finally:
        heard.ended_at = time.monotonic()
    return heard


async def until(condition: Any, limit_s: float = 30.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110  of other processes there are no events
            await asyncio.sleep(0.01)
