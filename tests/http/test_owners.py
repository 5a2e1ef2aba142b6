"""Another owner's private speaker is not there, on whatever route one looks for it."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from firstword.app.core.request import SynthesisRequest
from firstword.app.http.keys import KeyRing
from firstword.app.http.service import Service
from firstword.app.speakers.registry import SpeakerRegistry
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers
from tests.support.fake_engine import FakeEngine, FakeStream
from tests.support.serving import error_of, in_process, make_services, serving
from tests.support.ws_client import connect_client

pytestmark = pytest.mark.anyio

FILE = """
anna = { key = "annas-key", scopes = ["speak", "enrol"], speakers = "private" }
bob = { key = "bobs-key", scopes = ["speak", "enrol"] }
root = { key = "root-key", scopes = ["admin"] }
"""
ANNA, BOB, ROOT = ({"X-API-Key": key} for key in ("annas-key", "bobs-key", "root-key"))


@dataclass(eq=False)
class RegistryEngine(FakeEngine):
    """Knows the speakers that the registry shows to who asks."""

    registry: SpeakerRegistry | None = None

    def open(self, request: SynthesisRequest, prepared: object = None) -> FakeStream:
        assert self.registry is not None
        if request.voice.speaker is not None:
            self.registry.get(request.voice.speaker, request.client)
            self.speakers |= {request.voice.speaker}
        return super().open(request, prepared)


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Service]:
    (tmp_path / "keys.toml").write_text(FILE)
    async with AsyncExitStack() as stack:
        registry = await Servers(tmp_path / "speakers.sqlite", stack).open()
        keys = KeyRing(["plain:plain-key"], tmp_path / "keys.toml")
        yield make_services(RegistryEngine(registry=registry), registry, keys=keys)  # type: ignore[arg-type]


@pytest.fixture
async def client(services: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Anna has registered mia, which is private."""
    async with in_process(services) as client:
        answer = await client.post(
            "/speakers",
            data={"name": "mia", "transcript": "Mine."},
            files={"audio": recording()},
            headers=ANNA,
        )
        assert (answer.status_code, answer.json()["access"], answer.json()["owner"]) == (
            201,
            "private",
            "anna",
        )
        yield client


USES = [
    ("GET", "/speakers/mia", None),
    ("GET", "/speakers/mia/export", None),
    ("PATCH", "/speakers/mia", {"transcript": "Other."}),
    ("PATCH", "/speakers/mia", {"access": "shared"}),
    ("DELETE", "/speakers/mia", None),
    ("POST", "/tts", {"text": "Hi.", "speaker": "mia"}),
    ("GET", "/tts?text=Hi.&speaker=mia", None),
    ("POST", "/v1/signed-urls", {"text": "Hi.", "speaker": "mia"}),
    ("POST", "/v1/tokens", {"text": "Hi.", "speaker": "mia"}),
    ("POST", "/v1/text", {"text": "Hi.", "speaker": "mia"}),
    ("POST", "/v1/token2wav", {"tokens": [1, 2], "speaker": "mia"}),
    ("POST", "/v1/audio/speech", {"input": "Hi.", "voice": "mia"}),
    ("POST", "/v1/audio/speech", {"input": "Hi.", "speaker": "mia"}),
]


@pytest.mark.parametrize(("method", "path", "body"), USES)
async def test_private_speaker_is_404_for_others_and_there_for_its_owner(
    client: httpx.AsyncClient, method: str, path: str, body: object
) -> None:
    refused = await client.request(method, path, json=body, headers=BOB)
    unknown = await client.request(
        method,
        path.replace("mia", "eva"),
        json=json.loads(json.dumps(body).replace("mia", "eva")),
        headers=BOB,
    )
    assert (refused.status_code, error_of(refused)["code"]) == (404, "speaker_not_found")
    assert refused.text.replace("mia", "eva") == unknown.text  # nothing tells it from one that never was
    answer = await client.request(method, path, json=body, headers=ANNA)
    assert answer.status_code < 300, answer.text


async def test_private_speaker_lends_its_voice_to_no_recording_of_others(client: httpx.AsyncClient) -> None:
    for headers, status in ((BOB, 404), (ANNA, 200)):
        answer = await client.post(
            "/v1/voice-conversion", data={"speaker": "mia"}, files={"audio": b"sound"}, headers=headers
        )
        assert answer.status_code == status, answer.text


async def test_private_speaker_is_listed_for_its_owner_and_administrators(client: httpx.AsyncClient) -> None:
    async def listed(headers: dict[str, str]) -> list[bool]:
        speakers = (await client.get("/speakers", headers=headers)).json()["speakers"]
        voices = (await client.get("/v1/audio/voices", headers=headers)).json()["voices"]
        count = (await client.get("/v1/capabilities", headers=headers)).json()["speakers"]
        return ["mia" in [s["name"] for s in speakers], "mia" in [v["id"] for v in voices], count == 3]

    assert await listed(BOB) == [False] * 3
    assert await listed(ANNA) == await listed(ROOT) == await listed({"X-API-Key": "plain-key"}) == [True] * 3


async def test_list_says_whose_names_and_access_are_ones_own_to_change(client: httpx.AsyncClient) -> None:
    await client.patch("/speakers/mia", json={"access": "shared"}, headers=ANNA)
    for headers, is_own in ((ANNA, True), (ROOT, True), (BOB, False)):
        listed = (await client.get("/speakers", headers=headers)).json()["speakers"]
        assert {one["name"]: one["yours"] for one in listed} == {"ann": False, "bob": False, "mia": is_own}
    assert (await client.patch("/speakers/mia", json={"name": "eva"}, headers=BOB)).status_code == 403
    renamed = await client.patch("/speakers/mia", json={"name": "eva"}, headers=ANNA)
    assert (renamed.status_code, renamed.json()["name"], renamed.json()["owner"]) == (200, "eva", "anna")


async def test_administrators_import_for_an_owner(client: httpx.AsyncClient) -> None:
    bundle = {"bundle": (await client.get("/speakers/mia/export", headers=ROOT)).content}
    path, form = "/speakers/import?owner=anna", {"name": "eva", "access": "private"}
    refused = await client.post(path, data=form, files=bundle, headers=BOB)
    imported = await client.post(path, data=form, files=bundle, headers=ROOT)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "missing_scope")
    assert (imported.status_code, imported.json()["owner"]) == (201, "anna")
    assert (await client.get("/speakers/eva", headers=ANNA)).status_code == 200


async def test_administrators_import_a_shared_speaker_for_its_owner_or_nobody(
    client: httpx.AsyncClient,
) -> None:
    bundle = {"bundle": (await client.get("/speakers/mia/export", headers=ROOT)).content}
    for owner, expected in (("anna", "anna"), ("", None)):
        form = {"name": f"eva-{owner}", "access": "shared"}
        path = f"/speakers/import?owner={owner}"
        imported = await client.post(path, data=form, files=bundle, headers=ROOT)
        assert (imported.status_code, imported.json()["owner"]) == (201, expected)
        refused = await client.post(path, data=form, files=bundle, headers=BOB)
        assert error_of(refused)["code"] == "missing_scope"  # the console then imports without


async def test_an_administrators_speaker_stands_beside_a_private_one_of_its_name(
    client: httpx.AsyncClient,
) -> None:
    """Or whoever registers a private speaker would keep an administrator from the name."""
    before = await client.get("/speakers/mia", headers=ROOT)
    made = await client.post("/speakers", data={"name": "mia"}, files={"audio": recording()}, headers=ROOT)
    assert (before.json()["owner"], made.status_code) == ("anna", 201)
    owner_of = {
        query: (await client.get(f"/speakers/mia{query}", headers=ROOT)).json()["owner"]
        for query in ("", "?owner=anna", "?owner=root")
    }
    assert owner_of == {"": "root", "?owner=anna": "anna", "?owner=root": "root"}
    assert (await client.get("/speakers/mia", headers=ANNA)).json()["owner"] == "anna"
    shared = await client.patch("/speakers/mia?owner=anna", json={"access": "shared"}, headers=ROOT)
    assert (shared.status_code, error_of(shared)["code"]) == (409, "speaker_exists")
    assert (await client.delete("/speakers/mia", headers=ROOT)).status_code == 204
    assert (await client.get("/speakers/mia", headers=ROOT)).json()["owner"] == "anna"


async def test_import_over_another_owners_name_says_and_changes_nothing(client: httpx.AsyncClient) -> None:
    bundle = (await client.get("/speakers/mia/export", headers=ANNA)).content
    upload = {"bundle": bundle}
    taken = await client.post("/speakers/import", files=upload, headers=ANNA)
    imported = await client.post("/speakers/import", files=upload, headers=BOB)
    assert (taken.status_code, imported.status_code, imported.json()["owner"]) == (409, 201, "bob")
    await client.patch("/speakers/mia", json={"transcript": "His."}, headers=BOB)
    mine = await client.get("/speakers/mia", headers=ANNA)
    assert (mine.json()["transcript"], mine.json()["owner"]) == ("Mine.", "anna")


async def test_read_only_speaker_is_403_to_change_and_spoken_with_by_all(client: httpx.AsyncClient) -> None:
    assert (
        await client.patch("/speakers/mia", json={"access": "read-only"}, headers=ANNA)
    ).status_code == 200
    for method, path, body in USES:
        answer = await client.request(method, path, json=body, headers=BOB)
        is_change = path == "/speakers/mia/export" or method in ("PATCH", "DELETE")
        assert answer.status_code == (403 if is_change else 200), (method, path, answer.text)
        if is_change:
            error = error_of(answer)
            assert (error["type"], error["code"]) == ("permission_error", "speaker_not_yours")


async def test_administrator_names_the_owner_of_one_of_two(client: httpx.AsyncClient) -> None:
    await client.post(
        "/speakers", data={"name": "mia", "access": "private"}, files={"audio": recording()}, headers=BOB
    )
    for owner in ("anna", "bob"):
        answer = await client.get("/speakers/mia", params={"owner": owner}, headers=ROOT)
        assert answer.json()["owner"] == owner
    own = await client.get("/speakers/mia", params={"owner": "bob"}, headers=BOB)
    assert own.json()["owner"] == "bob"
    refused = await client.get("/speakers/mia", params={"owner": "anna"}, headers=BOB)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "missing_scope")
    assert (await client.delete("/speakers/mia?owner=bob", headers=ROOT)).status_code == 204
    assert (await client.get("/speakers/mia", headers=BOB)).status_code == 404
    assert (await client.get("/speakers/mia", headers=ANNA)).status_code == 200


@pytest.mark.usefixtures("client")
async def test_private_speaker_is_not_there_on_anothers_socket(services: Service) -> None:
    async with serving(services) as url:
        async with connect_client(url, "?api_key=bobs-key") as bob:
            await bob.send("start", speaker="mia")
            assert (await bob.receive_error())["error"]["code"] == "speaker_not_found"
        async with connect_client(url, "?api_key=annas-key") as anna:
            await anna.send_turn("Hi.", speaker="mia")
            await anna.receive_until("done")


async def test_access_that_there_is_not_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.patch("/speakers/mia", json={"access": "secret"}, headers=ANNA)
    assert (answer.status_code, error_of(answer)["param"]) == (400, "access")


async def test_a_speaker_that_is_renamed_keeps_its_owner(client: httpx.AsyncClient) -> None:
    """The console exported, imported and deleted it, and whoever did so was the owner then."""
    shared = await client.patch("/speakers/mia", json={"access": "shared"}, headers=ANNA)
    renamed = await client.patch("/speakers/mia", json={"name": "eva", "transcript": "New."}, headers=ROOT)
    assert (shared.status_code, renamed.status_code) == (200, 200), renamed.text
    assert (renamed.json()["name"], renamed.json()["owner"], renamed.json()["access"]) == (
        "eva",
        "anna",
        "shared",
    )
    assert renamed.json()["version"] == 3
    assert (await client.get("/speakers/mia", headers=ANNA)).status_code == 404
    spoken = await client.post("/tts", json={"text": "Hi.", "speaker": "eva"}, headers=BOB)
    taken = await client.patch("/speakers/eva", json={"access": "private"}, headers=BOB)
    assert (spoken.status_code, taken.status_code) == (200, 403)
    assert (await client.patch("/speakers/eva", json={"access": "private"}, headers=ANNA)).status_code == 200


@pytest.mark.parametrize(("name", "status"), [("hum", 409), ("uma", 409), ("a b", 400), ("", 400)])
async def test_a_name_that_is_taken_or_is_none_renames_nothing(
    client: httpx.AsyncClient, name: str, status: int
) -> None:
    form, files = {"name": "uma", "transcript": "Mine."}, {"audio": recording()}
    assert (await client.post("/speakers", data=form, files=files, headers=BOB)).status_code == 201
    if name == "hum":
        listed = (await client.get("/speakers", headers=ANNA)).json()["speakers"]
        name = next(one["name"] for one in listed if one["kind"] == "builtin")
    refused = await client.patch("/speakers/mia", json={"name": name, "transcript": "New."}, headers=ANNA)
    kept = (await client.get("/speakers/mia", headers=ANNA)).json()
    assert (refused.status_code, kept["transcript"], kept["version"]) == (status, "Mine.", 1), refused.text


async def test_only_its_owner_renames_a_speaker_that_others_may_not_change(client: httpx.AsyncClient) -> None:
    assert (await client.patch("/speakers/mia", json={"name": "eva"}, headers=BOB)).status_code == 404
    await client.patch("/speakers/mia", json={"access": "read-only"}, headers=ANNA)
    refused = await client.patch("/speakers/mia", json={"name": "eva"}, headers=BOB)
    assert error_of(refused)["code"] == "speaker_not_yours"
    renamed = await client.patch("/speakers/mia", json={"name": "eva"}, headers=ANNA)
    assert (renamed.json()["name"], renamed.json()["owner"]) == ("eva", "anna")


async def test_an_administrator_renames_anothers_private_speaker_for_its_owner(
    client: httpx.AsyncClient,
) -> None:
    renamed = await client.patch("/speakers/mia?owner=anna", json={"name": "eva"}, headers=ROOT)
    assert (renamed.json()["name"], renamed.json()["owner"], renamed.json()["access"]) == (
        "eva",
        "anna",
        "private",
    )
    assert (await client.get("/speakers/eva", headers=ANNA)).status_code == 200
    assert (await client.get("/speakers/eva", headers=BOB)).status_code == 404
