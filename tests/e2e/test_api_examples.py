"""What the API page tells to type at a running server is answered, from its top to its bottom."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.readme import ROOT

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")


def test_commands_of_the_api_page_work(server: Server, tmp_path: Path) -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    script = "".join(block for block in blocks if "$KEY" not in block)  # this server has no keys
    script = script.replace("aplay -f S16_LE -r 24000", "cat > played.pcm")
    script = script.replace("localhost:8000", server.url).replace("curl -s", "curl -sf")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=280
    )
    assert soundfile.info(tmp_path / "spoken" / "one.flac").duration > 0.3
    assert (tmp_path / "played.pcm").stat().st_size > 10_000
    assert (tmp_path / "train.vtt").read_text().endswith("Do not be late.\n")
    for name in ("copied.flac", "converted.mp3"):
        assert soundfile.info(tmp_path / name).duration > 0.5, name
