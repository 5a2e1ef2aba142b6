"""What the README tells a newcomer to type at a running server is answered with speech."""

import json
import shlex
import shutil
import subprocess
import wave
from pathlib import Path

import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.readme import lines_of


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's commands need curl")
def test_curl_commands_are_answered(server: Server, tmp_path: Path) -> None:
    printed = ""
    for command in lines_of("curl"):
        words = shlex.split(command.replace("localhost:8000", server.url))
        done = subprocess.run(
            [*words, "--fail"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120
        )
        printed += done.stdout
    assert len(json.loads(printed)["speakers"]) == 18
    with wave.open(str(tmp_path / "hello.wav")) as file:
        assert 1 < file.getnframes() / file.getframerate() < 10
    for name in ("hello.wav", "nihao.wav", "morning.mp3"):
        samples, rate_hz = soundfile.read(tmp_path / name)
        assert len(samples) > rate_hz / 2, name


@pytest.mark.skipif(shutil.which("curl") is None, reason="it prints a command of curl")
def test_the_command_that_a_start_prints_writes_a_whole_file(server: Server, tmp_path: Path) -> None:
    _, _, command = server.greeting.partition("hear it: ")
    subprocess.run([*shlex.split(command), "-s", "--fail"], cwd=tmp_path, check=True, timeout=120)
    with wave.open(str(tmp_path / "hello.wav")) as file:
        assert 0.5 < file.getnframes() / file.getframerate() < 5
