"""Who has no key stays outside, over HTTP and at a WebSocket's upgrade."""

import hashlib

import httpx
import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from firstword.app.http.keys import KeyRing
from tests.support.fake_engine import FakeEngine
from tests.support.serving import build_app, counted, error_of, in_process, make_services, serving

pytestmark = pytest.mark.anyio

KEYS = ["plain:open-sesame", f"hashed:{hashlib.sha256(b'abracadabra').hexdigest()}"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer open-sesame"},
        {"Authorization": "bearer abracadabra"},
        {"X-API-Key": "open-sesame"},
        {"X-API-Key": "abracadabra", "Authorization": "Basic dTpw"},
    ],
)
async def test_a_known_key_comes_in(headers: dict[str, str]) -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        answer = await client.post("/tts", json={"text": "Hi."}, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "open-sesame"},
        {"Authorization": "Basic open-sesame"},
        {"Authorization": "Bearer plain:open-sesame"},
        {"X-API-Key": ""},
        {"X-API-Key": "Open-Sesame"},
        {"X-API-Key": KEYS[1].partition(":")[2]},
        {"X-API-Key": b"\xff\xfe"},
    ],
)
async def test_who_has_no_known_key_gets_401(headers: dict[str, str]) -> None:
    engine = FakeEngine()
    services = make_services(engine, keys=KEYS)
    async with in_process(services) as client:
        answer = await client.post("/tts", json={"text": "Hi."}, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-request-id"]
    assert error_of(answer)["code"] == "invalid_api_key"
    assert "open-sesame" not in answer.text
    assert not engine.streams
    assert counted(services, "tts_rejected_total", reason="auth") == 1


async def test_a_key_in_a_url_opens_no_http_route() -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        answer = await client.get("/speakers", params={"api_key": "open-sesame"})
    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["/livez", "/health", "/readyz"])
async def test_probes_need_no_key(path: str) -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/speakers",
        "/metrics",
        "/v1/models",
        "/v1/capabilities",
        "/nowhere",
        "/openapi.json",
        "/asyncapi.json",
    ],
)
async def test_all_else_needs_one(path: str) -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        assert (await client.get(path)).status_code == 401


async def test_without_keys_everybody_may_come_in() -> None:
    services = make_services()
    assert services.auth.keys.is_open
    async with in_process(services) as client:
        answer = await client.get("/speakers", headers={"Authorization": "Bearer whatever"})
    assert answer.status_code == 200


async def test_who_has_no_key_cannot_make_the_server_read_a_body() -> None:
    async def endless() -> object:
        raise AssertionError("the body was read")
        yield b""

    async with in_process(make_services(keys=KEYS)) as client:
        answer = await client.post("/speakers", content=endless())  # type: ignore[arg-type]
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "entry", ["", "alone", ":sesame", "anna:", "anna:two words", "an na:sesame", "anna:sésame"]
)
def test_an_entry_of_another_form_is_refused_without_showing_it(entry: str) -> None:
    with pytest.raises(ValueError, match="number 2 is not of the form") as refused:
        KeyRing(["good:one", entry])
    assert not entry or entry not in str(refused.value)


def test_a_key_has_an_owner() -> None:
    ring = KeyRing(KEYS)
    for key, owner in (("open-sesame", "plain"), ("abracadabra", "hashed")):
        client = ring.client_of(key)
        assert client is not None
        assert (client.name, client.scopes, client.access) == (owner, {"speak", "enrol", "admin"}, "shared")
        assert key not in repr(client)
    assert ring.client_of("") is None


@pytest.mark.parametrize("query", ["", "?api_key=wrong"])
def test_a_websocket_without_a_key_is_refused_at_the_upgrade(query: str) -> None:
    with (
        TestClient(build_app(make_services(keys=KEYS))) as client,
        pytest.raises(WebSocketDenialResponse) as refused,
    ):
        client.websocket_connect(f"/tts/stream{query}").__enter__()
    assert refused.value.status_code == 401
    assert refused.value.json()["error"]["code"] == "invalid_api_key"


async def test_a_real_server_refuses_a_websocket_with_401() -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with serving(make_services(keys=KEYS)) as url, httpx.AsyncClient(base_url=url) as client:
        refused = await client.get("/tts/stream", headers=upgrade)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert error_of(refused)["code"] == "invalid_api_key"
