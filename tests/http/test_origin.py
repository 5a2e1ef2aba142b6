"""A web page of another origin can neither change this server nor speak through it."""

from collections.abc import Sequence
from dataclasses import replace

import httpx
import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse

from firstword.app.http.service import Service
from firstword.app.server_options import ServerOptions
from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.serving import build_app, counted, error_of, make_services

pytestmark = pytest.mark.anyio

HOST = "voice.test:8000"


def client_of(
    services: Service, origins: Sequence[str] = (), hosts: Sequence[str] | None = None, host: str = HOST
) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(build_app(services, cors_origins=origins, allowed_hosts=hosts))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}")


@pytest.mark.parametrize(
    "origin", ["https://evil.test", "null", "http://voice.test", "https://voice.test:8001"]
)
async def test_a_page_of_another_origin_changes_nothing(origin: str) -> None:
    engine, speakers = FakeEngine(), FakeSpeakers()
    services = make_services(engine, speakers)
    async with client_of(services) as client:
        form = {"data": {"name": "bo"}, "files": {"audio": b"RIFF"}}
        answers = [
            await client.post("/speakers", headers={"Origin": origin}, **form),
            await client.delete("/speakers/anna", headers={"Origin": origin}),
            await client.post("/tts", headers={"Origin": origin}, content=b'{"text": "Hi."}'),
        ]
    for answer in answers:
        assert (answer.status_code, error_of(answer)["code"]) == (403, "origin_not_allowed")
        assert "FIRSTWORD_CORS_ORIGINS" in str(error_of(answer)["message"])
    assert set(speakers.speakers) == {"hum", "anna"}
    assert engine.streams == []
    assert counted(services, "tts_rejected_total", reason="auth") == 3


@pytest.mark.parametrize(
    ("origin", "origins"),
    [
        ("http://voice.test:8000", []),
        ("https://VOICE.test:8000", []),  # a proxy that ends TLS
        ("https://page.test", ["https://page.test"]),
        ("https://page.test", ["*"]),
        (None, []),
    ],
)
async def test_the_servers_own_pages_and_those_allowed_may(origin: str | None, origins: list[str]) -> None:
    async with client_of(make_services(), origins) as client:
        headers = {"Origin": origin} if origin else {}
        answer = await client.post("/tts", json={"text": "Hi."}, headers=headers)
    assert answer.status_code == 200


async def test_reading_is_left_to_the_browser() -> None:
    async with client_of(make_services()) as client:
        answer = await client.get("/speakers", headers={"Origin": "https://evil.test"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "is_allowed"), [("http://testserver", True), ("https://evil.test", False)]
)
def test_a_websocket_of_another_origin_is_refused_at_its_upgrade(origin: str, is_allowed: bool) -> None:
    with TestClient(build_app(make_services())) as client:
        if is_allowed:
            with client.websocket_connect("/tts/stream", headers={"Origin": origin}) as socket:
                socket.send_json({"type": "ping"})
                assert socket.receive_json() == {"type": "pong"}
            return
        with pytest.raises(WebSocketDenialResponse) as refused:
            client.websocket_connect("/tts/stream", headers={"Origin": origin}).__enter__()
    assert refused.value.status_code == 403
    assert refused.value.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.parametrize(
    ("host", "hosts", "status"),
    [
        ("localhost:8000", [], 200),
        ("127.0.0.1:8000", [], 200),
        ("127.8.9.1", [], 200),
        ("[::1]:8000", [], 200),
        ("rebound.evil.test:8000", [], 403),
        ("127.0.0.1.evil.test", [], 403),
        ("tts:8000", ["tts"], 200),
        ("TTS", ["tts"], 200),
        ("other:8000", ["tts"], 403),
        ("anything.test", None, 200),
    ],
)
async def test_a_server_answers_to_its_own_names(host: str, hosts: list[str] | None, status: int) -> None:
    async with client_of(make_services(), hosts=hosts) as client:
        answer = await client.get("/speakers", headers={"Host": host})
        probe = await client.get("/livez", headers={"Host": host})
        metrics = await client.get("/metrics", headers={"Host": host})
    assert answer.status_code == status
    assert (probe.status_code, metrics.status_code) == (200, 200)


@pytest.mark.parametrize("hosts", [[], ["a.test", "b.test"]])
async def test_a_request_has_one_host(hosts: list[str]) -> None:
    transport = httpx.ASGITransport(build_app(make_services()))
    request = httpx.Request("GET", "http://voice.test/speakers")
    del request.headers["Host"]
    request.headers = httpx.Headers([("Host", host) for host in hosts])
    answer = await transport.handle_async_request(request)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("host", "hosts", "checked"),
    [
        ("127.0.0.1", (), ()),
        ("localhost", (), ()),
        ("::1", ("tts",), ("tts",)),
        ("0.0.0.0", (), None),
        ("0.0.0.0", ("tts",), ("tts",)),
        ("192.168.1.5", (), None),
    ],
)
def test_which_names_are_checked_depends_on_the_address(
    host: str, hosts: tuple[str, ...], checked: tuple[str, ...] | None
) -> None:
    assert replace(ServerOptions(), host=host, allowed_hosts=hosts).checked_hosts == checked
