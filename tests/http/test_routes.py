"""Paths, methods and upgrades that are not those of a route, or almost."""

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from tests.support.fake_engine import FakeEngine
from tests.support.serving import build_app, counted, error_of, in_process, make_services

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/tts", "GET, HEAD, POST"),
        ("/speakers", "GET, HEAD, POST"),
        ("/speakers/anna", "DELETE, GET, HEAD, PATCH"),
        ("/livez", "GET, HEAD"),
        ("/v1/audio/speech", "POST"),
    ],
)
async def test_a_method_that_is_not_allowed_is_answered_with_all_that_are(path: str, allow: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.put(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
    assert error_of(answer)["message"] == f"PUT not allowed on {path}; allowed: {allow}"


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/metrics", "/speakers", "/v1/models", "/openapi.json"]
)
async def test_head_is_get_without_a_body(path: str) -> None:
    async with in_process(make_services()) as client:
        got, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert "content-length" in head.headers


async def test_head_of_speech_has_its_type_and_speaks_nothing() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with in_process(services) as client:
        head = await client.head("/tts", params={"text": "Hi.", "format": "opus"})
        refused = await client.head("/tts", params={"text": "Hi.", "format": "midi"})
        unknown = await client.head("/nowhere")
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "audio/ogg", b"")
    assert (refused.status_code, unknown.status_code) == (400, 404)
    assert engine.streams == []
    assert counted(services, "tts_requests_in_flight") == 0


@pytest.mark.parametrize("path", ["/livez/", "/speakers/", "/v1/models/", "/v1/", "/v1", "/speakers//"])
async def test_a_trailing_slash_changes_nothing(path: str) -> None:
    async with in_process(make_services()) as client:
        assert (await client.get(path)).status_code == 200


async def test_the_path_of_the_websocket_asks_for_an_upgrade() -> None:
    async with in_process(make_services()) as client:
        answer = await client.get("/tts/stream")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
    assert error_of(answer)["code"] == "upgrade_required"
    assert "ws://" in str(error_of(answer)["message"])


def test_a_websocket_to_an_unknown_path_is_told_so_and_a_slash_is_accepted() -> None:
    with TestClient(build_app(make_services())) as client:
        with client.websocket_connect("/tts/stream/") as socket:
            socket.send_json({"type": "ping"})
            assert socket.receive_json() == {"type": "pong"}
        with pytest.raises(WebSocketDenialResponse) as refused:
            client.websocket_connect("/tts/streams").__enter__()
    assert refused.value.status_code == 404
    assert refused.value.json()["error"]["code"] == "not_found"
