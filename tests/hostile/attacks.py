"""Attacks by one client without a key, at full speed.

`python -m tests.hostile.attacks NAME URL GRPC METRICS SECONDS` runs one of them, after a line that says so.
"""

import base64
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tests.hostile.uploads import ADDRESS, HeldBody, HeldUpload, hold

CHUNKED: Final = b"POST /tts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
PING: Final = b"\x89\x80\x00\x00\x00\x00"
EMPTY_FRAGMENT: Final = b"\x00\x80\x00\x00\x00\x00"
FIRST_FRAGMENT: Final = b"\x01\x80\x00\x00\x00\x00"
NUM_WATCHES: Final = 1100
NUM_UPLOADS: Final = 60
UPLOAD_BYTES: Final = 10 << 20  # of each, the most that a recording may have
NUM_HEALTH_CHECKS: Final = 4  # few, so that each comes fast: one address may have 16
NUM_STREAMS: Final = 12  # that one client may have open
NUM_HALF_REQUESTS: Final = 300
HALF_REQUEST: Final = b"GET /metrics HTTP/1.1\r\nHost: "
SCRAPE: Final = HALF_REQUEST + b"localhost\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server listens: over HTTP, host and port of gRPC, and the port of the metrics."""

    url: str
    grpc: str
    metrics: str

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with connected(self.url) as connection:
            yield connection


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    return socket.create_connection((address.hostname, address.port), timeout=5, source_address=(ADDRESS, 0))


def flood(target: Target, start: bytes, unit: bytes, until_s: float) -> None:
    """Send `start` once and `unit` without end; connect anew where the server closes."""
    block = unit * (200_000 // len(unit))
    while time.monotonic() < until_s:
        with suppress(OSError), target.connected() as connection:
            connection.sendall(start)
            while time.monotonic() < until_s:
                connection.sendall(block)


def trailers(target: Target, until_s: float) -> None:
    flood(target, CHUNKED + b"0\r\na: ", b"a", until_s)


def chunk_extensions(target: Target, until_s: float) -> None:
    flood(target, CHUNKED + b"1;", b"a", until_s)


def zeros_of_a_size(target: Target, until_s: float) -> None:
    flood(target, CHUNKED, b"0", until_s)


def _upgrade() -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        "GET /tts/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    ).encode()


def _frames(target: Target, first: bytes, unit: bytes, until_s: float) -> None:
    block = unit * (200_000 // len(unit))
    while time.monotonic() < until_s:
        with suppress(OSError), target.connected() as connection:
            connection.sendall(_upgrade())
            connection.recv(4096)
            connection.sendall(first)
            while time.monotonic() < until_s:
                connection.sendall(block)


def pings(target: Target, until_s: float) -> None:
    _frames(target, b"", PING, until_s)


def fragments(target: Target, until_s: float) -> None:
    _frames(target, FIRST_FRAGMENT, EMPTY_FRAGMENT, until_s)


def health_watches(target: Target, until_s: float) -> None:
    """Open streams that watch the health and never end."""
    import grpc  # takes a second, which other attacks do without

    with grpc.insecure_channel(target.grpc) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(b"") for _ in range(NUM_WATCHES)]
        while time.monotonic() < until_s:
            time.sleep(0.05)
        for call in calls:
            call.cancel()


def held_uploads(target: Target, until_s: float) -> None:
    """Send recordings to be registered, but for their last byte."""
    _hold_calls(target, "/firstword.v1.Speech/RegisterSpeaker", NUM_UPLOADS, until_s)


def held_messages(target: Target, until_s: float) -> None:
    """The same within streams of requests, which may be silent for minutes."""
    _hold_calls(target, "/inference.GRPCInferenceService/ModelStreamInfer", NUM_STREAMS, until_s)


def held_health_checks(target: Target, until_s: float) -> None:
    """The same where no key is ever asked for."""
    _hold_calls(target, "/grpc.health.v1.Health/Check", NUM_HEALTH_CHECKS, until_s)


def _hold_calls(target: Target, path: str, num_calls: int, until_s: float) -> None:
    hold(lambda: HeldUpload(target.grpc, path, UPLOAD_BYTES), num_calls, until_s)


def held_bodies(target: Target, until_s: float) -> None:
    """The same over HTTP."""
    form = b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
    head = (
        "POST /speakers HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {len(form) + UPLOAD_BYTES}\r\n\r\n"
    )
    sent = head.encode() + form + bytes(UPLOAD_BYTES - 1)
    hold(lambda: HeldBody(urlsplit(target.url).netloc, sent), NUM_UPLOADS, until_s)


def held_at_all_doors(target: Target, until_s: float) -> None:
    """Sixty recordings over HTTP, as many over gRPC, and messages that take no key."""
    attacks = (held_bodies, held_uploads, held_health_checks)
    threads = [threading.Thread(target=attack, args=(target, until_s)) for attack in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def half_scrapes(target: Target, until_s: float) -> None:
    """Hold half requests for the metrics open, and send whole ones beside them."""
    with ExitStack() as stack:
        for _ in range(NUM_HALF_REQUESTS):
            stack.enter_context(connected(target.metrics)).sendall(HALF_REQUEST)
        while time.monotonic() < until_s:
            with suppress(OSError), connected(target.metrics) as connection:
                while time.monotonic() < until_s:
                    connection.sendall(SCRAPE)
                    connection.recv(1 << 20)


ATTACKS: Final[dict[str, Callable[[Target, float], None]]] = {
    "trailers": trailers,
    "chunk_extensions": chunk_extensions,
    "zeros_of_a_size": zeros_of_a_size,
    "pings": pings,
    "fragments": fragments,
    "health_watches": health_watches,
    "held_uploads": held_uploads,
    "held_messages": held_messages,
    "held_health_checks": held_health_checks,
    "held_bodies": held_bodies,
    "held_at_all_doors": held_at_all_doors,
    "half_scrapes": half_scrapes,
}


def main(name: str, url: str, grpc: str, metrics: str, seconds: str) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:  # the server has the first one
        os.sched_setaffinity(0, {cores[1]})
    print(name, flush=True)  # noqa: T201
    ATTACKS[name](Target(url, grpc, metrics), time.monotonic() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
