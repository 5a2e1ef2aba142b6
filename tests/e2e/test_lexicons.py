"""A speaker's own words, and OpenAI's voice names within a text, through the real server."""

import io

import numpy as np
import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.service_client import client, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


async def test_a_speaker_says_its_own_words_and_a_request_overrides_them(server: Server) -> None:
    recording = io.BytesIO()
    text = "The early train leaves for the coast at seven."
    soundfile.write(recording, await spoken(server, text=text), 24_000, format="WAV")
    async with client(server) as http:
        form = {"name": "worded", "transcript": text, "lexicon": '{"Xyzzy": "Good morning"}'}
        made = await http.post("/speakers", data=form, files={"audio": recording.getvalue()})
        try:
            read = await http.post("/v1/text", json={"text": "Xyzzy.", "speaker": "worded"})
            own = {"text": "Xyzzy.", "speaker": "worded", "lexicon": {"xyzzy": "Good day"}}
            overridden = await http.post("/v1/text", json=own)
            said = await spoken(server, text="Xyzzy.", speaker="worded")
            plain = await spoken(server, text="Good morning.", speaker="worded")
            changed = await http.patch("/speakers/worded", json={"lexicon": {"Xyzzy": "Good night"}})
            after = await http.post("/v1/text", json={"text": "Xyzzy.", "speaker": "worded"})
        finally:
            await http.delete("/speakers/worded")
    assert made.json()["lexicon"] == {"Xyzzy": "Good morning"}, made.text
    assert [answer.json()["spoken"] for answer in (read, overridden, after)] == [
        "Good morning.",
        "Good day.",
        "Good night.",
    ]
    assert changed.json()["lexicon"] == {"Xyzzy": "Good night"}
    np.testing.assert_array_equal(said, plain)


async def test_marks_take_openais_voices_where_no_speaker_has_the_name(server: Server) -> None:
    named = await spoken(server, text="One dog. [voice:wren]Two cats.", speaker="alder")
    aliased = await spoken(server, text="One dog. [voice:alloy]Two cats.", speaker="alder")
    np.testing.assert_array_equal(aliased, named)
    async with client(server) as http:
        unknown = await http.post("/tts", json={"text": "One dog. [voice:nobody]Two cats."})
        read = await http.post("/v1/text", json={"text": "One. [voice:alloy]Two."})
        tokens = await http.post("/v1/tokens", json={"text": "One dog. [voice:alloy]Two.", "seed": 1})
        speaker = await http.post("/tts", json={"text": "One dog.", "speaker": "alloy"})
    assert unknown.status_code == 404
    assert [part["speaker"] for part in read.json()["parts"] if part["speaker"]] == ["wren"]
    assert tokens.status_code == 200
    assert speaker.status_code == 404  # only OpenAI's route and marks take them
