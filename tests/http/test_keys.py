"""What a key allows, and the file of keys, which is read again when it changes."""

import asyncio
import hashlib
import logging
import os
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import WebSocketRoute

from firstword.app.clients import SCOPES, Client, Scope
from firstword.app.http.keys import MAX_FILE_BYTES, KeyRing, read_keys
from tests.support.fake_engine import FakeEngine
from tests.support.serving import build_app, counted, error_of, in_process, make_services, serving
from tests.support.ws_client import connect_client

pytestmark = pytest.mark.anyio

SHA256 = hashlib.sha256(b"abracadabra").hexdigest()
FILE = f"""\
# Who may do what.
speaker = {{ key = "speak-key", scopes = ["speak"] }}
enroller = {{ sha256 = "{SHA256}", scopes = ["enrol"], speakers = "private" }}

["both"]
key = ["both-key", "its-next-key"]
scopes = ["speak", "enrol"]

[root]
key = "root-key"
scopes = ["admin"]
"""
KEYS: dict[Scope, str] = {"speak": "speak-key", "enrol": "abracadabra", "admin": "root-key"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def change(file: Path, text: str) -> None:
    """As one should: at once."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "firstword.app.http.keys"]


# Of every route: the scope that it takes; None: any key. A new route has to be written here.
_MODEL_PATHS = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
KSERVE: dict[str, Scope | None] = {
    "GET /v2": None,
    "GET /v2/models/stats": None,
    "POST /v2/repository/index": None,
    **{f"GET {path}{what}": None for path in _MODEL_PATHS for what in ("", "/ready", "/config", "/stats")},
    **{
        f"POST {path}/{what}": "speak"
        for path in _MODEL_PATHS
        for what in ("infer", "generate", "generate_stream")
    },
}
NEEDED: dict[str, Scope | None] = {
    "POST /tts": "speak",
    "GET /tts": "speak",
    "WEBSOCKET /tts/stream": "speak",
    "GET /tts/stream": None,  # only says how to connect
    "POST /v1/signed-urls": "speak",
    "POST /v1/audio/speech": "speak",
    "POST /v1/speech-tokens": "speak",
    "POST /v1/token2wav": "speak",
    "POST /v1/tokens": "speak",
    "POST /v1/text": "speak",
    "POST /v1/voice-conversion": "speak",
    "GET /v1": None,
    "GET /v1/models": None,
    "GET /v1/models/{model:path}": None,
    "GET /v1/audio/voices": None,
    "GET /v1/capabilities": None,
    "GET /v1/usage": None,
    "GET /asyncapi.json": None,
    "GET /speakers": None,
    "GET /speakers/{name}": None,
    "GET /speakers/{name}/export": "enrol",
    "POST /speakers": "enrol",
    "POST /speakers/import": "enrol",
    "PATCH /speakers/{name}": "enrol",
    "DELETE /speakers/{name}": "enrol",
    "POST /v1/audio/voices": "enrol",
    "DELETE /v1/audio/voices/{voice_id}": "enrol",
    "GET /v1/audio/voice_consents": "enrol",
    "POST /v1/audio/voice_consents": "enrol",
    "GET /v1/audio/voice_consents/{consent_id}": "enrol",
    "POST /v1/audio/voice_consents/{consent_id}": "enrol",
    "DELETE /v1/audio/voice_consents/{consent_id}": "enrol",
    "GET /v1/audio/batches": "speak",
    "POST /v1/audio/batches": "speak",
    "GET /v1/audio/batches/{id}": "speak",
    "DELETE /v1/audio/batches/{id}": "speak",
    "POST /v1/audio/batches/{id}/cancel": "speak",
    "GET /v1/audio/batches/{id}/items": "speak",
    "GET /v1/audio/batches/{id}/items/{number}/audio": "speak",
    "GET /v1/audio/batches/{id}/audio": "speak",
    "GET /metrics": "admin",
    "POST /v1/provenance": "speak",
    "POST /v1/provenance/pair": "speak",
    **{
        f"{method} /inference_{way}": "speak"
        for method in ("GET", "POST")
        for way in ("sft", "zero_shot", "cross_lingual", "instruct", "instruct2")
    },
    **KSERVE,
}


PUBLIC_PATHS = {
    *("/livez", "/health", "/readyz", "/v2/health/live", "/v2/health/ready"),
    *("/", "/console", "/docs", "/asyncapi", "/favicon.ico"),
}


def test_every_route_has_its_scope_here() -> None:
    found = set()
    for route in build_app(make_services()).routes:
        if isinstance(route, APIRoute) and route.path not in PUBLIC_PATHS:
            found |= {f"{method} {route.path}" for method in route.methods}
        elif isinstance(route, WebSocketRoute):
            found.add(f"WEBSOCKET {route.path}")
    assert found == set(NEEDED)


@pytest.mark.parametrize("scope", SCOPES)
async def test_key_does_what_its_scopes_say_and_nothing_else(file: Path, scope: Scope) -> None:
    services = make_services(keys=KeyRing(file=file))
    refused = set()
    async with in_process(services) as client:
        for request in NEEDED:
            method, path = request.split()
            if method == "WEBSOCKET":
                continue
            path = path.replace("{name}", "an%20a").replace("{model:path}", "tts-1")
            answer = await client.request(method, path, headers=bearer(KEYS[scope]))
            assert answer.status_code != 401, request
            if answer.status_code == 403:
                refused.add(request)
                if path.startswith("/v2"):  # whose errors are a text
                    assert f"has the scope {scope}, and this takes" in answer.json()["error"]
                    continue
                error = error_of(answer)
                assert (error["type"], error["code"]) == ("permission_error", "missing_scope")
                assert f"has the scope {scope}, and this takes {NEEDED[request]};" in str(error["message"])
                assert answer.headers["www-authenticate"] == (
                    f'Bearer error="insufficient_scope", scope="{NEEDED[request]}"'
                )
    expected = {request for request, needed in NEEDED.items() if needed not in (None, scope)}
    assert refused == (set() if scope == "admin" else expected - {"WEBSOCKET /tts/stream"})
    assert counted(services, "tts_rejected_total", reason="auth") == len(refused)


async def test_websocket_takes_a_key_that_may_speak(file: Path) -> None:
    async with serving(make_services(keys=KeyRing(file=file))) as url:
        async with connect_client(url, query="?api_key=speak-key") as client:
            await client.still_answers()
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        async with httpx.AsyncClient(base_url=url) as http:
            answer = await http.get("/tts/stream", headers=upgrade | bearer("abracadabra"))
    assert (answer.status_code, error_of(answer)["code"]) == (403, "missing_scope")


async def test_two_keys_of_one_name_are_one_client(file: Path) -> None:
    ring = KeyRing(["plain:open-sesame"], file)
    one, other = ring.client_of("both-key"), ring.client_of("its-next-key")
    assert one is not None
    assert other is not None
    assert (one.name, one.scopes) == (other.name, other.scopes) == ("both", {"speak", "enrol"})
    enroller = ring.client_of("abracadabra")
    assert enroller is not None
    assert enroller.access == "private"
    plain = ring.client_of("open-sesame")
    assert plain is not None
    assert plain.may("admin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "there is no key in it; `firstword keys new NAME` prints one for it"),
        ("anna = {", "not TOML: "),
        ("a = 1\nb = = 2", "not TOML: Invalid value (at line 2, column 5)"),
        ('bob = "s3cret"', "line 1, bob: expected a table such as {"),
        ('"an na" = { key = "s3cret", scopes = ["speak"] }', "line 1: the name 'an na'; expected 1 to 64 of"),
        ('\nanna = { key = "s3cret" }', "line 2, anna.scopes: Field required"),
        (
            '[anna]\nkey = "s3cret"\n\nscopes = ["sing"]',
            "line 4, anna.scopes: Input should be 'speak',",
        ),
        ('[anna]\nkey = "s3cret"\nscopes = []', "line 3, anna.scopes: List should have at least 1 item"),
        ('[anna]\nscopes = ["speak"]', "line 1, anna: there is no key; give `sha256`, which"),
        ('[anna]\nsha256 = "s3cret"\nscopes = ["speak"]', "line 2, anna.sha256: String should match"),
        ('[anna]\nkey = "s3 cret"\nscopes = ["speak"]', "line 2, anna.key: String should match"),
        (
            '[a]\nkey="s3cret"\nscopes=["speak"]\n[b]\nscope=[]',
            "line 5, b.scope: unknown field `scope`; did you mean",
        ),
        (
            '[a]\nkey = "s3cret"\nscopes = ["speak"]\nspeakers = "secret"',
            "line 4, a.speakers: Input should be 'shared', 'read-only' or 'private'",
        ),
        ("#" * (MAX_FILE_BYTES + 1), f"larger than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_error_in_the_file_is_shown_with_its_line_and_field(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    with pytest.raises(ValueError, match=r"keys\.toml") as refused:
        read_keys(file)
    assert expected in str(refused.value)
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([], 'a = { key = "s3cret", scopes = ["speak"] }\nb = { key = "s3cret", scopes = ["admin"] }'),
        (["a:s3cret"], 'b = { key = "s3cret", scopes = ["speak"] }'),  # it would go on allowing everything
    ],
)
async def test_key_that_stands_twice_is_refused(
    file: Path, entries: list[str], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    ring = KeyRing(entries, file)
    change(file, text)
    with pytest.raises(ValueError, match=r"^a and b have the same key; make another$"):
        KeyRing(entries, file)
    await ring.refresh()
    assert "a and b have the same key" in caplog.text
    assert ring.client_of("speak-key") is not None
    assert bool(entries) == (ring.client_of("s3cret") is not None)


def test_file_that_cannot_be_read_says_so(file: Path) -> None:
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_keys(file)
    file.unlink()
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        KeyRing(file=file)


async def test_changed_file_counts_from_the_next_request(file: Path) -> None:
    async with in_process(make_services(keys=KeyRing(["env:open-sesame"], file))) as client:

        async def statuses(*keys: str) -> list[int]:
            return [(await client.get("/speakers", headers=bearer(key))).status_code for key in keys]

        assert await statuses("speak-key", "next-key", "open-sesame") == [200, 401, 200]
        change(file, FILE.replace("speak-key", "next-key"))
        assert await statuses("speak-key", "next-key", "open-sesame") == [401, 200, 200]


@pytest.mark.parametrize("fault", ["broken", "empty", "gone"])
async def test_broken_file_leaves_the_keys_and_is_logged_once(
    file: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process(make_services(keys=KeyRing(file=file))) as client:
        if fault == "gone":
            os.rename(file, file.with_suffix(".away"))
        else:
            change(file, "" if fault == "empty" else FILE.replace('["speak"]', '["sing"]'))
        with caplog.at_level(logging.INFO):
            statuses = [
                (await client.get("/speakers", headers=bearer(key))).status_code
                for key in ("speak-key", "speak-key", "unknown")
            ]
            assert statuses == [200, 200, 401]
            [record] = own(caplog)
            assert record.levelname == "ERROR"
            assert "the keys that were read before stay" in record.message
            assert ("line 2, speaker.scopes" in record.message) == (fault == "broken")
            change(file, FILE.replace("speak-key", "next-key"))
            assert (await client.get("/speakers", headers=bearer("next-key"))).status_code == 200
        assert own(caplog)[-1].message.endswith("its keys are those of both, enroller, root, speaker")
        assert "key =" not in caplog.text


async def test_requests_at_once_read_a_changed_file_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(file=file)
    reads: list[Path] = []

    def read_and_count(path: Path) -> list[Client]:
        reads.append(path)
        return read_keys(path)

    monkeypatch.setattr("firstword.app.http.keys.read_keys", read_and_count)
    os.utime(file, (1, 1))
    await asyncio.gather(*(ring.refresh() for _ in range(20)))
    assert len(reads) == 1


async def test_socket_of_a_removed_key_takes_no_more_text_and_closes(file: Path) -> None:
    engine = FakeEngine()
    services = make_services(engine, keys=KeyRing(file=file))
    async with (
        serving(services) as url,
        connect_client(url, query="?api_key=speak-key") as removed,
        connect_client(url, query="?api_key=both-key") as kept,
    ):
        for client in (removed, kept):
            await client.send("text", context="running", text="Hello")
            await client.receive_until("audio", "running")
        await removed.send_turn("All of it was sent before.", "whole")
        await removed.receive_until("started", "whole")
        change(file, FILE.replace("speak-key", "next-key"))

        await removed.send("text", context="running", text=" again.")
        messages = await removed.receive_until("error", "running")
        assert messages[-1]["error"]["code"] == "invalid_api_key"
        if "done" not in [message["type"] for message in messages]:
            await removed.receive_until("done", "whole")  # what had all its text is spoken to its end
        assert await removed.closed_with() == 1008

        await kept.send("text", context="running", text=" again.")
        await kept.send("end", context="running")
        await kept.receive_until("done", "running")
        await kept.still_answers()


@pytest.mark.parametrize("path", ["/v1", "/v1/models", "/v1/models/tts-1", "/v1/audio/voices", "/speakers"])
async def test_public_lists_need_no_key(path: str) -> None:
    async with in_process(make_services(keys=["anna:open-sesame"], has_public_lists=True)) as client:
        assert (await client.get(path)).status_code == 200
        assert (await client.get(path, headers=bearer("open-sesame"))).status_code == 200
        assert (await client.get(path, headers=bearer("wrong"))).status_code == 401
    async with in_process(make_services(keys=["anna:open-sesame"])) as client:
        assert (await client.get(path)).status_code == 401


async def test_public_lists_open_nothing_else() -> None:
    async with in_process(make_services(keys=["anna:open-sesame"], has_public_lists=True)) as client:
        for request in NEEDED:
            method, path = request.replace("{name}", "anna").replace("{model:path}", "tts-1").split()
            if method != "WEBSOCKET" and path not in (
                *("/v1", "/v1/models", "/v1/models/tts-1", "/v1/audio/voices"),
                *(["/speakers"] if method == "GET" else []),
            ):
                assert (await client.request(method, path)).status_code == 401, request
