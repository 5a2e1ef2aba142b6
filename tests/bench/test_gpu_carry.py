"""What travels to a machine with a GPU: which wheels, how much of the checkout, which is whole again."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from firstword.bench.gpu import carry

ROOT = Path(__file__).parents[2]
WEIGHTS = "models/builtin/flow.bin"
STAYS = ("app/main.py", "models/config.py")
GOES = (WEIGHTS, "tests/test_it.py", "training/recipe.py", "docs/page.md")
THERE = {"python_version": "3.12", "python_full_version": "3.12.3", "sys_platform": "linux", "extra": ""}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(requirement: str, found: dict[str, set[str]]) -> None:
    """Note the package and all that it needs on Linux with Python 3.12, but torch's own."""
    parsed = Requirement(requirement)
    name = normalized(parsed.name)
    if name == "torch" or (name in found and parsed.extras <= found[name]):
        return
    found.setdefault(name, set()).update(parsed.extras)
    for line in requires(parsed.name) or []:
        marker = Requirement(line).marker
        if marker is None or any(marker.evaluate({**THERE, "extra": one}) for one in ("", *parsed.extras)):
            needed(line.partition(";")[0], found)


def test_service_runs_with_what_is_carried_and_what_is_expected_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, set[str]] = {}
    for line in project["dependencies"]:
        if Requirement(line).marker is None or Requirement(line).marker.evaluate(THERE):  # type: ignore[union-attr]
            needed(line.partition(";")[0], found)
    names = {normalized(line.partition("==")[0]) for line in carry.requirements()}
    there = {normalized(name) for name in carry.expected_there()}
    unused = {
        "num2words",
        "docopt",
    }  # imported when first needed; docopt has no wheel
    assert set(found) - there - unused == names - {"tzdata"}  # which an image may lack
    assert len(names) == 30
    assert not names & there


def test_versions_are_those_of_the_lock() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {normalized(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)}
    given = [line.split("==") for line in carry.requirements()]
    assert {
        name: version for name, version in given if pinned.get(normalized(name), version) != version
    } == {}


def git(root: Path, *words: str) -> str:
    given = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(given, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of a few files, whose wheels are there."""
    root = tmp_path / "checkout"
    for name in (*STAYS, *GOES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * (1000 if name == WEIGHTS else 10))
    (root / ".gitignore").write_text("build/\n")
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Begin")
    monkeypatch.setattr(carry, "fetch", lambda folder: folder.mkdir(parents=True, exist_ok=True))
    yield root
    assert all((root / name).exists() for name in (*STAYS, *GOES)), "the checkout was not restored"
    assert git(root, "status", "--porcelain") in ("", "?? app/new.py\n")


def is_there(root: Path, names: tuple[str, ...]) -> list[bool]:
    return [(root / name).exists() for name in names]


def test_what_travels_is_thin_and_the_checkout_is_whole_again(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (checkout / "app/new.py").write_text("new")
    (checkout / "build/gpu-kit").mkdir(parents=True)
    (checkout / "build/gpu-kit/one.whl").write_text("wheel")
    program = (
        "from pathlib import Path; print(*sorted(str(p) for p in Path('.').rglob('*.*') if p.is_file()))"
    )
    command = [sys.executable, "-c", f"{program}; raise SystemExit(3)"]
    assert carry.main(["--root", str(checkout), "run", *command]) == 3
    seen = capfd.readouterr().out
    assert all(name in seen for name in (*STAYS, "app/new.py", "build/gpu-kit/one.whl"))
    assert not any(name in seen for name in GOES)
    assert "5 files, 0.0 MiB are to be carried" in seen


def test_checkout_is_whole_again_where_the_command_is_not_there_or_it_is_ended(checkout: Path) -> None:
    with pytest.raises(FileNotFoundError):
        carry.main(["--root", str(checkout), "run", "no-such-command"])
    assert all(is_there(checkout, GOES))
    program = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(20)"
    words = ["--root", str(checkout), "run", sys.executable, "-c", program]
    script = "import sys; from firstword.bench.gpu import carry; carry.fetch = lambda folder: None\n"
    script += "sys.exit(carry.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", script, *words], check=False, timeout=60)
    assert done.returncode == 128 + 15


def test_more_than_may_travel_is_refused_and_the_largest_named(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(carry, "MAX_BYTES", 1 << 20)
    (checkout / "build/gpu-kit").mkdir(parents=True)
    (checkout / "build/gpu-kit/av.whl").write_bytes(b"x" * (2 << 20))
    assert carry.main(["--root", str(checkout), "prepare"]) == 1
    assert "2.0 MiB would be carried, expected at most 1; " in (said := capsys.readouterr().err)
    assert "av.whl 2.0" in said


def test_prepared_checkout_is_restored_when_asked(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_restore_later", lambda root: None)
    assert carry.main(["--root", str(checkout), "prepare"]) == 0
    assert is_there(checkout, STAYS + GOES) == [True] * 2 + [False] * 4
    assert carry.main(["--root", str(checkout), "restore"]) == 0


def test_prepared_checkout_is_whole_in_the_end_but_not_before_its_own_time(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would restore the first preparation leaves a second one alone."""
    later = list[list[str]]()
    monkeypatch.setattr(carry, "RESTORED_AFTER_S", 0)
    monkeypatch.setattr(carry, "_restore_later", lambda root: later.append(carry.restorer(root)))
    for command in ("prepare", "restore", "prepare"):
        assert carry.main(["--root", str(checkout), command]) == 0
    first, second = later
    subprocess.run(first, check=False)
    assert not any(is_there(checkout, GOES))
    subprocess.run(second, check=True)
    assert all(is_there(checkout, GOES))
