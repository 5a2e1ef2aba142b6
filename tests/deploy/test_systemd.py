"""The unit of systemd: what it runs, and that it waits for the drain."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firstword.app.commands.serve import CLOSING_S
from firstword.app.server_options import ServerOptions
from firstword.app.settings import SETTINGS, variable_of

UNIT = Path(__file__).parents[2] / "deploy/systemd/firstword.service"


def service() -> dict[str, str]:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT, encoding="utf-8")
    return dict(unit["Service"])


def test_streams_are_waited_for_before_the_server_is_killed() -> None:
    assert int(service()["TimeoutStopSec"]) > ServerOptions().drain_timeout_s + CLOSING_S
    assert service()["KillMode"] == "mixed", "the engine's processes outlive the drain"


def test_it_sets_what_there_is_to_set_and_may_write_there() -> None:
    variable, _, directory = service()["Environment"].partition("=")
    assert variable == "FIRSTWORD_DATA_DIR"
    assert variable in map(variable_of, SETTINGS)
    assert directory == f"/var/lib/{service()['StateDirectory']}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    program = tmp_path / "firstword"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program}", UNIT.read_text(encoding="utf-8")))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert unit.name not in done.stderr
    assert done.returncode == 0, done.stderr
