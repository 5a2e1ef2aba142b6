"""What the kit needs on a machine with torch and without a network: wheels, in folders that can be carried.

Where there is a network: `python bench/gpu/wheels.py download build/wheels` makes build/wheels/part1,
part2 … of at most 50 MiB each. On the machine, in the root of the repository, once for each part or for all
together: `python3 bench/gpu/wheels.py install build/wheels`. It is a script that needs nothing but Python
and pip, and leaves alone what the machine has, torch above all.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MAX_PART_BYTES = 50 << 20
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = "3.12"
# The tags of Linux for x86-64 that a machine of today takes; pip matches each exactly.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wheels.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    download_parser = commands.add_parser("download", help="fetch the wheels and sort them into parts")
    download_parser.add_argument("folder", type=Path)
    download_parser.add_argument("--without", default="", help="packages that the machine has: numpy,onnx")
    install_parser = commands.add_parser("install", help="install what is missing of all parts in a folder")
    install_parser.add_argument("folder", type=Path)
    given = parser.parse_args(words)
    if given.command == "install":
        return install(given.folder)
    return download(given.folder, {name_of(name) for name in given.without.split(",") if name})


def download(folder: Path, without: set[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [line for line in requirements() if name_of(line) not in without]
    with tempfile.TemporaryDirectory(dir=folder) as fetched:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", PYTHON, "--implementation", "cp", "--dest", fetched]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        code = subprocess.run([*command, *wanted], check=False).returncode
        if code:
            return code
        wheels = {path: path.stat().st_size for path in Path(fetched).glob("*.whl")}
        parts = parts_of(wheels)
        for number, part in enumerate(parts, start=1):
            target = folder / f"part{number}"
            target.mkdir(exist_ok=True)
            for path in part:
                path.rename(target / path.name)
            print(f"{target}: {len(part)} wheels, {sum(wheels[path] for path in part) / (1 << 20):.1f} MiB")
    return 0


def parts_of(sizes: dict[Path, int], most: int = MAX_PART_BYTES) -> list[list[Path]]:
    """Sort files into as few parts as the largest first takes, each of at most `most` bytes.

    Raises ValueError for a file that is larger than a part.
    """
    parts: list[list[Path]] = []
    for path in sorted(sizes, key=lambda path: (-sizes[path], path.name)):
        if sizes[path] > most:
            raise ValueError(f"{path.name} has {sizes[path]} bytes, more than a part of {most}")
        free = (part for part in parts if sum(sizes[one] for one in part) + sizes[path] <= most)
        part = next(free, None)
        if part is None:
            parts.append([path])
        else:
            part.append(path)
    return parts


def install(folder: Path) -> int:
    """Install the wheels of packages that are not there in any version, then this repository itself."""
    wheels = [path for path in sorted(folder.rglob("*.whl")) if not is_installed(path.name.split("-")[0])]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    for what in (list(map(str, wheels)), ["--no-build-isolation", "--editable", str(ROOT)]):
        if what and (code := subprocess.run([*pip, *what], check=False).returncode):
            return code
    return 0


def requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def name_of(requirement: str) -> str:
    """ "PyYAML==6.0.3" -> "pyyaml", as packages are compared."""
    return requirement.partition("==")[0].strip().lower().replace("_", "-").replace(".", "-")


def is_installed(name: str) -> bool:
    try:
        version(name_of(name))
    except PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
