"""The built wheel, installed beside other projects' `app` and `models`, speaks."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import soundfile

ROOT = Path(__file__).parent.parent
SOURCES = ("pyproject.toml", "README.md", "firstword", "app", "bench", "clients", "finetune", "models")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as building leaves folders behind; without a network."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, source / name)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"]
    pip(*words, str(built), str(source))
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with its dependencies linked, beside foreign packages of our folders' names."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False)
    python = directory / "bin" / "python"
    pip("--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("app", "models", "bench"):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("owner = 'somebody else'\n")
    return directory


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)


def run(program: Path, *words: str, cwd: Path) -> str:
    """The output of a program that sees nothing of this repository."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("FIRSTWORD_", "PYTHON"))
    }
    done = subprocess.run([program, *words], cwd=cwd, env=clean, check=True, capture_output=True, text=True)
    return done.stdout


def test_everything_is_under_firstword(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"firstword", "firstword-0.1.0.dist-info"}
    assert "firstword/models/builtin/flow.safetensors" in names
    assert "firstword/models/builtin/firstword.json" in names
    assert "firstword/app/surfaces/console/static/console/index.html" in names
    assert "firstword/app/surfaces/console/static/docs/http.js" in names
    assert "firstword/app/surfaces/console/static/client/index.js" in names
    assert "firstword/py.typed" in names


def test_installed_wheel_and_its_command_speak_beside_foreign_packages(
    environment: Path, tmp_path: Path
) -> None:
    """One process does both: what it imports takes longer than what it says."""
    command = environment / "bin" / "firstword"
    assert command.read_text().startswith(f"#!{environment / 'bin' / 'python'}")
    program = (
        "import app, bench, models, firstword, runpy, sys\n"
        "assert {app.owner, bench.owner, models.owner} == {'somebody else'}\n"
        "from firstword import Synthesizer\n"
        "with Synthesizer.open(max_streams=1) as s:\n"
        "    s.save('hello.wav', 'Hello.', seed=1)\n"
        "print(firstword.__file__)\n"
        "sys.argv = ['firstword', 'say', 'Hello.', '-o', 'said.flac', '--seed', '1']\n"
        f"runpy.run_path({str(command)!r}, run_name='__main__')\n"
    )
    where = run(environment / "bin" / "python", "-c", program, cwd=tmp_path)
    assert where.startswith(str(environment))
    for name in ("hello.wav", "said.flac"):
        assert 0.3 < soundfile.info(tmp_path / name).duration < 3
