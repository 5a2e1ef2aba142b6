"""`firstword speakers` against the real routes over a real socket, with speakers that are kept in memory."""

import asyncio
import http.server
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from firstword.app.clients import Client
from firstword.app.errors import InvalidRequest, SpeakerDamaged, SpeakerIncompatible, SynthesisFailed
from tests.commands.typed import refused, run
from tests.support.fake_speakers import ANNA, HUM, FakeSpeakers
from tests.support.serving import make_services, serving

pytestmark = pytest.mark.anyio
KEY = "s3cret"


@pytest.fixture
def known() -> FakeSpeakers:
    return FakeSpeakers()


@pytest.fixture
async def url(known: FakeSpeakers) -> AsyncIterator[str]:
    async with serving(make_services(speakers=known, keys=[f"tester:{KEY}"])) as url:
        yield url


@pytest.fixture
async def _found_by_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_CLIENT_URL", url)
    monkeypatch.setenv("FIRSTWORD_CLIENT_API_KEY", KEY)


async def run_beside(*words: str) -> Result:
    return await asyncio.to_thread(run, "speakers", *words)


async def refused_beside(*words: str) -> str:
    return await asyncio.to_thread(refused, "speakers", *words)


@pytest.mark.usefixtures("_found_by_environment")
async def test_speaker_comes_is_shown_and_goes(known: FakeSpeakers, tmp_path: Path) -> None:
    (tmp_path / "bob.wav").write_bytes(b"a recording")
    (tmp_path / "words.json").write_text('{"SQL": "sequel"}')
    options = ("--transcript", "I am [Bob].", "--language", "en", "--lexicon", "words.json")
    added = await run_beside("add", "bob", "bob.wav", *options)
    assert added.exit_code == 0, added.output
    prompt = replace(ANNA.prompt, transcript="I am [Bob].", language="en")
    bob = replace(ANNA, name="bob", prompt=prompt, owner="tester", lexicon={"SQL": "sequel"})
    assert known.speakers["bob"] == bob

    shown = await run_beside("show", "bob")
    assert "transcript: I am [Bob].\n" in shown.output
    assert "snr_db: 40.0\n" in shown.output

    listed = (await run_beside("list")).output.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "hum", "anna", "bob"]
    assert "transcript" not in listed[0], "one line a speaker, which a terminal has room for"

    removed = await run_beside("rm", "bob")
    assert removed.exit_code == 0, removed.output
    assert "bob" not in known.speakers


@pytest.mark.usefixtures("_found_by_environment")
async def test_all_registered_speakers_are_exported(tmp_path: Path) -> None:
    exported = await run_beside("export", "--all", "-o", "kept")
    assert exported.output == "kept/anna.safetensors: 4 bytes\n"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["anna.safetensors"]
    assert "give the name of one speaker, or --all" in await refused_beside("export")


@pytest.mark.usefixtures("_found_by_environment")
async def test_of_several_speakers_of_one_name_each_is_exported(
    known: FakeSpeakers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def export(name: str, *, client: Client) -> bytes:
        return f"{name} of {client.name}".encode()

    monkeypatch.setattr(known, "export", export)
    known.speakers = {owner: replace(ANNA, owner=owner, access="private") for owner in ("ben", "eva")}
    assert (await run_beside("export", "--all", "-o", "kept")).exit_code == 0
    kept = {path.name: path.read_text() for path in (tmp_path / "kept").iterdir()}
    assert kept == {"anna.ben.safetensors": "anna of ben", "anna.eva.safetensors": "anna of eva"}


@pytest.mark.usefixtures("_found_by_environment")
async def test_no_export_replaces_another_where_file_names_have_no_case(
    known: FakeSpeakers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def export(name: str, *, client: Client) -> bytes:
        return name.encode()

    monkeypatch.setattr(known, "export", export)
    known.speakers = {name: replace(ANNA, name=name) for name in ("Anna", "anna")}
    assert (await run_beside("export", "--all", "-o", "kept")).exit_code == 0
    kept = {path.name: path.read_text() for path in (tmp_path / "kept").iterdir()}
    assert kept == {"Anna.safetensors": "Anna", "anna(2).safetensors": "anna"}


@pytest.mark.usefixtures("_found_by_environment", "_full_disk")
async def test_a_full_disk_leaves_the_export_before(tmp_path: Path) -> None:
    (tmp_path / "anna.safetensors").write_bytes(b"old")
    assert "anna.safetensors: No space left on device" in await refused_beside("export", "anna")
    assert (tmp_path / "anna.safetensors").read_bytes() == b"old"


@pytest.mark.usefixtures("_found_by_environment")
async def test_a_speaker_that_cannot_be_exported_keeps_no_other_back(
    known: FakeSpeakers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def export(name: str, *, client: Client) -> bytes:
        if name == "anna":
            raise SpeakerDamaged("what the server keeps of speaker 'anna' is damaged; delete it")
        return name.encode()

    monkeypatch.setattr(known, "export", export)
    known.speakers["bob"] = replace(ANNA, name="bob")
    result = await run_beside("export", "--all", "-o", "kept")
    assert result.exit_code == 1
    assert "1 of 2 speakers were not exported, the first anna: what the server keeps" in result.stderr
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["bob.safetensors"]


@pytest.mark.usefixtures("_found_by_environment")
async def test_files_may_have_any_name_and_a_lexicon_is_utf_8(known: FakeSpeakers, tmp_path: Path) -> None:
    recording = os.fsdecode(b"b\xf6b.wav")
    (tmp_path / recording).write_bytes(b"a recording")
    (tmp_path / "words.json").write_bytes('{"Bö": "Boh"}'.encode("latin-1"))
    line = await refused_beside("add", "bob", recording, "--lexicon", "words.json")
    assert "the lexicon is not UTF-8" in line
    assert (await run_beside("add", "bob", recording)).exit_code == 0
    assert "bob" in known.speakers


@pytest.mark.usefixtures("_found_by_environment")
async def test_exported_speaker_is_imported_under_another_name(known: FakeSpeakers, tmp_path: Path) -> None:
    exported = await run_beside("export", "anna")
    assert exported.output == "anna.safetensors: 4 bytes\n"
    assert (tmp_path / "anna.safetensors").read_bytes() == b"anna"
    imported = await run_beside("import", "anna.safetensors", "--name", "carla")
    assert imported.exit_code == 0, imported.output
    assert known.speakers["carla"] == replace(ANNA, name="carla", owner="tester")


@pytest.mark.usefixtures("_found_by_environment")
async def test_who_may_use_a_speaker_is_said_and_shown(known: FakeSpeakers, tmp_path: Path) -> None:
    (tmp_path / "bob.wav").write_bytes(b"a recording")
    await run_beside("add", "bob", "bob.wav", "--access", "private")
    await run_beside("export", "hum")  # a built-in one
    await run_beside("import", "hum.safetensors", "--name", "carla", "--access", "read-only")
    assert (known.speakers["bob"].access, known.speakers["carla"].access) == ("private", "read-only")
    shown = (await run_beside("show", "bob")).output
    assert "owner: tester\n" in shown
    assert "access: private\n" in shown
    listed = (await run_beside("list")).output.splitlines()
    assert [line.split()[:4] for line in listed if "tester" in line] == [
        ["bob", "registered", "tester", "private"],
        ["carla", "registered", "tester", "read-only"],
    ]
    assert "`access`" in await refused_beside("import", "hum.safetensors", "--name", "eva", "--access", "x")


@pytest.mark.usefixtures("_found_by_environment")
async def test_warnings_about_a_recording_are_shown(known: FakeSpeakers) -> None:
    assert ANNA.quality is not None
    noisy = replace(ANNA.quality, warnings=("noisy", "clipped"))
    known.speakers["anna"] = replace(ANNA, quality=noisy)
    shown = await run_beside("show", "anna")
    assert shown.output.endswith("warning: noisy\nwarning: clipped\n")


@pytest.mark.usefixtures("_found_by_environment")
async def test_what_a_server_sends_cannot_steer_the_terminal(known: FakeSpeakers) -> None:
    evil = "\x1b[2Jgone\nname: evil"
    known.speakers["hum"] = replace(HUM, prompt=replace(HUM.prompt, transcript=evil, language=evil))
    for words in (("show", "hum"), ("list",)):
        output = (await run_beside(*words)).output
        assert "\x1b" not in output
        assert "\nname: evil" not in output


@pytest.mark.usefixtures("_found_by_environment")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("show", "nobody"),
            "No speaker is named 'nobody'; `firstword speakers list` shows those there are (HTTP 404, ",
        ),
        (("show", "../v1/models"), "(HTTP 404, "),
        (("show", "hum/x"), "; is --url where a Firstword server is, without a path behind it? (HTTP 404, "),
        (("rm", "hum"), "'hum' is built in and cannot be changed. (HTTP 400, invalid_request)"),
        (("add", "anna", "a.wav"), "or delete it with `firstword speakers rm` (HTTP 409, speaker_exists)"),
        (("add", "new", "missing.wav"), "firstword: missing.wav: No such file or directory"),
        (("import", "a.wav", "--name", "anna"), "(HTTP 409, speaker_exists)"),
        (("export", "anna", "-o", "nowhere/a"), "firstword: nowhere/a: No such file or directory"),
    ],
)
async def test_refusal_is_one_line(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    (tmp_path / "a.wav").write_bytes(b"a recording")
    assert expected in await refused_beside(*words)


@pytest.mark.usefixtures("_found_by_environment")
@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            InvalidRequest("not a speaker's bundle: too short; send what an export gave", param="bundle"),
            "too short; give a file that `firstword speakers export` wrote (HTTP 400, invalid_request)",
        ),
        (
            SpeakerIncompatible("made with another checkpoint; register the recording here instead"),
            "made with another checkpoint; make it anew with `firstword speakers add` (HTTP 409, ",
        ),
        (
            SynthesisFailed("secret"),
            "; try again, and if it fails again look in the server's log (HTTP 500, ",
        ),
    ],
)
async def test_advice_is_for_a_command_line(
    known: FakeSpeakers, tmp_path: Path, failure: Exception, expected: str
) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"a")
    known.failure = failure
    assert expected in await refused_beside("import", "a.safetensors")


@pytest.mark.usefixtures("_found_by_environment")
async def test_fault_of_the_server_names_its_request(known: FakeSpeakers, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"a")
    known.failure = SynthesisFailed("secret")
    assert re.search(
        r"\(HTTP 500, internal, request [\w-]{8,}\)", await refused_beside("import", "a.safetensors")
    )


async def test_missing_key_is_asked_for_by_its_option(url: str) -> None:
    line = await refused_beside("list", "--url", url)
    assert "no API key; give the key with --api-key" in line
    assert "Bearer" not in line


async def test_wrong_key_is_one_line_that_does_not_show_it(url: str) -> None:
    line = await refused_beside("list", "--url", url, "--api-key", "wr0ng")
    assert "; give the key with --api-key or in FIRSTWORD_CLIENT_API_KEY (HTTP 401, invalid_api_key)" in line
    assert "wr0ng" not in line


@pytest.mark.parametrize("key", ["clé", "wr0ng\nHost: evil", "wr0ng key"])
async def test_key_that_no_header_can_hold_is_not_sent(key: str) -> None:
    line = await refused_beside("list", "--url", "http://127.0.0.1:1", "--api-key", key)
    assert "the API key holds characters" in line
    assert key not in line


async def test_nobody_listening_is_one_line() -> None:
    line = await refused_beside("list", "--url", "http://127.0.0.1:1")
    assert "no server answers at http://127.0.0.1:1" in line
    assert "firstword serve" in line


@pytest.mark.parametrize("given", ["127.0.0.1:8000", "ftp://a", "http://", "http://a:port"])
async def test_what_is_no_url_is_one_line(given: str) -> None:
    assert "expected one such as http://127.0.0.1:8000" in await refused_beside("list", "--url", given)


class Stranger(http.server.BaseHTTPRequestHandler):
    """A server that is none of ours."""

    def do_GET(self) -> None:
        self.send_response(404 if self.path.endswith("x") else 200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def stranger() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["x", "y"])
async def test_server_that_is_none_of_ours_is_one_line(stranger: str, name: str) -> None:
    assert "is it a Firstword server?" in await refused_beside("show", name, "--url", stranger)
