"""`firstword download` from servers of this machine that answer as the hubs do."""

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from firstword.app.commands import hubs
from firstword.app.commands.download import PUBLISHED, names_of_files
from firstword.app.commands.published import Published, pinned, read_published, write_published
from firstword.models.checkpoint.open import CHECKPOINT_FILES
from firstword.models.config import TRAITS_FILE
from tests.commands.typed import refused, run

NAME = "CosyVoice2-0.5B"
FILES = {
    "cosyvoice2.yaml": b"sample_rate: 24000\n",
    "llm.pt": bytes(range(256)) * 40_000,  # 10 MB
    "flow.pt": b"old",
    "flow.safetensors": b"new",
    "CosyVoice-BlankEN/config.json": b"{}",
    "CosyVoice-BlankEN/model.safetensors": b"a gigabyte that is not read",
    "LICENSE": b"Apache",
    "asset/dingding.png": b"png",
}
WANTED = set(FILES) - {"flow.pt", "CosyVoice-BlankEN/model.safetensors", "asset/dingding.png"}


@dataclass
class FakeHub:
    """What a server holds, how it misbehaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    listed: dict[str, bytes] | None = None  # None: as `files`
    break_after_bytes: list[int] = field(default_factory=list)  # of the answers to come
    has_ranges: bool = True
    status: int = 200
    prefix: str = ""  # of a mirror
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path of a file, Range
    tokens: list[str | None] = field(default_factory=list)
    commit: str = "main"  # that the branch is at
    redirects_to: str = ""  # where a file is
    revisions: list[tuple[str, str]] = field(default_factory=list)  # asked for, with what of it
    url: str = ""

    def listing(self, path: str) -> object:
        files = (self.files if self.listed is None else self.listed).items()
        if path == "/api/v1/models/iic/CosyVoice2-0.5B/repo/files":
            found = [
                {"Path": name, "Size": len(data), "Sha256": hashlib.sha256(data).hexdigest(), "Type": "blob"}
                for name, data in files
            ]
            return {"Code": 200, "Data": {"Files": [*found, {"Path": "asset", "Type": "tree", "Size": 0}]}}
        if path == "/api/models/FunAudioLLM/CosyVoice2-0.5B/revision/main":
            return {"sha": self.commit}
        found = re.fullmatch("/api/models/FunAudioLLM/CosyVoice2-0.5B/tree/(main|c0ffee)", path)
        if found:
            self.revisions.append((found[1], "list"))
            return [{"type": "directory", "path": "asset"}, *(_huggingface_entry(*item) for item in files)]
        return None

    def content(self, path: str, query: dict[str, list[str]]) -> str | None:
        """The name of the file that a path asks for."""
        found = re.fullmatch("(?:/FunAudioLLM/CosyVoice2-0.5B/resolve/(main|c0ffee)|/far)/(.+)", path)
        if found:
            self.revisions.append((found[1], found[2]))
            return found[2]
        if path == "/api/v1/models/iic/CosyVoice2-0.5B/repo":
            return query["FilePath"][0]
        return None


def _huggingface_entry(name: str, data: bytes) -> dict[str, object]:
    if len(data) > 1000:
        return {
            "type": "file",
            "path": name,
            "size": 130,
            "oid": "of the pointer",
            "lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)},
        }
    oid = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    return {"type": "file", "path": name, "size": len(data), "oid": oid}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    hub = FakeHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path).removeprefix(hub.prefix)
            hub.tokens.append(self.headers["Authorization"])
            listing = hub.listing(path)
            name = hub.content(path, parse_qs(parts.query))
            if hub.status != 200:
                self.answer(hub.status, b"no")
            elif listing is not None:
                self.answer(200, json.dumps(listing).encode())
            elif hub.redirects_to:
                self.send_response(302)
                self.send_header("Location", f"{hub.redirects_to}/{name}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif name in hub.files:
                self.send_file(name)
            else:
                self.answer(404, b"no")

        def send_file(self, name: str) -> None:
            data, wanted = hub.files[name], self.headers["Range"]
            hub.asked.append((name, wanted))
            status = 200
            if wanted and hub.has_ranges:
                data, status = data[int(wanted.removeprefix("bytes=").rstrip("-")) :], 206
            limit = hub.break_after_bytes.pop(0) if hub.break_after_bytes and len(data) > 1000 else len(data)
            self.answer(status, data, limit)

        def answer(self, status: int, data: bytes, limit: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:limit])
            self.close_connection = limit is not None and limit < len(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    monkeypatch.setattr(hubs, "RETRY_WAIT_S", 0.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield hub
        server.shutdown()
        thread.join()


def there(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("source", ["huggingface", "modelscope"])
@pytest.mark.parametrize("prefix", ["", "/mirrors/hub"])
def test_what_is_read_of_a_checkpoint_is_fetched(hub: FakeHub, source: str, prefix: str) -> None:
    hub.prefix = prefix
    result = run("download", NAME, "--source", source, "--mirror", hub.url + prefix)
    assert result.exit_code == 0, result.output
    assert there(Path("models/CosyVoice2-0.5B")) == {name: FILES[name] for name in WANTED}
    assert f"models/{NAME}: {len(WANTED)} files" in result.stdout
    assert [path.name for path in Path("models").iterdir()] == [NAME]


def test_huggingfaces_own_variable_names_a_mirror(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert run("download", "cosyvoice2-0.5b", "--to", "here").exit_code == 0
    assert set(there(Path("here"))) == WANTED
    assert set(hub.tokens) == {"Bearer secret"}


def test_a_broken_transfer_goes_on_where_it_ended(hub: FakeHub) -> None:
    hub.break_after_bytes = [3_000_000, 2_000_000]
    assert run("download", NAME, "--mirror", hub.url).exit_code == 0
    assert there(Path("models") / NAME)["llm.pt"] == FILES["llm.pt"]
    ranges = [wanted for name, wanted in hub.asked if name == "llm.pt"]
    assert ranges == [None, "bytes=3000000-", "bytes=5000000-"]


def test_a_command_that_was_ended_goes_on_where_it_ended(hub: FakeHub) -> None:
    hub.break_after_bytes = [4_000_000, *[0] * hubs.MAX_ATTEMPTS]
    line = refused("download", NAME, "--mirror", hub.url)
    assert "run the command again, it goes on where it ended" in line
    assert not (Path("models") / NAME).exists()
    hub.asked.clear()
    hub.break_after_bytes = []
    assert run("download", NAME, "--mirror", hub.url).exit_code == 0
    assert there(Path("models") / NAME) == {name: FILES[name] for name in WANTED}
    assert [wanted for name, wanted in hub.asked if name == "llm.pt"] == ["bytes=4000000-"]
    assert "cosyvoice2.yaml" not in [name for name, _ in hub.asked]


def test_a_server_without_ranges_sends_all_again(hub: FakeHub) -> None:
    hub.has_ranges = False
    hub.break_after_bytes = [3_000_000]
    assert run("download", NAME, "--mirror", hub.url).exit_code == 0
    assert there(Path("models") / NAME)["llm.pt"] == FILES["llm.pt"]


@pytest.mark.parametrize("name", ["llm.pt", "LICENSE"])
def test_another_content_than_the_hub_lists_is_never_kept(hub: FakeHub, name: str) -> None:
    hub.listed = dict(hub.files)
    hub.files[name] = hub.files[name][:-1] + b"?"
    line = refused("download", NAME, "--mirror", hub.url)
    assert f"{name} came 2 times with another content than the hub lists" in line
    assert not (Path("models") / NAME).exists()
    assert name not in there(Path("models") / f"{NAME}.unfinished")


@pytest.mark.parametrize("path", ["../outside.pt", "/etc/outside", "a/../../outside", "..\\outside"])
def test_a_file_outside_its_directory_is_refused(hub: FakeHub, path: str) -> None:
    hub.files[path] = b"x"
    assert "would lie outside its directory" in refused("download", NAME, "--mirror", hub.url)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("no-such-model",), 200, "no published model is named 'no-such-model'; give CosyVoice-300M, "),
        ((NAME, "--source", "github"), 200, "expected huggingface or modelscope"),
        (("somebody/else",), 200, "has no such model or file"),
        ((NAME,), 403, "A private one needs HF_TOKEN"),
        ((NAME,), 503, "answers HTTP 503; try later, or another --source"),
        ((NAME, "--mirror", "nowhere"), 200, "'nowhere' is no address of a hub"),
        ((NAME, "--mirror", "http://127.0.0.1:1"), 200, "cannot be reached"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    hub: FakeHub, words: tuple[str, ...], status: int, message: str
) -> None:
    hub.status = status
    given = words if "--mirror" in words else (*words, "--mirror", hub.url)
    assert message in refused("download", *given)


def test_a_repository_of_another_kind_is_refused_before_it_is_fetched(hub: FakeHub) -> None:
    del hub.files["cosyvoice2.yaml"]
    assert "is no CosyVoice model" in refused("download", NAME, "--mirror", hub.url)
    assert hub.asked == []


def test_what_is_there_is_not_written_over(hub: FakeHub) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    assert "is there already" in refused("download", NAME, "--to", "mine", "--mirror", hub.url)
    assert run("download", NAME, "--to", "mine", "--mirror", hub.url, "--if-missing").exit_code == 0
    assert hub.asked == []


def test_a_full_disk_is_seen_before(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "SPARE_BYTES", 1 << 60)
    assert "GiB are needed; give another --to" in refused("download", NAME, "--mirror", hub.url)
    assert hub.asked == []


def test_every_file_of_the_built_in_voice_is_among_those_fetched() -> None:
    folder = Path(hubs.__file__).parent.parent.parent / "models" / "builtin"
    own = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    documents = {name for name in own if name.endswith(".md")}
    assert TRAITS_FILE in own
    assert own - documents <= set(CHECKPOINT_FILES)


def pins(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLISHED[NAME], "huggingface", published)


def test_a_release_without_pins_says_so(hub: FakeHub) -> None:
    assert "verified by the hub's own digests alone" in run("download", NAME, "--mirror", hub.url).stdout


def test_a_pinned_revision_is_fetched_with_the_known_digests(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `make pins` looks them up, and not those that the hub lists later."""
    hub.commit = "c0ffee"
    with hubs.Hub("huggingface", hub.url) as open_hub:
        found = pinned(PUBLISHED[NAME]["huggingface"], open_hub, "huggingface", names_of_files())
    assert found.revision == "c0ffee"
    assert found.sha256 == {name: hashlib.sha256(FILES[name]).hexdigest() for name in WANTED}
    pins(found, monkeypatch)
    result = run("download", NAME, "--mirror", hub.url)
    assert "as this release knows them" in result.stdout
    assert {revision for revision, _ in hub.revisions} == {"c0ffee"}
    hub.files["llm.pt"] = b"!" * len(FILES["llm.pt"])  # with its digest: the hub itself was changed
    line = refused("download", NAME, "--mirror", hub.url, "--to", "changed")
    assert "llm.pt came 2 times with another content" in line
    del hub.files["LICENSE"]
    line = refused("download", f"FunAudioLLM/{NAME}", "--mirror", hub.url, "--to", "fewer")
    assert "other files than this release knows (LICENSE); give --revision" in line
    assert run("download", NAME, "--mirror", hub.url, "--to", "own", "--revision", "main").exit_code == 0


def test_pins_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    published = read_published()
    assert set(published) == {
        *("CosyVoice-300M", "CosyVoice-300M-SFT", "CosyVoice-300M-Instruct"),
        *("CosyVoice2-0.5B", "Fun-CosyVoice3-0.5B-2512"),
    }
    published[NAME]["modelscope"] = Published(f"iic/{NAME}", None, {"a": "b"})
    write_published(tmp_path / "pins.json", published)
    assert read_published(tmp_path / "pins.json") == published


def test_plain_http_is_spoken_with_this_machine_alone_unless_asked(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://mirror.invalid"
    for words in (("--mirror", address), ()):
        monkeypatch.setenv("HF_ENDPOINT", address)
        line = refused("download", NAME, *words)
        assert "http://mirror.invalid is plain HTTP" in line
        assert "--plain-http" in line
    hub.redirects_to = f"{address}/far"
    assert "is plain HTTP" in refused("download", NAME, "--mirror", hub.url)
    assert "cannot be reached" in refused("download", NAME, "--mirror", address, "--plain-http")


@pytest.mark.parametrize("to", [".", "..", "/"])
def test_a_directory_that_cannot_be_made_is_said(to: str) -> None:
    assert f"{to} cannot be made; give --to a directory" in refused("download", NAME, "--to", to)
