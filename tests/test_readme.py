"""What the README tells a newcomer to type works."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.models.checkpoints import small_checkpoint

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [
        line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()
    ]


def test_make_targets_exist() -> None:
    targets = [command for command in commands() if command.startswith("make ")]
    assert targets
    for command in targets:
        subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_other_commands_run(tmp_path: Path) -> None:
    others = [command for command in commands() if not command.startswith("make ")]
    assert others
    for command in others:
        words = shlex.split(command.replace("/tmp/", f"{tmp_path}/"))
        assert words[0] == ".venv/bin/python"
        subprocess.run([sys.executable, *words[1:]], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "random" / "cosyvoice2.yaml").is_file()
    assert (tmp_path / "train.wav").stat().st_size > 48_000  # a second


def test_python_example_speaks() -> None:
    (example,) = blocks("python")
    path = "/models/CosyVoice2-0.5B"
    assert path in example
    time = np.arange(3 * 16_000) / 16_000
    names: dict[str, object] = {
        "samples": (0.3 * np.sin(2 * np.pi * 140 * time)).astype(np.float32),
        "speech_tokens": list(range(60)),
    }
    exec(example.replace(path, str(small_checkpoint("cosyvoice2"))), names)
    assert len(names["samples"]) == 35 * 960  # type: ignore[arg-type]  # the first hop of 10, and a chunk
