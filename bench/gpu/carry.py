"""Make the checkout small enough to travel to a machine with a GPU and without a network, and whole again.

`carry.py prepare` fetches the wheels of requirements.txt into build/gpu-kit and takes weights, tests,
training and documents out of the checkout (`git sparse-checkout`); `carry.py restore` puts them back, which
happens by itself in half an hour. `carry.py run COMMAND` does both around a command, whatever becomes of it.
What travels is the checkout without what git ignores, and build/gpu-kit; more than 60 MiB of it are refused.
A script that needs nothing but Python, pip and git.
"""

import argparse
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

MAX_BYTES = 60 << 20
ROOT = Path(__file__).resolve().parents[2]
KIT = Path("build/gpu-kit")
PREPARED = KIT / "prepared"  # which preparation the checkout is thin for
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
STAYS_HERE = ("/models/builtin/", "/tests/", "/training/", "/docs/")
RESTORED_AFTER_S = 1800
LARGEST_SHOWN = 5
PYTHON = "3.12"
# The tags of Linux for x86-64 that a machine of today takes; pip matches each exactly.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)


class TooLarge(Exception):
    """The message says by how much, and what is largest."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="carry.py", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("prepare", help="fetch the wheels, thin the checkout")
    commands.add_parser("restore", help="put back what was taken out")
    run_parser = commands.add_parser("run", help="prepare, run a command, restore")
    run_parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.what == "restore":
        restore(given.root)
        return 0
    try:
        prepare(given.root)
        if given.what == "prepare":
            _restore_later(given.root)
            print(f"put it back with `{sys.executable} {__file__} restore`; in half an hour it is anyway")
            return 0
        return run(given.command, given.root)
    except TooLarge as error:
        print(f"carry.py: {error}", file=sys.stderr)
        return 1


def prepare(root: Path) -> None:
    """Raises TooLarge, and CalledProcessError where pip or git fails; the checkout is whole then."""
    fetch(root / KIT)
    thin(root)
    try:
        sizes = carried(root)
        check(sizes)
    except BaseException:
        restore(root)
        raise
    print(f"{len(sizes)} files, {sum(sizes.values()) / (1 << 20):.1f} MiB are to be carried, {KIT} with them")


def run(command: Sequence[str], root: Path) -> int:
    """Run a command over the thin checkout, which is restored however it ends. -> its exit code."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        return subprocess.run(command, cwd=root, check=False).returncode
    finally:
        restore(root)


def fetch(folder: Path) -> None:
    """Download what is missing of the wheels; those of other versions go."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = requirements()
    names = {line.replace("==", "-").replace("-", "_").lower() for line in wanted}
    for wheel in folder.glob("*.whl"):
        if "_".join(wheel.name.split("-")[:2]).lower() not in names:
            wheel.unlink()
    have = {"_".join(wheel.name.split("-")[:2]).lower() for wheel in folder.glob("*.whl")}
    missing = [line for line in wanted if line.replace("==", "-").replace("-", "_").lower() not in have]
    if missing:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        subprocess.run([*command, "--dest", str(folder), *missing], check=True)


def thin(root: Path) -> None:
    """Take out what no part of the kit reads. Files with changes that are not committed stay."""
    patterns = ["/*", *(f"!{path}" for path in STAYS_HERE)]
    _git(root, "sparse-checkout", "set", "--no-cone", *patterns)


def restore(root: Path) -> None:
    _git(root, "sparse-checkout", "disable")
    (root / PREPARED).unlink(missing_ok=True)  # last: until the checkout is whole, the later one may do it


def carried(root: Path) -> dict[Path, int]:
    """Bytes of each file that travels: those that git does not ignore, and the wheels."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    paths = {root / name for name in listed if name} | set((root / KIT).glob("*"))
    return {path: path.lstat().st_size for path in paths if path.exists() and not path.is_dir()}


def check(sizes: dict[Path, int]) -> None:
    """Raises TooLarge."""
    total = sum(sizes.values())
    if total > MAX_BYTES:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:LARGEST_SHOWN]
        named = ", ".join(f"{path.name} {sizes[path] / (1 << 20):.1f}" for path in largest)
        mib = f"{total / (1 << 20):.1f} MiB would be carried, expected at most {MAX_BYTES >> 20}"
        raise TooLarge(f"{mib}; ignore or remove some of it; the largest: {named}")


def requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def expected_there() -> list[str]:
    """Names of the packages that the machine has."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    prefix = "# there: "
    return [name for line in lines if line.startswith(prefix) for name in line.removeprefix(prefix).split()]


def _restore_later(root: Path) -> None:
    """In a process of its own, so that the checkout is whole whatever becomes of this one."""
    subprocess.Popen(
        restorer(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def restorer(root: Path) -> list[str]:
    """Return a command that restores in RESTORED_AFTER_S the checkout as it was prepared now.

    It leaves one alone that was restored meanwhile, and prepared again.
    """
    name, prepared = str(time.time_ns()), root / PREPARED
    prepared.write_text(name, encoding="utf-8")
    pause = shlex.join([sys.executable, "-c", f"import time; time.sleep({RESTORED_AFTER_S})"])
    is_still = f'[ "$(cat {shlex.quote(str(prepared))})" = {name} ]'
    again = shlex.join(["git", "-C", str(root), "sparse-checkout", "disable"])
    return ["sh", "-c", f"{pause}; {is_still} && {again}"]


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
