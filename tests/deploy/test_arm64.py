"""Everything pinned for serving has a wheel for 64-bit ARM, by asking the package index: on demand."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.lock import LOCK, roots, selected

EXTRAS = ("grpc", "otel", "postgresql", "provenance")
PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(17, 29)))
SOURCES_ALONE = "docopt"  # pure Python that nobody made a wheel of
TORCH = r"^TORCH := (torch==\S+)"


@pytest.mark.index
@pytest.mark.timeout(1800)
def test_what_serving_needs_has_wheels_for_arm64(tmp_path: Path) -> None:
    packages = selected(LOCK.read_text(encoding="utf-8"), roots(EXTRAS))
    pinned = [line.rstrip("\\ ") for line in packages.splitlines() if re.match(r"[\w.-]+==", line)]
    (torch,) = re.findall(TORCH, (LOCK.parent / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "packages.txt").write_text("\n".join([*pinned, torch]))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--ignore-installed",
        "--no-deps",
    ]
    command += ["--target", str(tmp_path / "target"), "--report", str(tmp_path / "report.json")]
    command += ["--only-binary=:all:", f"--no-binary={SOURCES_ALONE}", "--python-version=3.11"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    subprocess.run([*command, "-r", str(tmp_path / "packages.txt")], check=True)
    found = [one["download_info"] for one in json.loads((tmp_path / "report.json").read_text())["install"]]
    markers = [Requirement(line).marker for line in (*pinned, torch)]
    assert len(found) == sum(marker is None or marker.evaluate() for marker in markers) > 80
    unknown = [
        one["url"]
        for one in found
        if one["archive_info"]["hashes"]["sha256"] not in packages and "/torch-" not in one["url"]
    ]
    assert unknown == [], "requirements.lock has no hash of these"
