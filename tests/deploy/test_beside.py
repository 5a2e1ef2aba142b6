"""The package installs beside the newest frameworks of voice agents; asks the package index, on demand."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("pipecat-ai", "livekit-agents")
SOURCES_ALONE = "docopt"  # pure Python that nobody made a wheel of


@pytest.mark.index
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("extras", [(), ("grpc",)], ids=["base", "grpc"])
def test_a_framework_keeps_its_newest_version(
    framework: str, extras: tuple[str, ...], tmp_path: Path
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = [one for extra in extras for one in project["optional-dependencies"][extra]]
    newest = resolved(tmp_path / "alone.json", "--no-deps", framework)
    beside = resolved(tmp_path / "beside.json", framework, *project["dependencies"], *ours)
    assert beside[framework] == newest[framework]


def resolved(report: Path, *words: str) -> dict[str, str]:
    """Return the version of each package that pip would install, by its name."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--only-binary=:all:", f"--no-binary={SOURCES_ALONE}", f"--report={report}", *words]
    subprocess.run(command, check=True)
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {one["metadata"]["name"]: one["metadata"]["version"] for one in found}
