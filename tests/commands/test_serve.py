"""`firstword serve` up to where the service itself begins."""

import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from firstword.app.settings import Settings
from tests.commands.typed import refused, run

ROOT = Path(__file__).parents[2]


def test_serve_lets_options_go_before_the_environment(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch, logging_set_up: list[tuple[str, str]]
) -> None:
    monkeypatch.setenv("FIRSTWORD_MAX_STREAMS", "3")
    monkeypatch.setenv("FIRSTWORD_LOG_LEVEL", "debug")
    result = run("serve", "--port", "0", "--log-level", "error", "--log-format", "json")
    assert result.exit_code == 0, result.output
    assert (served[0].server.port, served[0].engine.max_streams) == (0, 3)
    assert logging_set_up == [("error", "json")]
    assert "speaks [softly]" in result.stderr


def test_a_bad_option_is_named_as_it_was_typed() -> None:
    assert refused("serve", "--port", "99999").startswith(
        "firstword: --port is '99999': input should be less"
    )
    assert "--max-streams is '-3'" in refused("serve", "--max-streams", "-3")


def test_serve_runs_where_there_is_no_uvloop(served: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    result = run("serve", "--port", "0")
    assert result.exit_code == 0, result.output
    assert len(served) == 1


@pytest.mark.parametrize(("platform", "is_needed"), [("linux", True), ("darwin", True), ("win32", False)])
def test_uvloop_is_required_only_where_it_exists(platform: str, is_needed: bool) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = map(Requirement, project["dependencies"])
    (uvloop,) = (requirement for requirement in requirements if requirement.name == "uvloop")
    assert uvloop.marker is not None
    assert uvloop.marker.evaluate({"sys_platform": platform}) == is_needed


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FIRSTWORD_BACKEND", "vllm", "vLLM is not installed; pip install 'firstword[vllm]'"),
        ("FIRSTWORD_API_KEYS", "s3cret", "FIRSTWORD_API_KEYS: API key number 1 is not of the form name:key"),
        ("FIRSTWORD_CHECKPOINT", "nowhere", "nowhere"),
        ("FIRSTWORD_DATA_DIR", "file/data", "FIRSTWORD_DATA_DIR is file/data, which cannot be written"),
        ("FIRSTWORD_HOST", "256.0.0.1", "256.0.0.1:0 cannot be listened on"),
    ],
)
def test_serve_refuses_what_cannot_run_before_it_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, expected: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("firstword.models.runtimes.vllm.runtime.vllm_build", lambda: None)
    main = SimpleNamespace(begin_loading=lambda: None, serve=None, serve_over_ray=None)
    monkeypatch.setitem(sys.modules, "firstword.app.main", main)
    monkeypatch.setenv(variable, value)
    line = refused("serve", "--port", "0")
    assert expected in line
    assert "s3cret" not in line


def test_a_process_that_cannot_close_ends_all_the_same() -> None:
    code = """
import threading, time
from firstword.app.commands.serve import end_process_within
threading.Thread(target=time.sleep, args=(60,)).start()  # as one that computes
end_process_within(0.2)
"""
    began_s = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], timeout=50, capture_output=True, text=True)
    assert ended.returncode == 0
    assert "ended without waiting" in ended.stderr
    assert time.monotonic() - began_s < 40
