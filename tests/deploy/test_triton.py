"""deploy/triton/run.sh without a server; tests/e2e/test_inference_fronts.py runs its stages 1 to 3."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.readme import ROOT

SCRIPT = ROOT / "deploy/triton/run.sh"


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
    own |= {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "FIRSTWORD_DATA_DIR": str(folder)}
    command = [shutil.which("bash") or "bash", SCRIPT, *words]
    return subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=120)


def test_only_the_stages_asked_for_run(tmp_path: Path) -> None:
    words = ("--stage", "0", "--stop-stage", "2", "--checkpoint", "builtin", "--", "--max-batch-size", "3")
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    config = (tmp_path / "model_repository/cosyvoice2/config.pbtxt").read_text(encoding="utf-8")
    assert "max_batch_size: 3" in config


def test_texts_are_spoken_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "Hi.", "name": "hi"}\n')
    words = ("--stage", "6", "--stop-stage", "6", "--checkpoint", "builtin", "--data", "texts.jsonl")
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output/hi.wav").exists()


def test_what_is_missing_or_unknown_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "--stage", "6", "--stop-stage", "6", "--checkpoint", "builtin")
    assert (done.returncode, "--data FILE.jsonl" in done.stderr) == (2, True)
    done = run(tmp_path, "--stages", "1")
    assert (done.returncode, "--stages" in done.stderr) == (2, True)
    done = run(tmp_path, "--stage")
    assert (done.returncode, "--stage needs a value" in done.stderr) == (2, True)
