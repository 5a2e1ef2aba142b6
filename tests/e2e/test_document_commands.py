"""What the page about speakers tells to type at a running server works, from its top to its bottom."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile

from firstword.app.http.keys import KeyRing, parse_keys
from tests.e2e.server import Server
from tests.support.readme import ROOT

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")


def test_commands_of_the_speakers_page_work(server: Server, tmp_path: Path) -> None:
    page = (ROOT / "docs/speakers.md").read_text(encoding="utf-8")
    page, num_moved = re.subn(r"(http://)?other\.example:8000", server.url, page)
    assert num_moved == 2
    add, add_by_curl, change, own, move, move_by_curl = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    again = "firstword speakers rm anna\n"  # the second block shows another way to the same speaker
    moved_again = "firstword speakers rm anna2\n"  # and so does the last
    script = "".join(
        [add, again, add_by_curl, move, moved_again, move_by_curl, moved_again, change, own, again]
    )
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


def test_commands_that_make_keys_make_the_file_that_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(firstword keys new .*?)```", page, flags=re.DOTALL)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=environment, check=True, timeout=60)
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (shown,) = parse_keys(example.replace("…", "0" * 64), "the page")
    (made,) = KeyRing(file=tmp_path / "keys.toml").named("anna")
    assert replace(made, key_digest=bytes(32)) == shown
