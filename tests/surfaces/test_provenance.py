"""Marks of origin over HTTP: what answers say they carry, what files say, what is found again."""

import asyncio
import base64
import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self
from unittest.mock import patch

import httpx
import numpy as np
import pytest
import soundfile
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from firstword.app import content_credentials
from firstword.app.audio.encode import encode_whole
from firstword.app.audio.formats import SOURCE_TYPE
from firstword.app.audio.watermark import DETECTOR_HZ, Watermark
from firstword.app.content_credentials import SelfMadeSigner, read_manifest
from firstword.app.options import InvalidOptions
from firstword.app.provenance import NO_MARKS, Evidence, Provenance, open_provenance
from firstword.app.server_options import ProvenanceOptions
from tests.support.fake_engine import FakeEngine
from tests.support.serving import HELLO, error_of, in_process, make_services
from tests.support.sounds import babble
from tests.support.toy_engine import SpeechlikeToken2Wav, ToyEngine, asked

pytestmark = pytest.mark.anyio
NAMES = ("audio/watermark", "audio/watermark_detector", "provenance", "content_credentials")
MODULES = tuple(f"app/{name}.py" for name in NAMES)
UNKNOWN_CURVE = b"""\
-----BEGIN PRIVATE KEY-----
MIGIAgEAMBQGByqGSM49AgEGCSskAwMCCAEBCARtMGsCAQEEIEoKQIBsKPwcHYct
aXI1nQhdUcTYMPCRK9QML8MkmjZOoUQDQgAET/41nJhlKJt+n8n3HpNRhmdyhDcV
8ktNKhtmvBkqd5YPVl5ANC+j7+Bfy7m0YaCZPpBXdcHwPFPDF0glQHkmGQ==
-----END PRIVATE KEY-----
"""  # brainpoolP256t1
MARKED = ProvenanceOptions("watermark", provenance_payload=77, provenance_manifest=True)


class Calls:
    """Notes the functions of the modules of marks that are called while it is entered, in any thread."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __aenter__(self) -> Self:
        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code.co_filename.endswith(MODULES):
                self.names.append(frame.f_code.co_name)

        threading.setprofile(note)  # of those that begin
        sys.setprofile(note)
        return self

    async def __aexit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Provenance:
    return open_provenance(MARKED, tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize(
    ("format", "is_whole", "carried"),
    [
        ("wav", True, "watermark, metadata, c2pa"),
        ("mp3", True, "watermark, metadata, c2pa"),
        ("flac", True, "watermark, metadata, c2pa"),
        ("opus", True, "watermark, metadata"),
        ("wav", False, "watermark, metadata"),
        ("mp3", False, "watermark, metadata"),
        ("aac", True, "watermark"),
        ("pcm", False, "watermark"),
        ("ulaw", True, "watermark"),
    ],
)
async def test_answer_says_what_it_carries_and_carries_it(
    marks: Provenance, format: str, is_whole: bool, carried: str
) -> None:
    async with in_process(make_services(provenance=marks)) as client:
        answer = await client.post("/tts", json={"text": HELLO, "format": format, "stream": not is_whole})
        assert answer.headers["x-firstword-provenance"] == carried
        assert (SOURCE_TYPE.encode() in answer.content) == ("metadata" in carried)
        seen = await client.post("/v1/provenance", files={"audio": answer.content})
    if format not in ("pcm", "ulaw"):
        evidence = seen.json()
        assert evidence["source_type"] == ("metadata" in carried)
        assert evidence["watermark"]["found"] is False, "the fake engine marks nothing"
        manifest = evidence["c2pa"]
        assert (manifest is not None) == ("c2pa" in carried)
        if manifest is not None:
            assert manifest["is_synthetic"]
            assert (manifest["state"], manifest["problems"]) == ("Valid", ["signingCredential.untrusted"])


async def test_recording_is_looked_through_for_the_operators_mark(marks: Provenance) -> None:
    assert marks.watermark is not None
    file = encode_whole("mp3", babble(4.0), DETECTOR_HZ, watermark=marks.watermark)
    async with in_process(make_services(provenance=marks)) as client:
        found = (await client.post("/v1/provenance", files={"audio": file})).json()["watermark"]
        assert (found["found"], found["payload"]) == (True, 77)
        assert found["score"] > found["threshold"]
        damaged = await client.post("/v1/provenance", files={"audio": b"no recording"})
    assert damaged.status_code == 400
    assert error_of(damaged)["code"] == "bad_audio"
    async with in_process(make_services()) as client:
        assert (await client.post("/v1/provenance", files={"audio": file})).json()["watermark"] is None


async def test_a_pair_is_the_same_speech_with_and_without_a_mark() -> None:
    """Of another key each time."""
    toy = ToyEngine(token2wav=SpeechlikeToken2Wav())
    async with toy, in_process(make_services(toy.engine)) as client:
        answers = [
            await client.post("/v1/provenance/pair", json={"text": HELLO, "strength": 0.4}) for _ in range(2)
        ]
    for answer in answers:
        assert (answer.status_code, answer.headers["x-firstword-synthetic"]) == (200, "true")
        pair = {
            name: soundfile.read(io.BytesIO(base64.b64decode(file))) for name, file in answer.json().items()
        }
        (unmarked, rate_hz), (marked, marked_hz) = pair["unmarked"], pair["marked"]
        assert (len(marked), marked_hz) == (len(unmarked), rate_hz)
        difference = marked - unmarked
        assert 10 < 10 * np.log10(np.sum(unmarked**2) / np.sum(difference**2)) < 25, "dB"
    first, second = (answer.json() for answer in answers)
    assert first["unmarked"] == second["unmarked"], "the toy says the same"
    assert first["marked"] != second["marked"]


@pytest.mark.parametrize("has_manifest", [False, True])
async def test_both_files_of_a_pair_name_their_source(tmp_path: Path, has_manifest: bool) -> None:
    marks = open_provenance(ProvenanceOptions("metadata", provenance_manifest=has_manifest), tmp_path)
    async with in_process(make_services(provenance=marks)) as client:
        answer = await client.post("/v1/provenance/pair", json={"text": HELLO})
        assert answer.headers["x-firstword-provenance"] == ("metadata, c2pa" if has_manifest else "metadata")
        files = [base64.b64decode(file) for file in answer.json().values()]
        seen = [(await client.post("/v1/provenance", files={"audio": file})).json() for file in files]
    assert [evidence["source_type"] for evidence in seen] == [True, True]
    assert [evidence["c2pa"] is not None for evidence in seen] == [has_manifest] * 2
    assert seen[0]["tags"] == seen[1]["tags"]
    assert seen[0]["tags"]["artist"] == "hum"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"text": HELLO}, "ask a server with FIRSTWORD_PROVENANCE=off or metadata, or compare two files"),
        ({"text": "a" * 401}, "400"),
        ({"text": HELLO, "strength": 0.5}, "0.4"),
        ({"text": HELLO, "seed": 1}, "seed"),
    ],
)
async def test_no_pair_where_speech_must_be_marked_or_could_be_subtracted(
    marks: Provenance, body: dict[str, object], said: str
) -> None:
    async with in_process(make_services(provenance=marks)) as client:
        refused = await client.post("/v1/provenance/pair", json=body)
    assert refused.status_code == 400
    assert said in error_of(refused)["message"]


async def test_speech_that_is_kept_is_marked_when_it_is_said_again(marks: Provenance) -> None:
    async with ToyEngine(
        token2wav=SpeechlikeToken2Wav(), watermark=marks.watermark, phrase_cache_bytes=1 << 22
    ) as toy:
        said = []
        for _ in range(2):
            async with toy.engine.open(asked("A phrase to be said again, of some length.", seed=1)) as stream:
                said.append(b"".join([event.samples.tobytes() async for event in stream]))  # type: ignore[union-attr]
        assert len(toy.generator.started) == 1, "the second was kept"
    assert said[0] == said[1]


async def test_nothing_is_added_where_marks_are_off() -> None:
    """Counted: calls into the modules of marks while a text is spoken, whole and streamed, over HTTP."""
    async with in_process(make_services(FakeEngine())) as client, Calls() as calls:
        for stream in (True, False):
            answer = await client.post("/tts", json={"text": HELLO, "stream": stream})
            assert "x-firstword-provenance" not in answer.headers
    assert calls.names == []
    assert await calls_of_a_stream(None) == []


async def test_the_count_sees_what_is_added_where_they_are_on(marks: Provenance) -> None:
    assert "feed" in await calls_of_a_stream(marks.watermark)


async def calls_of_a_stream(watermark: Watermark | None) -> list[str]:
    async with (
        ToyEngine(token2wav=SpeechlikeToken2Wav(), watermark=watermark) as toy,
        Calls() as calls,
        toy.engine.open(asked("Some text.")) as speech,
    ):
        assert [event async for event in speech]
    return calls.names


def test_key_and_certificate_are_made_once_and_are_secret(tmp_path: Path) -> None:
    first, second = (open_provenance(MARKED, tmp_path) for _ in range(2))
    assert first.watermark == second.watermark
    kept = [tmp_path / "provenance.key", *(tmp_path / "provenance").glob("*-key.pem")]
    assert len(kept) == 3
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert repr(first.watermark).find(kept[0].read_text().strip()) == -1


def test_a_self_made_certificate_is_renewed_while_files_are_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = SelfMadeSigner(tmp_path)
    certificate, authority = tmp_path / "certificate.pem", tmp_path / "authority.pem"
    made = certificate.read_bytes(), authority.read_bytes()
    file = encode_whole("wav", babble(0.2), DETECTOR_HZ)
    signer.sign(file, "wav")
    assert (certificate.read_bytes(), authority.read_bytes()) == made
    monkeypatch.setattr(signer, "_renews_at", datetime.now(UTC))
    certificate.unlink()
    manifest = read_manifest(signer.sign(file, "wav"), "audio/wav")
    assert certificate.read_bytes() != made[0]
    assert authority.read_bytes() == made[1]
    assert manifest is not None
    assert manifest["is_synthetic"]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0], ids=["whole", "half", "empty"])
@pytest.mark.parametrize("num_written", range(1, 5))
def test_certificate_fits_its_authority_whenever_its_making_was_stopped(
    tmp_path: Path, num_written: int, share: float
) -> None:
    """An authority whose key is lost is made anew, and that stops after so many files, of the last of which
    a share is written."""
    SelfMadeSigner(tmp_path)
    (tmp_path / "authority-key.pem").unlink()
    write, left = content_credentials._write, iter(range(num_written - 1))

    def stopped(path: Path, content: bytes) -> None:
        is_last = next(left, None) is None
        write(path, content[: round(share * len(content))] if is_last else content)
        if is_last:
            raise OSError("stopped")

    with patch.object(content_credentials, "_write", stopped), pytest.raises(OSError, match="stopped"):
        SelfMadeSigner(tmp_path)
    SelfMadeSigner(tmp_path)
    certificate, authority = (
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
        for name in ("certificate", "authority")
    )
    certificate.verify_directly_issued_by(authority)
    for name, one in (("certificate", certificate), ("authority", authority)):
        key = serialization.load_pem_private_key((tmp_path / f"{name}-key.pem").read_bytes(), None)
        assert key.public_key() == one.public_key()


def test_servers_that_start_at_once_share_one_certificate(tmp_path: Path) -> None:
    with (
        patch.object(content_credentials, "_issued", wraps=content_credentials._issued) as issued,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(SelfMadeSigner, [tmp_path] * 4))
    assert issued.call_count == 2, "an authority and a certificate"


def test_nothing_is_written_where_marks_are_off(tmp_path: Path) -> None:
    assert open_provenance(ProvenanceOptions(), tmp_path) == NO_MARKS
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"provenance_key_file": Path("/nowhere/key")}, "key cannot be read"),
        ({"provenance_payload": 2**24}, "does not fit in 24 bits"),
        ({"provenance_manifest": True, "provenance_certificate": Path("/nowhere/c")}, "go together"),
        (
            {
                "provenance_manifest": True,
                "provenance_certificate": Path(__file__),
                "provenance_certificate_key": Path(__file__),
            },
            "cannot be signed with this certificate and key",
        ),
    ],
)
def test_options_that_cannot_be_end_the_start(options: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptions, match=said):
        open_provenance(ProvenanceOptions("watermark", **options), tmp_path)  # type: ignore[arg-type]


def test_a_key_on_a_curve_that_is_not_known_ends_the_start(tmp_path: Path) -> None:
    certificate, path = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"")
    path.write_bytes(UNKNOWN_CURVE)
    options = ProvenanceOptions(
        "metadata",
        provenance_manifest=True,
        provenance_certificate=certificate,
        provenance_certificate_key=path,
    )
    with pytest.raises(InvalidOptions, match="cannot be signed with this certificate and key"):
        open_provenance(options, tmp_path)


@pytest.mark.parametrize("path", ["/v1/provenance", "/v1/audio/voice_consents"])
async def test_recordings_that_are_looked_at_take_one_thread_and_no_client_all_turns(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    go_on = threading.Event()
    at_once = most_at_once = 0

    def slow(*given: object) -> Evidence:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        go_on.wait(20)
        at_once -= 1
        return Evidence(None, False, {}, None)

    monkeypatch.setattr(Provenance, "evidence", slow)
    monkeypatch.setattr("firstword.app.surfaces.openai.voices.decode_recording", slow)
    field, data = "audio", {}
    if path != "/v1/provenance":
        field, data = "recording", {"name": "A consent", "language": "en"}
    services = make_services(keys=["ann:a", "bob:b"])
    async with in_process(services) as client, asyncio.TaskGroup() as tasks:

        def check(key: str) -> "asyncio.Task[httpx.Response]":
            headers = {"X-API-Key": key}
            return tasks.create_task(client.post(path, data=data, files={field: b"sound"}, headers=headers))

        first = [check("a") for _ in range(5)]
        refused, _ = await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        other = check("b")
        go_on.set()
    assert [one.result().status_code for one in refused] == [503]
    assert sorted(one.result().status_code for one in (*first, other)) == [200] * 5 + [503]
    assert most_at_once == 1
