"""What is released together has one version, and a library asks for ranges."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def project(path: str = "pyproject.toml") -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    return found


def test_clients_have_the_version_of_the_server_and_the_changelog_knows_it() -> None:
    version = project()["version"]
    assert project("clients/python/pyproject.toml")["version"] == version
    assert json.loads((ROOT / "clients/js/package.json").read_text(encoding="utf-8"))["version"] == version
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"(?m)^## \[{re.escape(str(version))}\]", changelog)


@pytest.mark.parametrize("path", ["pyproject.toml", "clients/python/pyproject.toml"])
def test_what_others_install_beside_theirs_pins_nothing(path: str) -> None:
    asked = project(path)["dependencies"]
    extras = project(path)["optional-dependencies"]
    assert isinstance(asked, list)
    assert isinstance(extras, dict)
    asked += [one for extra in ("grpc", "livekit", "pipecat") for one in extras.get(extra, ())]
    assert asked
    assert [one for one in asked if ">=" not in one or "==" in one.partition(";")[0]] == []
