"""`firstword settings` as somebody uses what it prints."""

from pathlib import Path

import pytest

from firstword.app.settings import load_settings
from tests.commands.typed import run


def test_printed_file_sets_nothing_but_the_defaults(tmp_path: Path) -> None:
    defaults = load_settings()
    printed = run("settings").stdout
    (tmp_path / ".env").write_text(printed)
    assert load_settings() == defaults
    (tmp_path / ".env").write_text(printed.replace("# FIRSTWORD_", "FIRSTWORD_"))
    assert load_settings() == defaults


def test_taking_away_the_mark_changes_a_setting(tmp_path: Path) -> None:
    printed = run("settings").stdout
    (tmp_path / ".env").write_text(printed.replace("# FIRSTWORD_PORT=8000", "FIRSTWORD_PORT=8001"))
    assert load_settings().server.port == 8001


@pytest.mark.parametrize("words", [(), ("--markdown",)])
def test_no_key_is_printed(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("FIRSTWORD_API_KEYS", "anna:s3cret")
    assert "s3cret" not in run("settings", *words).output
