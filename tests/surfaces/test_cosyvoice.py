"""The published server's routes: its own fields, by GET and POST, and what is said of a field at fault."""

import numpy as np
import pytest

from tests.speakers.recordings import recording
from tests.support.fake_engine import FakeEngine, speech
from tests.support.serving import HELLO, error_of, in_process, make_services

pytestmark = pytest.mark.anyio
WAV = {"prompt_wav": ("prompt.wav", recording(), "application/octet-stream")}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("path", "fields", "mode", "instruct", "transcript"),
    [
        ("sft", {"spk_id": "anna"}, None, None, None),
        ("zero_shot", {"prompt_text": "What it says."}, "zero_shot", None, "What it says."),
        ("cross_lingual", {}, "cross_lingual", None, ""),
        ("instruct", {"spk_id": "anna", "instruct_text": "用四川话说"}, "instruct", "用四川话说", None),
        ("instruct2", {"instruct_text": "softly"}, "instruct", "softly", ""),
    ],
)
async def test_route_speaks_as_its_form_says(
    method: str,
    path: str,
    fields: dict[str, str],
    mode: str | None,
    instruct: str | None,
    transcript: str | None,
) -> None:
    engine = FakeEngine()
    files = None if transcript is None else WAV
    async with in_process(make_services(engine)) as client:
        form = {"tts_text": HELLO, **fields}
        answer = await client.request(method, f"/inference_{path}", data=form, files=files)
    assert answer.status_code == 200, answer.text
    samples = np.frombuffer(answer.content, "<i2") / 32768
    np.testing.assert_allclose(samples, speech(HELLO), atol=1e-3)
    voice = engine.streams[0].request.voice
    assert (voice.mode, voice.instruct) == (mode, instruct)
    assert (voice.speaker == "anna") == ("spk_id" in fields)
    assert (voice.reference.transcript if voice.reference else None) == transcript  # type: ignore[union-attr]


async def test_a_stream_knows_at_which_speed_it_is_heard() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        await client.post("/inference_sft", data={"tts_text": HELLO, "spk_id": "hum", "speed": "1.5"})
    assert engine.streams[0].request.delivery.speed == 1.5


async def test_field_at_fault_has_its_own_name() -> None:
    async with in_process(make_services()) as client:
        for form, param in (
            ({"tts_text": HELLO}, "spk_id"),
            ({"tts_text": HELLO, "spk_id": "中文女"}, "spk_id"),
            ({"tts_text": "a" * 4097, "spk_id": "hum"}, "tts_text"),
        ):
            error = error_of(await client.post("/inference_sft", data=form))
            assert error["param"] == param, error
            if form.get("spk_id") == "中文女":
                assert "'中文女'" in str(error["message"]), "the name as it was written"
        broken = await client.post(
            "/inference_sft",
            content=b"tts_text=%ff",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
    assert broken.status_code == 400
