"""Tokens of a text and of a recording through the real server, and back into the same audio."""

import io
import json

import numpy as np
import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.service_client import client, measured, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

TEXT = "Good morning to everyone."


async def test_tokens_of_a_text_become_what_the_text_becomes(server: Server) -> None:
    async with client(server) as http:
        listed = await http.post("/v1/tokens", json={"text": TEXT, "seed": 7})
        *tokens, end = [json.loads(line) for line in listed.text.splitlines()]
        ids = [line["token"] for line in tokens]
        body = {"tokens": ids, "seed": 7, "format": "pcm"}
        made = await http.post("/v1/token2wav", json=body)
        exposition = (await http.get("/metrics")).text
    assert end == {"segment": 0, "text": TEXT, "end": "eos"}
    logprobs = np.array([line["logprob"] for line in tokens])
    assert (logprobs <= 0).all()
    assert -6 < logprobs.mean() < -0.01
    samples, said = np.frombuffer(made.content, "<i2"), await spoken(server, text=TEXT)
    assert len(samples) == len(ids) * 960
    num_faded = 100  # the text's leading silence is cut, and what begins then is faded
    tail = samples[len(samples) - len(said) + num_faded :].astype(int)
    assert np.abs(tail - said[num_faded:]).max() <= 2
    assert measured(exposition, "tts_queue_depth") == 0


async def test_a_language_may_ask_for_an_accent(server: Server) -> None:
    async def tokens_of(speaker: str, language: str | None = None) -> list[int]:
        body = {"text": "The car park is past the bath.", "seed": 7, "speaker": speaker, "language": language}
        listed = await http.post("/v1/tokens", json=body)
        *tokens, _ = [json.loads(line) for line in listed.text.splitlines()]
        return [line["token"] for line in tokens]

    async with client(server) as http:
        usual, british = await tokens_of("wren"), await tokens_of("wren", "en-GB")
        assert usual == await tokens_of("wren", "en-US")
        assert usual != british
        assert british == await tokens_of("flint", "en-GB")  # without a prompt all speakers say the same
        for route in ("/v1/tokens", "/v1/text"):
            refused = await http.post(route, json={"text": "Hi.", "language": "klingon"})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "language")


async def test_tokens_of_a_recording_say_it_again(server: Server) -> None:
    recording = io.BytesIO()
    source = await spoken(server, text=TEXT)
    soundfile.write(recording, source, 24_000, format="WAV")
    async with client(server) as http:
        read = await http.post("/v1/speech-tokens", files={"audio": recording.getvalue()})
        tokens = read.json()["tokens"]
        reference = {"reference_audio": recording.getvalue()}
        body = {"format": "pcm", "seed": "1"}
        foreign = await http.post("/v1/token2wav", json={"tokens": [10**6]})
        made = await http.post("/v1/token2wav", json=body | {"tokens": tokens})
        form = await http.post("/v1/token2wav", data=body | {"tokens": json.dumps(tokens)}, files=reference)
    assert len(tokens) == pytest.approx(len(source) / 960, abs=2)
    assert len(made.content) // 2 == 960 * len(tokens)
    assert "has 0 to" in foreign.json()["error"]["message"]
    assert form.status_code == 200, form.text
    assert form.content != made.content
