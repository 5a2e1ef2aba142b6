"""Voices from recordings within requests, and conversion, through the real server."""

import io
import json
import re

import numpy as np
import pytest
import soundfile
import websockets

from tests.e2e.server import Server
from tests.support.service_client import client, measured, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SENTENCE = "Here is a voice to copy for a moment."


async def test_reference_is_read_once_and_sounds_the_same_on_every_surface(server: Server) -> None:
    recording = io.BytesIO()
    soundfile.write(recording, await spoken(server, text=SENTENCE, speaker="alder"), 24_000, format="WAV")
    content = recording.getvalue()
    fields = {"text": "Hello there.", "format": "pcm", "seed": "7", "reference_text": SENTENCE}
    async with client(server) as http:
        before = (await http.get("/metrics")).text
        first, again = [
            await http.post("/tts", data=fields, files={"reference_audio": content}) for _ in range(2)
        ]
        openai = {"input": fields["text"], "response_format": "pcm"} | fields
        third = await http.post("/v1/audio/speech", data=openai, files={"reference_audio": content})
        after = (await http.get("/metrics")).text
        names = [speaker["name"] for speaker in (await http.get("/speakers")).json()["speakers"]]
    assert first.status_code == 200, first.text
    assert first.content == again.content == third.content
    timing = [answer.headers["server-timing"] for answer in (first, again)]
    assert ['speaker_cache;desc="miss"' in timing[0], 'speaker_cache;desc="hit"' in timing[1]] == [True, True]
    stages = ("queue", "speaker", "text", "prefill", "first_hop", "flow", "vocoder", "encode", "ttfb")
    assert re.findall(r"(\w+);dur=", timing[0]) == list(stages)
    assert re.search(r'rtf;desc="\d', timing[0])
    assert first.content != (await spoken(server, text=fields["text"])).tobytes()
    for name, grown in (("misses", 1), ("hits", 2)):
        total = f"tts_speaker_cache_{name}_total"
        assert measured(after, total) - measured(before, total) == grown
    assert "(reference)" not in names
    async with websockets.connect(f"{server.ws_url}/tts/stream", max_size=None) as socket:
        start = {"type": "start", "seed": 7, "mode": "segments", "reference_text": SENTENCE}
        await socket.send(json.dumps(start | {"reference_bytes": len(content)}))
        await socket.send(content)
        await socket.send(json.dumps({"type": "text", "text": "Hello there."}))
        await socket.send(json.dumps({"type": "end"}))
        heard = b""
        async for message in socket:
            if isinstance(message, bytes):
                heard += message
            elif (event := json.loads(message))["type"] in ("done", "error"):
                break
    assert event["type"] == "done", event
    assert event["stats"]["first_byte"]["speaker_cache"] == "hit"
    assert heard == first.content


async def test_cancel_says_what_was_played_and_what_remains(server: Server) -> None:
    text = "One small word after another, and then a few more of them, until the user has had enough of it."
    async with websockets.connect(f"{server.ws_url}/tts/stream", max_size=None) as socket:
        await socket.send(json.dumps({"type": "start", "seed": 1}))
        await socket.send(json.dumps({"type": "text", "text": text}))
        await socket.send(json.dumps({"type": "flush"}))
        heard_ms, event = 0.0, {}
        while heard_ms < 2000:
            message = await socket.recv()
            if isinstance(message, str) and (event := json.loads(message))["type"] == "audio":
                heard_ms = event["start_ms"] + event["duration_ms"]
        await socket.send(json.dumps({"type": "cancel", "played_ms": 1000}))
        while event["type"] != "cancelled":
            message = await socket.recv()
            event = json.loads(message) if isinstance(message, str) else event
    assert event["spoken_text"] + event["remaining_text"] == text
    assert 3 < len(event["spoken_text"]) < 40
    assert event["audio_ms_sent"] >= 2000


async def test_conversion_keeps_the_pace_and_takes_the_voice(server: Server) -> None:
    source = await spoken(server, text=SENTENCE, speaker="alder")
    recording = io.BytesIO()
    soundfile.write(recording, source, 24_000, format="WAV")
    files = {"audio": recording.getvalue()}
    async with client(server) as http:
        url = "/v1/voice-conversion"
        streamed = await http.post(url, data={"format": "pcm", "seed": 1, "speaker": "wren"}, files=files)
        whole = await http.post(url, data={"stream": "false", "seed": 1, "speaker": "wren"}, files=files)
        bad = await http.post(url, files={"audio": b"no audio"})
        sft = await http.post("/tts", json={"text": "Hello.", "mode": "sft"})
    assert streamed.status_code == 200, streamed.text
    samples = np.frombuffer(streamed.content, "<i2")
    assert len(samples) == pytest.approx(len(source), abs=2400)
    np.testing.assert_array_equal(soundfile.read(io.BytesIO(whole.content), dtype="int16")[0], samples)
    assert bad.json()["error"]["code"] == "bad_audio"
    assert "has no mode sft; it has zero_shot, cross_lingual" in sft.json()["error"]["message"]
