"""Packages by version and hash: `python deploy/lock.py EXTRA ...` prints what pip installs for some extras.

    python deploy/lock.py otel > packages.txt; pip install --require-hashes --no-deps -r packages.txt

`make lock` writes requirements.lock: every package of the extras and the hashes of its files for all
platforms, but for torch and what only torch needs, whose build is the machine's own. What is in it already
keeps its version where it may. A script that needs nothing but Python, and uv to write.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "requirements.lock"
UV: Final = "uv==0.13.9"
EXTRAS: Final = ("dev", "browser", "deploy", "ray", "tensorrt")
"""All but `vllm` and `voice`, which bring gigabytes of their own."""
TRITON_CLIENT: Final = "triton-client"
"""Beside the extras: NVIDIA's client, for tests. It asks for an older ml-dtypes than ours, and runs on it."""

_ENTRY = re.compile(
    r"(?m)^(?P<name>[\w.-]+)==(?P<version>[^ \n]+)(?P<rest>[^\n]*\n(?:    --hash[^\n]*\n)+)"
    r"(?:    # via (?P<parents>[^\n]*)\n)?"
)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    extras = sys.argv[1:]
    if extras == ["--write"]:
        LOCK.write_text(pruned(compiled()), encoding="utf-8")
    else:
        sys.stdout.write(selected(LOCK.read_text(encoding="utf-8"), roots(extras)))


def roots(extras: Iterable[str]) -> set[str]:
    """Return the names that the project asks for by itself, to be built, and for some extras."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = content["project"]
    optional: Mapping[str, list[str]] = project["optional-dependencies"]
    names: set[str] = set()
    wanted = [*project["dependencies"], *content["build-system"]["requires"]]
    for extra in extras:
        wanted += ["tritonclient"] if extra == TRITON_CLIENT else optional[extra]
    for requirement in wanted:
        name, given, _ = re.split(r"(?<=\w)(?:\[(.*?)\]|(?=[^\w.-])|$)", requirement, maxsplit=1)
        if name == project["name"]:
            names |= roots(given.split(","))
        else:
            names.add(normalized(name))
    return names


def selected(lock: str, names: set[str]) -> str:
    """Return the lock's entries of these packages and of all that they need.

    Packages that only torch needs are left out, as torch is.
    """
    entries = {normalized(found["name"]): found for found in _ENTRY.finditer(lock)}
    children: dict[str, set[str]] = {}
    for name, found in entries.items():
        for parent in (found["parents"] or "").split(", "):
            children.setdefault(normalized(parent), set()).add(name)
    missing = sorted(names - entries.keys() - {"torch"})
    if missing:
        sys.exit(f"{LOCK.name} lacks {', '.join(missing)}: run `make lock`")
    needed: set[str] = set()
    added = names - {"torch"}
    while added:
        needed |= added
        added = {child for name in added for child in children.get(name, ())} - needed
    return "".join(found[0] for name, found in entries.items() if name in needed)


def pruned(lock: str) -> str:
    """Return what is needed without torch."""
    return (
        "# Written by `make lock`. torch is not in it: which build of it is right depends on the machine.\n"
        + selected(lock, roots((*EXTRAS, TRITON_CLIENT)))
    )


def compiled() -> str:
    """Return what uv makes of pyproject.toml; a version that is in the lock already is kept where it may."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        program = place / "venv/bin"
        subprocess.run([program / "pip", "install", "--quiet", UV], check=True)
        (place / "client.in").write_text("tritonclient==2.73.0\n")
        (place / "overrides.txt").write_text("ml-dtypes\n")
        lock = place / "lock.txt"
        if LOCK.exists():
            lock.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        command: list[str | Path] = [
            program / "uv",
            "pip",
            "compile",
            "pyproject.toml",
            place / "client.in",
            "-o",
            lock,
        ]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--quiet"]
        command += ["--annotation-style", "line", "--override", place / "overrides.txt"]
        command += ["--no-emit-package", "torch", *(f"--extra={extra}" for extra in EXTRAS)]
        subprocess.run(command, check=True, cwd=ROOT)
        return lock.read_text(encoding="utf-8").replace(f"{folder}/", "")


if __name__ == "__main__":
    main()
