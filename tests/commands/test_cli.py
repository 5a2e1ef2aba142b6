"""The command line as a whole: what there is, how it starts, how it ends when something is wrong."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from firstword.app.errors import SpeakerNotFound
from firstword.app.options import InvalidOptions
from firstword.models.config import CheckpointError
from tests.commands.typed import refused, run
from tests.support.fake_engine import FakeEngine
from tests.support.terminal import Terminal

TEXT = "Hello there."


def test_command_line_starts_without_what_is_slow() -> None:
    program = "import firstword.app.cli, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not {"torch", "numpy", "uvicorn", "fastapi", "httpx", "firstword.app.main"} & set(
        loaded.stdout.split()
    )


@pytest.mark.parametrize("words", ["say --help", "speakers list"])
def test_help_and_a_command_that_fails_wait_for_no_torch(words: str) -> None:
    program = f"import sys; sys.argv[1:] = {words.split()}\nfrom firstword.app.cli import cli"
    program += "\ntry: cli()\nfinally: print(*sys.modules)"
    nowhere = {"FIRSTWORD_CLIENT_URL": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | nowhere, capture_output=True, text=True
    )
    assert done.returncode == (words == "speakers list"), done.stderr
    assert not {"torch", "numpy"} & set(done.stdout.split())


def test_help_names_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in ("serve", "say", "speakers", "doctor", "settings", "top"))


@pytest.mark.parametrize(
    "error",
    [
        CheckpointError("llm.safetensors is missing"),
        ExceptionGroup("tasks", [ExceptionGroup("more", [SpeakerNotFound("llm.safetensors is missing")])]),
        OSError("llm.safetensors is missing"),
        InvalidOptions("llm.safetensors is missing"),
    ],
)
def test_what_the_world_breaks_is_one_line(engine: FakeEngine, error: Exception) -> None:
    engine.refusal = error
    assert refused("say", TEXT) == "firstword: llm.safetensors is missing\n"


def test_long_message_with_brackets_and_lines_is_one_line_as_it_is(engine: FakeEngine) -> None:
    engine.refusal = CheckpointError(f"a [red] tensor\n  {'x' * 200}")
    assert refused("say", TEXT) == f"firstword: a [red] tensor {'x' * 200}\n"


@pytest.mark.parametrize("error", [KeyError("bug"), ExceptionGroup("", [OSError("world"), KeyError("bug")])])
def test_bug_keeps_its_traceback(engine: FakeEngine, error: Exception) -> None:
    engine.refusal = error
    assert run("say", TEXT).exception is error


def test_bad_setting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_MAX_STREAM", "3")
    assert "did you mean FIRSTWORD_MAX_STREAMS?" in refused("serve")


@pytest.mark.parametrize(
    ("typed", "offered"), [("firstword sp", {"speakers"}), ("firstword speakers e", {"export"})]
)
def test_a_shell_can_complete_commands(typed: str, offered: set[str]) -> None:
    words = typed.split()
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1), "_FIRSTWORD_COMPLETE": "complete_bash"}
    program = Path(sys.executable).parent / "firstword"
    done = subprocess.run([program], env=os.environ | asked, check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) == offered


WAITING = """
import logging, sys
from firstword.app.commands.console import end_at_first_log_line, waiting
logging.basicConfig(format="LOG %(message)s")
with waiting("loading the networks") as end:
    end_at_first_log_line(end)
    logging.warning("loaded")
print("DONE")
"""


def test_a_terminal_shows_that_something_is_being_done() -> None:
    with Terminal([sys.executable, "-c", WAITING]) as terminal:
        text = terminal.read_to_end()
    assert "loading the networks" in text
    last_line = text.split("LOG loaded")[0].rsplit("\r\n", 1)[-1].rsplit("\x1b[2K", 1)[-1]
    assert "loading" not in last_line  # it was wiped before the log's line
    done = subprocess.run([sys.executable, "-c", WAITING], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("DONE\n", "LOG loaded\n")


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").output == f"firstword {version('firstword')}\n"
