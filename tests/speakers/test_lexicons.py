"""A speaker's own words: kept with it, changed, carried to another server, and gone with it."""

import json
import sqlite3

import pytest

from firstword.app.errors import InvalidRequest
from firstword.app.speakers.interface import SpeakerChange
from firstword.app.speakers.lexicon import checked_lexicon
from firstword.app.text.marks import MAX_LEXICON_ENTRIES
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers

pytestmark = pytest.mark.anyio
WORDS = {"Nguyen": "win", "重庆": "虫庆"}


async def test_a_speakers_lexicon_is_durable_changed_carried_and_deleted(servers: Servers) -> None:
    registry = await servers.open()
    assert (await registry.enrol("mia", recording(), "Hello.", lexicon=WORDS)).lexicon == WORDS
    assert (await registry.enrol("tom", recording(), "Hello.")).lexicon == {}
    registry = await servers.open()
    assert registry.get("mia").lexicon == WORDS
    assert (await registry.update("mia", SpeakerChange("Hello there."))).lexicon == WORDS
    copy = await registry.import_bundle(await registry.export("mia"), "copy")
    assert copy.lexicon == WORDS
    assert (await registry.update("copy", SpeakerChange(lexicon={"a": "b"}))).lexicon == {"a": "b"}
    assert (await registry.update("copy", SpeakerChange(lexicon={}))).lexicon == {}
    await registry.delete("mia")
    with sqlite3.connect(servers.path) as connection:
        assert connection.execute("SELECT count(*) FROM lexicons").fetchone() == (0,)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{", "JSON object"),
        ("[]", "JSON object"),
        ('{"a": 1}', "JSON object"),
        ('{" ": "b"}', "expected a word of 1 to 100"),
        ({"a": "b" * 401}, "expected a word of 1 to 100"),
        ({str(n): "n" for n in range(MAX_LEXICON_ENTRIES + 1)}, "10001 entries"),
    ],
)
def test_a_bad_lexicon_is_refused(given: str | dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        checked_lexicon(given)
    assert caught.value.param == "lexicon"


def test_a_lexicon_is_an_object_or_its_json() -> None:
    assert checked_lexicon(json.dumps(WORDS)) == checked_lexicon(WORDS) == WORDS
    assert checked_lexicon("") == {}
