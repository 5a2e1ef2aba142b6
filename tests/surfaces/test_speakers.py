"""`/speakers`: enrolment, change, removal, and what travels between servers."""

from dataclasses import replace

import pytest

from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    InvalidRequest,
    Overloaded,
    SpeakerIncompatible,
)
from tests.support.fake_speakers import HUM, FakeSpeakers
from tests.support.serving import counted, error_of, in_process, make_services

pytestmark = pytest.mark.anyio

FIELDS = {
    "name",
    "kind",
    "created_at",
    "duration_s",
    "transcript",
    "language",
    "quality",
    "prompt_tokens",
    "version",
    "cached",
    "damaged",
    "owner",
    "access",
    "description",
    "lexicon",
    "yours",
}


async def test_speakers_are_listed_with_all_that_is_known_of_them() -> None:
    async with in_process(make_services()) as client:
        speakers = (await client.get("/speakers")).json()["speakers"]
        anna = (await client.get("/speakers/anna")).json()
    assert [speaker["name"] for speaker in speakers] == ["hum", "anna"]
    assert speakers[1] == anna
    assert set(anna) == FIELDS
    assert anna["quality"] == {
        "snr_db": 40.0,
        "clipping": 0.0,
        "speech_ratio": 0.9,
        "transcript_fit": None,
        "warnings": [],
    }
    assert speakers[0]["quality"] is None


async def test_a_recording_makes_a_speaker() -> None:
    speakers = FakeSpeakers()
    async with in_process(make_services(speakers=speakers)) as client:
        fields = {"name": "bo", "transcript": "Ich heiße Bo.", "language": "de", "lexicon": '{"Bo": "Boh"}'}
        answer = await client.post(
            "/speakers", data=fields, files={"audio": ("bo.wav", b"RIFF", "audio/wav")}
        )
    assert answer.status_code == 201
    assert answer.json()["lexicon"] == {"Bo": "Boh"}
    assert (answer.json()["name"], answer.json()["transcript"]) == ("bo", "Ich heiße Bo.")
    assert speakers.get("bo").prompt.language == "de"


async def test_a_speaker_needs_no_transcript() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/speakers", data={"name": "bo"}, files={"audio": b"RIFF"})
    assert (answer.status_code, answer.json()["transcript"]) == (201, "")


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (InvalidRequest("no", param="name"), 400, "invalid_request"),
        (BadAudio("no"), 400, "bad_audio"),
        (AudioTooShort("no"), 400, "audio_too_short"),
        (AudioTooLong("no"), 400, "audio_too_long"),
        (SpeakerIncompatible("no"), 409, "speaker_incompatible"),
    ],
)
@pytest.mark.parametrize(("path", "field"), [("/speakers", "audio"), ("/speakers/import", "bundle")])
async def test_what_is_wrong_with_an_upload_is_said(
    failure: Exception, status: int, code: str, path: str, field: str
) -> None:
    async with in_process(make_services(speakers=FakeSpeakers(failure=failure))) as client:
        answer = await client.post(path, data={"name": "bo"}, files={field: b"RIFF"})
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


async def test_a_name_that_is_taken_is_a_conflict() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/speakers", data={"name": "anna"}, files={"audio": b"RIFF"})
    assert (answer.status_code, error_of(answer)["code"]) == (409, "speaker_exists")


@pytest.mark.parametrize(
    ("data", "files", "param"),
    [
        ({}, {"audio": b"RIFF"}, "name"),
        ({"name": "bo"}, {}, "audio"),
        ({"name": "bo", "audio": "RIFF"}, {}, "audio"),
        ({"name": "bo", "accent": "x"}, {"audio": b"RIFF"}, "accent"),
        ({"name": "bo"}, {"audio": b"RIFF", "video": b"RIFF"}, "video"),
    ],
)
async def test_a_form_that_is_not_as_it_should_be_is_refused(
    data: dict[str, str], files: dict[str, bytes], param: str
) -> None:
    speakers = FakeSpeakers()
    async with in_process(make_services(speakers=speakers)) as client:
        answer = await client.post("/speakers", data=data, files=files)
    assert (answer.status_code, error_of(answer)["param"]) == (400, param)
    assert set(speakers.speakers) == {"hum", "anna"}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"--x"),
        ("multipart/form-data; boundary=x", b"no boundary here"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="audio"\r\n\r\nabc',
        ),
        ("application/json", b'{"name": "bo"}'),
        ("text/plain", b"hello"),
    ],
)
async def test_what_is_no_form_is_refused(content_type: str, body: bytes) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/speakers", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_request"


async def test_a_speaker_can_be_changed_in_part() -> None:
    async with in_process(make_services()) as client:
        answer = await client.patch("/speakers/anna", json={"language": "de"})
        worded = await client.patch("/speakers/anna", json={"lexicon": {"SQL": "sequel"}})
        wrong = await client.patch("/speakers/anna", json={"lexicon": {"": "sequel"}})
        refused = await client.patch("/speakers/anna", json={"owner": "anne"})
    assert (answer.json()["transcript"], answer.json()["language"]) == ("I am Anna.", "de")
    assert (refused.status_code, error_of(refused)["param"]) == (400, "owner")
    assert (worded.json()["language"], worded.json()["lexicon"]) == ("de", {"SQL": "sequel"})
    assert (wrong.status_code, error_of(wrong)["param"]) == (400, "lexicon")


async def test_a_speaker_can_be_removed() -> None:
    async with in_process(make_services()) as client:
        removed = await client.delete("/speakers/anna")
        again = await client.delete("/speakers/anna")
    assert (removed.status_code, removed.content) == (204, b"")
    assert (again.status_code, error_of(again)["code"]) == (404, "speaker_not_found")


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_the_built_in_speaker_stays(method: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.request(method, "/speakers/hum", json={} if method == "PATCH" else None)
    assert answer.status_code == 400


async def test_a_bundle_brings_a_speaker_under_its_own_or_another_name() -> None:
    async with in_process(make_services()) as client:
        bundle = await client.get("/speakers/anna/export")
        taken = await client.post("/speakers/import", files={"bundle": bundle.content})
        renamed = await client.post(
            "/speakers/import", data={"name": "ann"}, files={"bundle": bundle.content}
        )
    assert bundle.headers["content-disposition"] == 'attachment; filename="anna.safetensors"'
    assert (taken.status_code, renamed.status_code) == (409, 201)
    assert renamed.json()["name"] == "ann"


@pytest.mark.parametrize("name", ["nobody", "...", "%2e%2e%2fsecret", "a%0d%0ab", "\u202e", "x" * 3000])
async def test_nobody_of_that_name_is_not_found(name: str) -> None:
    async with in_process(make_services()) as client:
        got = await client.get(f"/speakers/{name}")
        exported = await client.get(f"/speakers/{name}/export")
    assert (got.status_code, exported.status_code) == (404, 404)


@pytest.mark.parametrize(("path", "field"), [("/speakers", "audio"), ("/speakers/import", "bundle")])
async def test_uploads_that_are_turned_away_are_counted(path: str, field: str) -> None:
    services = make_services(speakers=FakeSpeakers(failure=Overloaded("busy", 5)))
    async with in_process(services) as client:
        await client.post(path, data={"name": "bo"}, files={field: b"RIFF"})
        await client.post(path, data={"name": "bo"}, files={field: bytes((12 << 20) + 1)})
    assert counted(services, "tts_rejected_total", reason="queue_full") == 1
    assert counted(services, "tts_rejected_total", reason="too_long") == 1


async def test_a_speaker_with_a_name_in_chinese_is_exported() -> None:
    speakers = FakeSpeakers({"中文女": replace(HUM, name="中文女")})
    async with in_process(make_services(speakers=speakers)) as client:
        answer = await client.get("/speakers/中文女/export")
    assert answer.content.decode() == "中文女"
    assert "filename*=utf-8''%E4%B8%AD%E6%96%87%E5%A5%B3.safetensors" in answer.headers["Content-Disposition"]
