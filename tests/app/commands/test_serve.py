"""`firstword serve` up to where the service itself begins."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstword.app.engine import backend
from firstword.app.settings import Settings
from tests.app.commands.typed import refused, run


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
    monkeypatch.setattr(backend, "vllm_build", lambda: None)
    monkeypatch.setitem(sys.modules, "firstword.app.main", None)
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
