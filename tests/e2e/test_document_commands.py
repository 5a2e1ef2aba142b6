"""What the page about speakers tells to type at a running server works, from its top to its bottom."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.readme import ROOT

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")


def test_commands_of_the_speakers_page_work(server: Server, tmp_path: Path) -> None:
    text = {"text": "The early train leaves for the coast at seven.", "stream": False}
    (tmp_path / "anna.wav").write_bytes(httpx.post(f"{server.url}/tts", json=text, timeout=120).content)
    page = (ROOT / "docs/speakers.md").read_text(encoding="utf-8")
    page, num_moved = re.subn(r"(http://)?other\.example:8000", server.url, page)
    assert num_moved == 2
    add, add_by_curl, change, move, move_by_curl = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    again = "firstword speakers rm anna\n"  # the second block shows another way to the same speaker
    moved_again = "firstword speakers rm anna2\n"  # and so does the last
    script = "".join([add, again, add_by_curl, move, moved_again, move_by_curl, change, moved_again])
    environment = os.environ | {
        "FIRSTWORD_CLIENT_URL": server.url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    subprocess.run(
        ["bash", "-ec", script.replace("localhost:8000", server.url).replace("curl -s", "curl -sf")],
        cwd=tmp_path,
        env=environment,
        check=True,
        timeout=240,
    )
    assert soundfile.info(tmp_path / "morning.wav").duration > 0.3
    assert (tmp_path / "anna.safetensors").stat().st_size > 10_000
