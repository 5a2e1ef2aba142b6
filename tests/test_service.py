"""What the service says of its settings at its start."""

import asyncio
import logging
from pathlib import Path

import pytest

from firstword.app.clients import Client
from firstword.app.http.keys import KeyRing
from firstword.app.server_options import ServerOptions
from firstword.app.service import own_directory, surfaces_running, warn_of_open_door
from firstword.app.settings import InvalidSettings
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import SPEAKERS_FILE
from firstword.app.surfaces.openai.options import OpenAIOptions
from firstword.app.surfaces.openai.surface import OpenAISurface
from tests.support.serving import make_services


@pytest.mark.parametrize(
    ("host", "keys", "is_warned"),
    [
        ("0.0.0.0", [], True),
        ("::", [], True),
        ("192.0.2.1", [], True),
        ("0.0.0.0", ["ann:secret"], False),
        ("127.0.0.1", [], False),
        ("::1", [], False),
        ("localhost", [], False),
    ],
)
def test_a_server_that_others_reach_without_a_key_says_so(
    host: str, keys: list[str], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_open_door(ServerOptions(host=host), KeyRing(keys))
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == is_warned
    assert all(host in warning and "FIRSTWORD_API_KEYS" in warning for warning in warnings)


@pytest.mark.anyio
async def test_a_second_server_does_not_start_on_a_data_directory_that_is_in_use(tmp_path: Path) -> None:
    async with own_directory(tmp_path, 0.1):
        with pytest.raises(InvalidSettings, match=r"another server uses.*_DATA_DIR.*FIRSTWORD_STORE"):
            async with own_directory(tmp_path, 0.05):
                raise AssertionError("it was let in")
        async with own_directory(None, 0.0):
            pass  # servers that share a database
    async with own_directory(tmp_path / "of its own" / "made here", 0.0):
        pass


@pytest.mark.anyio
async def test_a_server_waits_for_one_that_is_stopping(tmp_path: Path) -> None:
    async def next_one() -> None:
        async with own_directory(tmp_path, 20.0):
            pass

    async with own_directory(tmp_path, 0.0):
        starting = asyncio.create_task(next_one())
        await asyncio.sleep(0.05)
        assert not starting.done()
    await starting


@pytest.mark.anyio
async def test_consents_are_there_at_the_next_start(tmp_path: Path) -> None:
    SpeakerStore(tmp_path / SPEAKERS_FILE).close()
    anna = Client("anna", frozenset({"enrol"}))
    surface = OpenAISurface(OpenAIOptions(), tmp_path)
    async with surfaces_running([surface], make_services()):
        kept = surface.consents.add("mia", "en", b"I agree.", anna)
    async with surfaces_running([surface], make_services()):
        assert surface.consents.get(kept.id, anna) == kept
