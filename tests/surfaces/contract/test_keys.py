"""Who may speak is told by one check, whatever carries the key."""

from pathlib import Path

import pytest

from firstword.app.http.keys import KeyRing
from tests.support.serving import HELLO, counted
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, Spoken

pytestmark = pytest.mark.anyio

FILE = """\
speaker = { key = "speaks", scopes = ["speak"] }
enroller = { key = "enrols", scopes = ["enrol"] }
root = { key = "rules", scopes = ["admin"] }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


async def test_who_has_no_known_key_is_refused(serve: Serve, file: Path) -> None:
    async with serve(keys=KeyRing(file=file)) as surface:
        for key in ("", "wrong", "Speaks"):
            answer = await surface.speak(HELLO, key=key)
            assert isinstance(answer, Refused), answer
            assert answer.code == "invalid_api_key"
            expected = (
                "unknown API key; check it" if key else "no API key; send one as `Authorization: Bearer"
            )
            assert answer.message.startswith(expected)
            assert "speaks" not in answer.message
        assert not surface.engine.streams
    assert counted(surface.service, "tts_rejected_total", reason="auth") == 3


async def test_a_key_does_what_it_is_for(serve: Serve, file: Path) -> None:
    async with serve(keys=KeyRing(file=file)) as surface:
        for key in ("speaks", "rules"):
            assert isinstance(await surface.speak(HELLO, key=key), Spoken), key
        answer = await surface.speak(HELLO, key="enrols")
        assert isinstance(answer, Refused)
        names = [stream.request.client.name for stream in surface.engine.streams]
    assert names == ["speaker", "root"]
    assert answer.code == "missing_scope"
    assert answer.message.startswith("the key of 'enroller' has the scope enrol, and this takes speak;")
    assert counted(surface.service, "tts_rejected_total", reason="auth") == 1


async def test_a_key_that_is_revoked_speaks_no_more(serve: Serve, file: Path) -> None:
    async with serve(keys=KeyRing(file=file)) as surface:
        assert isinstance(await surface.speak(HELLO, key="speaks"), Spoken)
        new = file.with_suffix(".new")
        new.write_text(FILE.replace('"speaks"', '"speaks-now"'))
        new.replace(file)
        answer = await surface.speak(HELLO, key="speaks")
        assert isinstance(answer, Refused)
        assert answer.code == "invalid_api_key"
        assert isinstance(await surface.speak(HELLO, key="speaks-now"), Spoken)
