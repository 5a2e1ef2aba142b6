"""`context: full` through the real server, on every surface that takes it."""

import json

import numpy as np
import pytest

from tests.e2e.server import Server
from tests.support.service_client import client, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

TEXT = "The early train leaves for the coast at seven."


async def test_full_context_is_the_same_speech_solved_otherwise(server: Server) -> None:
    chunks, full = await spoken(server, text=TEXT), await spoken(server, text=TEXT, context="full")
    assert len(full) == pytest.approx(len(chunks), abs=1200)  # leading silence is cut in both
    assert np.abs(full[-len(chunks) :].astype(int) - chunks[-len(full) :]).max() > 100
    fields = {"format": "pcm", "seed": 7, "context": "full"}
    async with client(server) as http:
        whole = await http.post("/tts", json={**fields, "text": TEXT, "stream": False})
        openai = await http.post(
            "/v1/audio/speech", json={"input": TEXT, "response_format": "pcm", "seed": 7, "context": "full"}
        )
        listed = await http.post("/v1/tokens", json={"text": TEXT, "seed": 7})
        ids = [json.loads(line).get("token") for line in listed.text.splitlines()[:-1]]
        made = await http.post("/v1/token2wav", json={**fields, "tokens": ids})
        refused = await http.post("/tts", json={"text": TEXT, "context": "half"})
    for answer in (whole, openai):
        np.testing.assert_array_equal(np.frombuffer(answer.content, "<i2"), full)
    rest = np.frombuffer(made.content, "<i2")
    assert len(rest) == 960 * len(ids)
    num_faded = 100  # the text's leading silence is cut, and what begins then is faded
    assert np.abs(rest[len(rest) - len(full) + num_faded :].astype(int) - full[num_faded:]).max() <= 2
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "context"
