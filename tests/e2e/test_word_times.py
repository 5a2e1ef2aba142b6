"""When each word sounds, on every wire of a real server."""

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
import websockets

from tests.e2e.server import Server
from tests.support.service_client import client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
TEXT = "Hello there, Anna. It is 7:30 p.m. [pause:0.5s] Shall we go?"
WORDS = ["Hello", "there", "Anna", "It", "is", "7:30", "p.m", "Shall", "we", "go"]

Spoken = list[dict[str, Any]]


def check(words: Spoken, text: str = TEXT) -> None:
    """All words of the text, in order, as they stand in it."""
    assert [word["text"] for word in words] == WORDS
    assert [text[word["char_start"] : word["char_end"]] for word in words] == WORDS
    assert all(word["start_ms"] <= word["end_ms"] for word in words)
    assert all(one["end_ms"] <= other["start_ms"] + 1 for one, other in pairwise(words))
    go = {word["text"]: word for word in words}
    assert go["Shall"]["start_ms"] - go["p.m"]["end_ms"] >= 499  # the pause
    assert go["7:30"]["end_ms"] - go["7:30"]["start_ms"] > go["is"]["end_ms"] - go["is"]["start_ms"]


async def asked(server: Server, **fields: Any) -> tuple[str, bytes]:
    async with client(server) as http:
        body = {"text": TEXT, "format": "pcm", "seed": 7, "timestamps": "word", **fields}
        answer = await http.post("/tts", json=body)
    assert answer.status_code == 200, answer.text
    return answer.headers["content-type"], answer.content


async def test_lines_of_audio_and_words_are_one_answer_with_both(server: Server) -> None:
    kind, body = await asked(server)
    *chunks, end = map(json.loads, body.splitlines())
    whole_kind, whole = await asked(server, stream=False)
    once = json.loads(whole)
    assert (kind, whole_kind) == ("application/x-ndjson", "application/json")
    words = [word for chunk in chunks for word in chunk["words"]]
    check(words)
    assert words == once["words"]
    assert end == {"word_times": "aligned"} == {"word_times": once["word_times"]}
    audio_ms = 0.0
    for chunk in chunks:
        audio_ms += len(base64.b64decode(chunk["audio"])) / 2 / 24
        assert all(word["end_ms"] <= audio_ms + 0.1 for word in chunk["words"])
    assert audio_ms == len(base64.b64decode(once["audio"])) / 2 / 24


async def test_times_are_those_of_the_listener(server: Server) -> None:
    plain = json.loads((await asked(server, stream=False))[1])["words"]
    fast = json.loads((await asked(server, stream=False, speed=1.25))[1])["words"]
    assert [word["start_ms"] for word in fast] == pytest.approx(
        [word["start_ms"] / 1.25 for word in plain], abs=1
    )


async def test_characters_divide_their_word(server: Server) -> None:
    words = json.loads((await asked(server, stream=False))[1])["words"]
    characters = json.loads((await asked(server, stream=False, timestamps="char"))[1])["words"]
    assert "".join(one["text"] for one in characters) == "".join(WORDS)
    assert characters[0]["start_ms"] == words[0]["start_ms"]
    assert characters[4]["end_ms"] == words[0]["end_ms"]
    assert characters[-1]["char_end"] == words[-1]["char_end"]


async def test_events_of_openai_carry_words(server: Server) -> None:
    body = {"input": TEXT, "response_format": "pcm", "seed": 7, "timestamps": "word"}
    async with client(server) as http:
        refused = await http.post("/v1/audio/speech", json=body)
        answer = await http.post("/v1/audio/speech", json={**body, "stream_format": "sse"})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "timestamps"
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    check([word for event in events for word in event.get("words", [])])


@pytest.mark.parametrize("mode", ["segments", "continuous"])
async def test_frames_of_a_socket_carry_words(server: Server, mode: str) -> None:
    words, frames = [], []
    async with websockets.connect(f"{server.ws_url}/tts/stream") as socket:
        start = {"type": "start", "seed": 7, "mode": mode, "timestamps": "word"}
        await socket.send(json.dumps(start))
        for piece in (TEXT[:3], TEXT[3:30], TEXT[30:]):
            await socket.send(json.dumps({"type": "text", "text": piece}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            event = {} if isinstance(message, bytes) else json.loads(message)
            if event.get("type") == "audio":
                words += event["words"]
                frames.append(event)
            if event.get("type") in ("done", "error"):
                break
    check(words)
    assert event["stats"]["word_times"] == "aligned"
    assert len(frames) > 2


async def test_what_was_spoken_is_known_by_the_words(server: Server) -> None:
    """A cancel is answered with the words that ended before it, not with a share of the text."""
    async with websockets.connect(f"{server.ws_url}/tts/stream") as socket:
        await socket.send(json.dumps({"type": "start", "seed": 7, "mode": "segments", "timestamps": "word"}))
        await socket.send(json.dumps({"type": "text", "text": TEXT}))
        await socket.send(json.dumps({"type": "flush"}))
        words: Spoken = []
        async for message in socket:
            event = {} if isinstance(message, bytes) else json.loads(message)
            words += event.get("words", [])
            if event.get("type") == "flushed":
                break
        middle = words[5]  # "7:30"
        await socket.send(json.dumps({"type": "cancel", "played_ms": middle["end_ms"] + 5}))
        cancelled = json.loads(await socket.recv())
    assert cancelled["spoken_text"] == TEXT[: TEXT.index("7:30") + 4]
    assert cancelled["spoken_text"] + cancelled["remaining_text"] == TEXT
