"""What the pages about operations, settings and the built-in voice tell to type and to read is so."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from firstword.app.settings import load_settings
from tests.e2e.server import Server, running
from tests.support.readme import ROOT

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")


def blocks(page: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL)


def environment(**more: object) -> dict[str, str]:
    """That of a shell in which the virtual environment is active, without settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return own | {"PATH": path} | {name: str(value) for name, value in more.items()}


def test_settings_are_written_checked_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks("configuration")
    script = ["bash", "-ec", block]
    done = subprocess.run(
        script, cwd=tmp_path, env=environment(), check=True, capture_output=True, text=True, timeout=240
    )
    assert "fix:" not in done.stdout
    monkeypatch.chdir(tmp_path)
    written = (tmp_path / ".env").read_text(encoding="utf-8")
    (tmp_path / ".env").write_text("", encoding="utf-8")
    defaults = load_settings()
    every_line = re.sub(r"^# (?=FIRSTWORD_\w+=)", "", written, flags=re.MULTILINE)
    (tmp_path / ".env").write_text(every_line, encoding="utf-8")
    assert load_settings() == defaults  # each is written with its default
    (tmp_path / ".env").write_text("FIRSTWORD_PORT=1\nFIRSTWORD_HOST=0.0.0.0\n", encoding="utf-8")
    monkeypatch.setenv("FIRSTWORD_PORT", "2")
    monkeypatch.setenv("FIRSTWORD_HOST", "")
    settings = load_settings(port=3)
    assert (settings.server.port, settings.server.host) == (3, "0.0.0.0")
    assert load_settings().server.port == 2


@needs_curl
def test_probes_and_metrics_answer_as_the_operations_page_says(server: Server) -> None:
    (probes,) = (block for block in blocks("operations") if "/livez" in block)
    commands = probes.replace("localhost:8000", server.url).replace("curl -s", "curl -sf")
    done = subprocess.run(["bash", "-ec", commands], check=True, capture_output=True, text=True, timeout=60)
    assert '"status":"ok"' in done.stdout
    assert '"ready":true' in done.stdout
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    (paragraph,) = re.findall(r"^Metrics to watch:.*?\n\n", page, flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`(tts_\w+)`", paragraph):
        assert f"# TYPE {name} " in done.stdout, name


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the page's commands need openssl")
def test_a_server_with_keys_is_opened_and_stopped_as_the_operations_page_says(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("operations") if "openssl" in block)
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    (digest,) = re.findall(r"`anna:(\$\(printf .*?\))`", page)
    keys = tmp_path / "keys"
    another = f'echo $KEY > {keys}; KEY=bobs-key; echo $KEY >> {keys}; FIRSTWORD_API_KEYS+=",bob:{digest}"'
    script = block.replace("firstword serve", f"{another}; exec firstword serve")
    settings = environment(FIRSTWORD_PORT=0, FIRSTWORD_DATA_DIR=tmp_path, FIRSTWORD_MAX_STREAMS=2)
    with running(["bash", "-ec", script], settings) as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            assert client.get("/livez").status_code == client.get("/readyz").status_code == 200
            assert client.get("/metrics").status_code == client.get("/speakers").status_code == 401
            for key in keys.read_text().split():  # the second is known by its digest alone
                for header in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
                    assert client.get("/speakers", headers=header).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0


def test_tables_of_the_voice_page_are_those_of_its_figures() -> None:
    page = (ROOT / "docs/voice.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "docs/voice.json").read_text(encoding="utf-8"))
    (table,) = re.findall(r"^\| word error rate .*?\n\n", page, flags=re.MULTILINE | re.DOTALL)
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()]
    assert head == ["word error rate", *(result["speaker"] for result in results), "all"]
    for path, *cells in rows:
        errors = [sum(result["paths"][path]["errors"]) for result in results]
        words = [sum(result["paths"][path]["words"]) for result in results]
        rates = [wrong / said for wrong, said in zip(errors, words, strict=True)]
        assert cells == [f"{rate:.3f}" for rate in [*rates, sum(errors) / sum(words)]], path


@pytest.mark.parametrize("page", ["voice", "operations", "configuration", "speakers"])
def test_make_targets_and_stages_of_a_page_exist(page: str) -> None:
    for block in blocks(page):
        for target in re.findall(r"^make ([\w-]+)", block, flags=re.MULTILINE):
            subprocess.run(["make", target, "--dry-run"], cwd=ROOT, check=True, capture_output=True)
