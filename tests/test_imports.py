"""Importing does no work: nothing is read, and what is not used costs nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import firstword
from tests.support.python import modules_after

HEAVY_WHEN_USED = ("wetext", "inflect", "py3langid", "matplotlib", "openai", "vllm", "grpc")


def test_the_service_reads_no_environment_and_loads_nothing_it_may_not_need() -> None:
    modules = modules_after(
        "import firstword.app.service", FIRSTWORD_PORT="no port", FIRSTWORD_NO_SUCH_SETTING="1"
    )
    assert not modules & set(HEAVY_WHEN_USED)


def test_what_needs_no_network_does_not_load_torch() -> None:
    names = ("app.cli", "app.settings", "app.core.interface", "app.audio.formats")
    assert "torch" not in modules_after("".join(f"import firstword.{name}\n" for name in names))


def test_clone_without_symbolic_links_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "firstword").mkdir()
    shutil.copy(firstword.__file__, tmp_path / "firstword" / "__init__.py")
    (tmp_path / "firstword" / "app").write_text("../app")  # as git leaves a link that it may not make
    command = [sys.executable, "-c", "import firstword"]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: this clone has no symbolic links: git clone -c"
    )
