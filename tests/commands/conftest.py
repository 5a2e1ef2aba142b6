"""What the commands find where the service would be."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstword.app.settings import PREFIX, Settings
from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def logging_set_up(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the commands asked of logging, which stays as pytest has it."""
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("firstword.app.telemetry.logs.configure_logging", lambda *given: asked.append(given))
    return asked


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """What `say` finds where the service would be loaded."""
    engine = FakeEngine()

    @asynccontextmanager
    async def open_voice(*options: object, **named: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(info=engine.info, open=engine.open, speakers=FakeSpeakers())

    for module in ("synthesizer", "async_voice"):
        monkeypatch.setattr(f"firstword.app.{module}.open_voice", open_voice)
    return engine


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `serve` started the service with."""
    settings_seen: list[Settings] = []

    async def serve(
        settings: Settings, announce: Callable[[str], None], on_drained: Callable[[], None]
    ) -> None:
        settings_seen.append(settings)
        announce("http://127.0.0.1:1 speaks [softly]")

    main = SimpleNamespace(begin_loading=lambda: None, serve=serve, serve_over_ray=serve)
    monkeypatch.setitem(sys.modules, "firstword.app.main", main)
    return settings_seen
