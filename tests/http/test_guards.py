"""A request is let in, read and handled by what its matched route declares of itself."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import APIRouter
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from firstword.app.http.keys import KeyRing
from firstword.app.http.routes import Guard, UndeclaredRoute
from firstword.app.http.surface import HttpSurface
from tests.support.serving import build_app, error_of, in_process, make_services, serving

pytestmark = pytest.mark.anyio

KEYS = """\
speaker = { key = "speaks", scopes = ["speak"] }
enroller = { key = "enrols", scopes = ["enrol"] }
root = { key = "rules", scopes = ["admin"] }
"""


@pytest.fixture
def keys(tmp_path: Path) -> KeyRing:
    path = tmp_path / "keys.toml"
    path.write_text(KEYS)
    return KeyRing(file=path)


@pytest.mark.parametrize("key", ["speaks", "enrols", "rules"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/metrics%0A"),
        ("GET", "/speakers/anna/export%0A"),
        ("POST", "/v1/audio/speech%0A"),
        ("GET", "/tts%0A?text=Hi."),
        ("POST", "/tts%0A"),
        ("GET", "/v1/audio/batches%0A"),
        ("GET", "/speakers/an%00na"),
        ("GET", "/speakers/an%7Fna/export"),
        ("GET", "/v1/models/tts-1%C2%85"),
        ("GET", "/livez%0D"),
    ],
)
async def test_a_path_with_a_control_character_is_no_path(
    keys: KeyRing, key: str, method: str, path: str
) -> None:
    async with in_process(make_services(keys=keys)) as client:
        answer = await client.request(method, path, headers={"X-API-Key": key})
        keyless = await client.request(method, path)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    assert keyless.status_code == 401


async def test_a_socket_at_a_path_with_a_newline_is_refused(keys: KeyRing) -> None:
    async with serving(make_services(keys=keys)) as url:
        head = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        head += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        for path, key, status in (
            ("/tts/stream%0A", "enrols", b"404"),
            ("/tts/stream%0A", "speaks", b"404"),
            ("/tts/stream", "enrols", b"403"),
            ("/tts/stream", "speaks", b"101"),
        ):
            answer = await first_line(url, f"GET {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\n{head}")
            assert answer.split()[1] == status, (path, key)


@pytest.mark.parametrize(("key", "status"), [("", b"401"), ("wrong", b"401"), ("speaks", b"403")])
@pytest.mark.parametrize("path", ["/speakers", "/speakers/import", "/v1/audio/voices"])
async def test_a_head_alone_is_refused_before_any_of_its_body_came(
    keys: KeyRing, path: str, key: str, status: bytes
) -> None:
    async with serving(make_services(keys=keys)) as url:
        shown = f"X-API-Key: {key}\r\n" if key else ""
        answer = await first_line(
            url, f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n{shown}"
        )
    assert answer.split()[1] == status


async def first_line(url: str, head: str) -> bytes:
    """Send a head and nothing after it."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(f"{head}\r\n".encode())
    async with asyncio.timeout(5):
        line = await reader.readline()
    writer.close()
    return line


def test_a_route_that_declares_nothing_stops_the_start(tmp_path: Path) -> None:

    async def hello() -> str:
        return "hello"

    router = APIRouter()
    router.get("/hello")(hello)
    for route in (
        *router.routes,
        Route("/hello", hello),
        WebSocketRoute("/hello", hello),
        Mount("/hello", StaticFiles(directory=tmp_path)),
    ):
        surface = HttpSurface("greetings", [route])
        with pytest.raises(UndeclaredRoute, match=r"route /hello of the surface greetings.*@Guard"):
            build_app(make_services(), [surface])


async def test_a_new_surface_is_guarded_by_what_its_route_says(keys: KeyRing) -> None:
    router = APIRouter()

    @router.get("/hello")
    @Guard("enrol")
    async def greet() -> str:
        return "hello"

    async with in_process(make_services(keys=keys), surfaces=[HttpSurface("hello", router.routes)]) as client:
        statuses = [
            (await client.get("/hello", headers={"X-API-Key": key})).status_code
            for key in ("speaks", "enrols", "rules", "wrong")
        ]
    assert statuses == [403, 200, 200, 401]


async def test_a_path_is_looked_up_once_and_its_route_handles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look-up could find another route than the one whose key was checked."""
    router = APIRouter()

    @router.get("/hello")
    @Guard("public")
    async def hello() -> str:
        return "hello"

    [route] = router.routes
    other = Route("/{any}", hello)
    looks = 0
    matches = other.matches

    def counted(scope: object) -> object:
        nonlocal looks
        looks += 1
        return matches(scope)  # type: ignore[arg-type]

    monkeypatch.setattr(other, "matches", counted)
    async with in_process(make_services(), surfaces=[HttpSurface("hello", [route, other])]) as client:
        assert (await client.get("/hello")).status_code == 200
    assert looks == 0
