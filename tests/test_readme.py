"""What the README tells a newcomer to type works."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.checkpoints import small_checkpoint
from tests.support.readme import ROOT, blocks, commands, lines_of


def test_every_command_is_tested() -> None:
    programs = ("make", "curl", ".venv/bin/python", ".venv/bin/firstword")
    assert sorted(commands()) == sorted(line for program in programs for line in lines_of(program))


def test_make_targets_exist() -> None:
    assert lines_of("make")
    for command in lines_of("make"):
        subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_python_commands_run(tmp_path: Path) -> None:
    for name in ("python", "firstword"):
        assert lines_of(f".venv/bin/{name}")
        program = Path(sys.executable).with_name(name)
        for command in lines_of(f".venv/bin/{name}"):
            words = shlex.split(command.replace("/tmp/", f"{tmp_path}/"))
            subprocess.run([program, *words[1:]], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "random" / "cosyvoice2.yaml").is_file()
    assert (tmp_path / "train.wav").stat().st_size > 48_000  # a second


@pytest.mark.slow
def test_first_python_example_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[0], {})
    assert soundfile.info(tmp_path / "hello.wav").duration > 0.3


@pytest.mark.slow
def test_python_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    hello, converted = (soundfile.info(tmp_path / f"{name}.wav").duration for name in ("hello", "converted"))
    assert converted == pytest.approx(hello, abs=0.1)


@pytest.mark.slow
def test_python_example_for_users_of_cosyvoice_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/from-cosyvoice.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(example, {})
    assert sum(map(int, capsys.readouterr().out.split())) > 0.5 * 24_000


def test_networks_alone_speak() -> None:
    example = blocks("python")[1]
    path = "/models/CosyVoice2-0.5B"
    assert path in example
    time = np.arange(3 * 16_000) / 16_000
    names: dict[str, object] = {
        "samples": (0.3 * np.sin(2 * np.pi * 140 * time)).astype(np.float32),
        "speech_tokens": list(range(60)),
    }
    exec(example.replace(path, str(small_checkpoint("cosyvoice2"))), names)
    assert len(names["samples"]) == 35 * 960  # type: ignore[arg-type]  # the first hop of 10, and a chunk
