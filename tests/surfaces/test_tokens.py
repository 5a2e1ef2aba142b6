"""Speech tokens over the wire: their shapes, bounds and errors."""

import json

import numpy as np
import pytest

from firstword.app.errors import Overloaded, SynthesisFailed
from tests.support.fake_engine import INFO, FakeEngine, speech
from tests.support.serving import HELLO, error_of, in_process, make_services

pytestmark = pytest.mark.anyio

MAX_TOKENS = round(INFO.limits.max_audio_s * INFO.token_rate_hz)


def lines_of(content: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in content.splitlines()]


async def test_tokens_of_a_text_are_json_lines() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/tokens", json={"text": "Hi.", "seed": 1})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    *tokens, end = lines_of(answer.content)
    assert tokens == [{"segment": 0, "token": ord(one), "logprob": -0.5} for one in "Hi."]
    assert end == {"segment": 0, "text": "Hi.", "end": "eos"}


async def test_failure_is_a_status_before_the_first_token_and_a_line_after_it() -> None:
    engine = FakeEngine(failure=SynthesisFailed("no"), fails_after_chunks=1)
    async with in_process(make_services(engine)) as client:
        late = await client.post("/v1/tokens", json={"text": "Hi."})
        engine.fails_after_chunks = 0
        early = await client.post("/v1/tokens", json={"text": "Hi."})
        engine.refusal = Overloaded("full", 1)
        full = await client.post("/v1/tokens", json={"text": "Hi."})
        unknown = await client.post("/v1/tokens", json={"text": "Hi.", "stream": True})
    assert late.status_code == 200
    assert lines_of(late.content)[-1]["error"]["code"] == "internal"  # type: ignore[index]
    assert [one.status_code for one in (early, full, unknown)] == [500, 503, 400]


@pytest.mark.parametrize(
    "tokens", [[], [-1], [6561], ["a"], [0] * (MAX_TOKENS + 1), None], ids=lambda given: str(given)[:9]
)
async def test_tokens_that_cannot_be_spoken_are_refused(tokens: object) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/token2wav", json={"tokens": tokens})
    assert (answer.status_code, error_of(answer)["param"]) == (400, "tokens")


async def test_tokens_are_spoken() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/v1/token2wav", json={"tokens": [1, 2], "seed": 4, "format": "pcm"})
    assert answer.status_code == 200
    request = engine.streams[0].request
    assert (request.mode, request.speech, request.seed) == ("tokens", (1, 2), 4)


async def test_tokens_of_a_recording() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/speech-tokens", files={"audio": bytes(range(30))})
        extra = await client.post("/v1/speech-tokens", data={"a": "b"}, files={"audio": b"a"})
    assert answer.json() == {"tokens": list(range(25)), "token_rate": 25.0}
    assert extra.status_code == 400


@pytest.mark.parametrize("stream", [True, False])
async def test_float_samples_are_those_of_the_engine(stream: bool) -> None:
    async with in_process(make_services()) as client:
        body = {"text": HELLO, "format": "pcm_f32", "stream": stream}
        answer = await client.post("/tts", json=body)
        doubled = await client.post("/tts", json=body | {"sample_rate": 48_000})
    assert answer.headers["content-type"] == "audio/pcm;encoding=float32"
    np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4"), speech(HELLO))
    assert len(doubled.content) == pytest.approx(2 * len(answer.content), abs=64)


async def test_what_of_a_text_has_no_tokens_is_said_in_the_answer() -> None:
    async with in_process(make_services()) as client:
        marked = await client.post("/v1/tokens", json={"text": "[breath]Hi."})
        plain = await client.post("/v1/tokens", json={"text": "Hi."})
    assert marked.headers["x-firstword-warnings"] == "a mark is left out"
    assert "x-firstword-warnings" not in plain.headers


@pytest.mark.parametrize("stream", [True, False])
async def test_a_whole_body_of_tokens_or_of_a_recording_gives_way_as_a_file(stream: bool) -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        of_tokens = await client.post("/v1/token2wav", json={"tokens": [1, 2], "stream": stream, "speed": 2})
        of_recording = await client.post(
            "/v1/voice-conversion",
            data={"stream": str(stream), "speed": "2"},
            files={"audio": b"a recording"},
        )
    assert (of_tokens.status_code, of_recording.status_code) == (200, 200)
    assert [one.request.delivery.is_played for one in engine.streams] == [stream, stream]
    assert [one.request.delivery.speed for one in engine.streams] == [2, 2]
