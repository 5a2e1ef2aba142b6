"""A voice that comes with the request: as base64, in a form, behind a WebSocket's `start`; and conversion."""

import base64
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from firstword.app.http.forms import JsonOrFormRoute, MemoryFormRoute
from firstword.app.speakers.interface import SentRecording
from tests.support.fake_engine import FakeEngine
from tests.support.serving import LIMITS, build_app, error_of, in_process, make_services
from tests.support.ws_client import received_audio, ws_client

pytestmark = pytest.mark.anyio

RECORDING = bytes(range(256)) * 8
BASE64 = base64.b64encode(RECORDING).decode()
SMALL = replace(LIMITS, max_reference_bytes=len(RECORDING))


def reference_of(engine: FakeEngine) -> SentRecording:
    reference = engine.streams[-1].request.voice.reference
    assert reference is not None
    return reference


@pytest.mark.parametrize(("path", "text"), [("/tts", "text"), ("/v1/audio/speech", "input")])
@pytest.mark.parametrize("is_form", [True, False])
async def test_recording_comes_as_base64_or_in_a_form(
    path: str, text: str, is_form: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", written.append)  # it writes to a disk
    engine = FakeEngine()
    fields: dict[str, Any] = {text: "Hi.", "reference_text": " I am  Mia. ", "mode": "zero_shot", "seed": 3}
    large = RECORDING * 1000  # over what a form keeps in memory by default
    async with in_process(make_services(engine)) as client:
        if is_form:
            answer = await client.post(path, data=fields, files={"reference_audio": ("mia.wav", large)})
        else:
            wrapped = base64.encodebytes(large).decode()
            answer = await client.post(path, json=fields | {"reference_audio": wrapped})
    assert answer.status_code == 200, answer.text
    request = engine.streams[0].request
    assert (request.voice.mode, request.seed, request.voice.speaker) == ("zero_shot", 3, None)
    assert reference_of(engine).content == large
    assert reference_of(engine).transcript == "I am Mia."
    assert not written


def test_no_form_with_a_file_may_touch_a_disk() -> None:
    forms = [
        route
        for route in build_app(make_services()).routes
        if isinstance(route, APIRoute) and route.body_field is not None
        if "UploadFile" in str(getattr(route.body_field.field_info.annotation, "model_fields", ""))
    ]
    assert len(forms) >= 5
    assert [one.path for one in forms if not isinstance(one, (MemoryFormRoute, JsonOrFormRoute))] == []


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"reference_audio": "no base64!"}, 400, "reference_audio"),
        ({"reference_audio": base64.b64encode(RECORDING + b"0").decode()}, 413, None),
        ({"reference_audio": BASE64, "speaker": "anna"}, 400, "speaker"),
        ({"reference_text": "Hello."}, 400, "reference_text"),
        ({"reference_audio": BASE64, "reference_text": "a" * 2000}, 400, "reference_text"),
        ({"voice_mode": "loudly"}, 400, "voice_mode"),
        ({"mode": "instruct"}, 400, "voice_mode"),
        ({"mode": "zero_shot", "instruct": "Softly."}, 400, "voice_mode"),
    ],
)
async def test_what_cannot_be_a_reference_is_refused(
    fields: dict[str, str], status: int, param: str | None
) -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine, limits=SMALL)) as client:
        answer = await client.post("/tts", json={"text": "Hi."} | fields)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)
    assert not engine.streams


async def test_mode_that_the_checkpoint_lacks_is_refused() -> None:
    engine = FakeEngine()
    engine.info = replace(engine.info, voice_modes=("zero_shot", "cross_lingual"))
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/tts", json={"text": "Hi.", "mode": "sft"})
    assert error_of(answer)["message"] == "fake-voice has no mode sft; it has zero_shot, cross_lingual"


async def test_field_that_comes_twice_and_a_form_that_is_none_are_refused() -> None:
    async with in_process(make_services()) as client:
        twice = await client.post("/tts", data={"text": ["a", "b"]}, files={"reference_audio": b"a"})
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        none = await client.post("/tts", content=b"--y", headers=headers)
        unknown = await client.post("/tts", data={"text": "a", "x": "1"}, files={"reference_audio": b"a"})
    assert error_of(twice)["message"] == "the field `text` came twice; send it once"
    assert (none.status_code, unknown.status_code) == (400, 400)
    assert error_of(unknown)["param"] == "x"


async def test_recording_follows_the_start_of_a_context() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        start = {"mode": "segments", "reference_bytes": len(RECORDING), "reference_text": "I am Mia."}
        await client.send("start", context="a", **start)
        await client.socket.send(RECORDING[:100])
        await client.socket.send(RECORDING[100:])
        await client.send("text", context="a", text="Hi.")
        await client.send("end", context="a")
        messages = await client.receive_until("done", "a")
        await client.send("start", context="b", voice_mode="cross_lingual", reference_audio=BASE64)
        await client.send_turn("Hi.", "b")
        await client.receive_until("done", "b")
    assert received_audio(messages, "a")
    first, second = (stream.request for stream in engine.streams)
    assert (first.mode, first.voice.mode, second.voice.mode) == ("segments", None, "cross_lingual")
    for request in (first, second):
        assert request.voice.reference is not None
        assert request.voice.reference.content == RECORDING


async def test_recording_over_the_limit_of_messages_comes_in_one() -> None:
    engine = FakeEngine()
    large = RECORDING * 200
    assert len(large) > 3 * LIMITS.max_message_bytes
    async with ws_client(make_services(engine)) as client:
        await client.send("start", reference_bytes=len(large))
        await client.socket.send(large)
        await client.send_turn("Hi.")
        await client.receive_until("done")
    assert reference_of(engine).content == large


async def test_recording_that_does_not_fit_its_start_ends_its_context() -> None:
    async with ws_client(make_services(limits=SMALL)) as client:
        await client.send("start", reference_bytes=10)
        await client.send("text", text="too early")
        assert "10 bytes of the reference" in (await client.receive_error(True))["error"]["message"]
        await client.send("start", context="b", reference_bytes=10)
        await client.socket.send(b"eleven byte")
        error = await client.receive_error(True)
        assert (error["context"], error["fatal"]) == ("b", True)
        await client.socket.send(b"nobody waits")
        assert "no context waits" in (await client.receive_error())["error"]["message"]
        await client.send("start", context="c", reference_bytes=len(RECORDING) + 1)
        assert (await client.receive_error())["error"]["code"] == "upload_too_large"
        await client.send("start", context="d", reference_bytes=10)
        await client.send("start", context="e", reference_bytes=10)
        await client.receive_until("started", "d")
        assert "still to come" in (await client.receive_error())["error"]["message"]
        await client.still_answers()


async def test_conversion_speaks_a_recording() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine, limits=SMALL)) as client:
        files = {"audio": RECORDING, "reference_audio": RECORDING}
        answer = await client.post("/v1/voice-conversion", data={"format": "pcm", "seed": 2}, files=files)
        over = await client.post("/v1/voice-conversion", files={"audio": RECORDING + b"0"})
        both = await client.post("/v1/voice-conversion", data={"speaker": "anna"}, files=files)
        none = await client.post("/v1/voice-conversion", data={"speaker": "anna"})
        unknown = await client.post("/v1/voice-conversion", data={"text": "a"}, files={"audio": b"0"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "audio/pcm"
    request = engine.streams[0].request
    assert isinstance(request.speech, SentRecording)
    assert (request.mode, request.seed, request.speech.content) == ("tokens", 2, RECORDING)
    assert reference_of(engine).content == RECORDING
    refused = (over, both, none, unknown)
    assert [one.status_code for one in refused] == [413, 400, 400, 400]
    assert [error_of(one)["param"] for one in refused[2:]] == [None, "text"]
