"""`/tts` does what docs/api.md says, whatever text comes."""

import io
import json
from typing import Any

import numpy as np
import pytest
import soundfile

from firstword.app.audio.formats import FORMATS, AudioFormat
from firstword.app.surfaces.tts import SpeechBody
from tests.support.fake_engine import SAMPLE_RATE_HZ, FakeEngine, speech
from tests.support.serving import HELLO, counted, error_of, in_process, make_services
from tests.support.sounds import decode, decode_with_ffmpeg

pytestmark = pytest.mark.anyio


def pcm_of(text: str) -> bytes:
    return np.round(speech(text) * 32767).astype("<i2").tobytes()


def samples_in(pcm: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.frombuffer(pcm, "<i2") / 32768


async def test_a_text_is_spoken_in_the_default_form() -> None:
    services = make_services()
    async with in_process(services) as client:
        answer = await client.post("/tts", json={"text": HELLO})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["x-sample-rate"] == "24000"
    assert answer.headers["x-channels"] == "1"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["server-timing"].startswith("queue;dur=")
    assert "ttfb;dur=" in answer.headers["server-timing"]
    assert "content-length" not in answer.headers
    assert answer.content[4:8] == b"\xff" * 4
    np.testing.assert_allclose(samples_in(answer.content[44:]), speech(HELLO), atol=1e-4)


async def test_the_request_reaches_the_engine_as_it_was_sent() -> None:
    engine = FakeEngine()
    asked = {"text": HELLO, "speaker": "anna", "language": "en", "instruct": "gladly", "seed": 7}
    async with in_process(make_services(engine)) as client:
        answer = await client.post(
            "/tts", json={**asked, "normalize": False}, headers={"X-Request-Id": "mine-1"}
        )
    assert answer.headers["x-request-id"] == "mine-1"
    (stream,) = engine.streams
    request = stream.request
    assert (request.request_id, request.wire, request.mode) == ("mine-1", "http", "whole")
    assert (request.voice.speaker, request.voice.language, request.voice.instruct) == ("anna", "en", "gladly")
    assert (request.seed, request.reading.normalize, stream.text) == (7, False, HELLO)


@pytest.mark.parametrize("format", ["wav", "pcm", "ulaw", "alaw"])
async def test_a_complete_body_says_what_a_streamed_one_says(format: str) -> None:
    header_bytes = 44 if format == "wav" else 0
    async with in_process(make_services()) as client:
        asked = {"text": HELLO, "format": format, "speed": 1.5}
        streamed = await client.post("/tts", json=asked)
        complete = await client.post("/tts", json={**asked, "stream": False})
    assert complete.headers["content-length"] == str(len(complete.content))
    assert complete.content[header_bytes:] == streamed.content[header_bytes:]
    assert complete.headers["content-type"] == streamed.headers["content-type"]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_says_that_it_is_synthetic(stream: bool) -> None:
    async with in_process(make_services(tags_audio=True)) as client:
        headers = {"X-Request-Id": "r-7"}
        answer = await client.post("/tts", json={"text": HELLO, "stream": stream}, headers=headers)
        plain = await client.get("/livez")
    assert answer.headers["x-firstword-synthetic"] == "true"
    assert "x-firstword-synthetic" not in plain.headers
    with soundfile.SoundFile(io.BytesIO(answer.content)) as file:
        assert (file.artist, file.comment) == ("hum", "synthetic speech; request r-7")
        assert file.software.startswith("Firstword ")


async def test_a_complete_wav_has_true_sizes() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": HELLO, "stream": False})
    assert int.from_bytes(answer.content[40:44], "little") == len(answer.content) - 44


@pytest.mark.parametrize(
    ("format", "media_type"),
    [("mp3", "audio/mpeg"), ("opus", "audio/ogg"), ("flac", "audio/flac")],
)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_compressed_body_decodes_to_the_speech(
    format: str, media_type: str, is_streamed: bool
) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": HELLO, "format": format, "stream": is_streamed})
    assert answer.headers["content-type"] == media_type
    samples, rate_hz = decode_with_ffmpeg(answer.content)
    assert len(samples) / rate_hz == pytest.approx(len(speech(HELLO)) / SAMPLE_RATE_HZ, abs=0.15)
    assert np.sqrt(np.mean(samples**2)) > 0.1


async def test_an_audio_element_gets_the_same_by_a_query() -> None:
    async with in_process(make_services()) as client:
        posted = await client.post("/tts", json={"text": HELLO, "speaker": "anna", "format": "pcm"})
        query = {"text": HELLO, "speaker": "anna", "format": "pcm", "cache_buster": "17"}
        got = await client.get("/tts", params=query)
    assert (got.status_code, got.content) == (200, posted.content)


async def test_ulaw_is_sent_at_8_khz_unless_told() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": HELLO, "format": "ulaw"})
        refused = await client.post("/tts", json={"text": HELLO, "format": "ulaw", "sample_rate": 24000})
    assert answer.headers["x-sample-rate"] == "8000"
    assert len(answer.content) == len(speech(HELLO)) // 3
    assert refused.status_code == 400
    assert error_of(refused)["param"] == "sample_rate"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": None}, "text"),
        ({"text": 5}, "text"),
        ({"text": ["a"]}, "text"),
        ({"text": "hi", "speed": 0.49}, "speed"),
        ({"text": "hi", "speed": 2.01}, "speed"),
        ({"text": "hi", "speed": "quick"}, "speed"),
        ({"text": "hi", "sample_rate": 11025}, "sample_rate"),
        ({"text": "hi", "format": "midi"}, "format"),
        ({"text": "hi", "seed": -1}, "seed"),
        ({"text": "hi", "seed": 2**70}, "seed"),
        ({"text": "hi", "spaeker": "anna"}, "spaeker"),
        ({"text": "hi", "x" * 100_000: 1}, "x" * 60 + "…"),
    ],
)
async def test_a_bad_value_is_refused_by_the_name_of_its_field(body: dict[str, object], param: str) -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/tts", json=body)
    error = error_of(answer)
    assert answer.status_code == 400
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        "invalid_request",
        param,
    )
    assert param.replace("_", " ") in str(error["message"]).replace("_", " ")
    assert len(answer.content) < 1000
    assert not engine.open_streams


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"text": NaN}', b"[" * 100_000, b'{"text":"\xc3"}'],
)
async def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_request"


async def test_an_object_sent_as_a_form_is_answered_with_what_to_do() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(
            "/tts", content=b'{"text":"hi"}', headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
    assert answer.status_code == 400
    assert "Content-Type: application/json" in str(error_of(answer)["message"])


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00 a", r"a \ud83d", r"\ude00\ud83d"])
@pytest.mark.parametrize("field", ["text", "speaker", "language"])
async def test_a_lone_surrogate_is_refused(escape: str, field: str) -> None:
    body = json.dumps({"text": "hi"} | {field: "@"}).replace("@", escape)
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert error_of(answer)["param"] == field


async def test_a_lone_surrogate_as_an_unknown_field_is_named() -> None:
    async with in_process(make_services()) as client:
        body = rb'{"text": "hi", "\ud800": 1}'
        answer = await client.post("/tts", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


async def test_a_text_over_the_limit_is_refused_before_it_waits_for_a_place() -> None:
    engine = FakeEngine(refusal=AssertionError("opened"))
    async with in_process(make_services(engine)) as client:
        longest = await client.post("/tts", json={"text": "a" * 4096})
        answer = await client.post("/tts", json={"text": "a" * 4097})
    assert longest.status_code == 500  # it got as far as the engine
    assert (answer.status_code, error_of(answer)["code"]) == (413, "text_too_long")
    assert "4097" in str(error_of(answer)["message"])


async def test_a_million_characters_are_refused() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": "a" * 1_000_000})
    assert (answer.status_code, error_of(answer)["code"]) == (413, "text_too_long")


async def test_the_longest_text_is_spoken_whole() -> None:
    engine = FakeEngine(samples_per_character=10)
    text = "ä" * 4096
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/tts", json={"text": text, "format": "pcm"})
    assert len(answer.content) == 4096 * 10 * 2


async def test_null_is_the_default_of_every_optional_field() -> None:
    async with in_process(make_services()) as client:
        plain = await client.post("/tts", json={"text": HELLO})
        nulls = dict.fromkeys(set(SpeechBody.model_fields) - {"text"})
        answer = await client.post("/tts", json={"text": HELLO, **nulls})
    assert (answer.status_code, answer.content) == (200, plain.content)
    assert answer.headers["content-type"] == plain.headers["content-type"]


@pytest.mark.parametrize("field", ["seed", "speed", "sample_rate"])
async def test_true_is_no_number(field: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": HELLO, field: True})
    assert (answer.status_code, error_of(answer)["param"]) == (400, field)


async def test_voice_is_another_name_of_speaker() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        for fields in (
            {"voice": "anna"},
            {"voice": "hum", "speaker": "anna"},
            {"voice": "anna", "speaker": None},
        ):
            assert (await client.post("/tts", json={"text": HELLO, **fields})).status_code == 200
        assert (await client.get("/tts", params={"text": HELLO, "voice": "anna"})).status_code == 200
    assert [stream.speaker for stream in engine.streams] == ["anna"] * 4


@pytest.mark.parametrize(
    ("name", "message"),
    [("spaeker", "unknown field `spaeker`; did you mean `speaker`?"), ("colour", "remove it")],
)
async def test_a_query_with_an_unknown_parameter_is_refused(name: str, message: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.get("/tts", params={"text": HELLO, name: "x"})
        ignored = await client.get("/tts", params={"text": HELLO, "_": "1", "_t": "2", "cache_buster": "3"})
    assert (answer.status_code, error_of(answer)["param"]) == (400, name)
    assert message in str(error_of(answer)["message"])
    assert ignored.status_code == 200


async def test_a_body_that_is_no_json_names_no_offset_as_its_field() -> None:
    async with in_process(make_services()) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/tts", content=b'{"text": ', headers=headers)
    assert (answer.status_code, error_of(answer)["param"]) == (400, None)
    assert "character 9" in str(error_of(answer)["message"])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_the_moment_of_silence_is_valid_in_every_format(format: AudioFormat, is_streamed: bool) -> None:
    async with in_process(make_services()) as client:
        body = {"text": ".", "format": format, "stream": is_streamed}
        answer = await client.post("/tts", json=body)
    assert answer.status_code == 200
    samples, rate_hz = decode(format, answer.content, int(answer.headers["X-Sample-Rate"]))
    assert len(samples) / rate_hz >= 0.02
    assert np.abs(samples).max() < 1e-3  # G.711 has no zero


async def test_a_whole_body_is_a_file_that_gives_way_and_everything_else_is_played() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with in_process(services) as client:
        for whole in (True, False):
            fields = {"stream": False} if whole else {}
            await client.post("/tts", json={"text": "Hi."} | fields)
            await client.get("/tts", params={"text": "Hi."} | ({"stream": "false"} if whole else {}))
            await client.post("/v1/audio/speech", json={"input": "Hi."} | fields)
            await client.post("/v1/audio/speech", json={"input": "Hi.", "stream_format": "sse"} | fields)
    played = [stream.request.delivery.is_played for stream in engine.streams]
    assert played == [False, False, False, True, True, True, True, True]
    first_bytes = [
        counted(services, "tts_time_to_first_byte_seconds_count", protocol=p) for p in ("http", "openai")
    ]
    assert first_bytes == [2, 3]
    assert counted(services, "tts_underrun_seconds_count") == 5
