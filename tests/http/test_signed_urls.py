"""Addresses for players that cannot send headers: with a key in them, or signed for a time."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest

from firstword.app.clients import Client
from firstword.app.errors import InvalidSignature
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.speakers.interface import SentRecording
from firstword.app.surfaces.tts import MAX_LIFETIME_S, MAX_URL_CHARS
from tests.support.clock import Clock
from tests.support.fake_engine import INFO, FakeEngine
from tests.support.serving import counted, error_of, in_process, make_services

pytestmark = pytest.mark.anyio

KEYS = ["anna:open-sesame", "bob:abracadabra"]
ANNA = {"Authorization": "Bearer open-sesame"}
TEXT = "Grüße & 50 % + more? 你好 👋"


async def signed(client: httpx.AsyncClient, **fields: Any) -> str:
    answer = await client.post("/v1/signed-urls", json={"text": TEXT, **fields}, headers=ANNA)
    assert answer.status_code == 200, answer.text
    url = answer.json()["url"]
    assert isinstance(url, str)
    return url


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_player_gives_its_key_in_the_address(method: str) -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine, keys=KEYS)) as client:
        query = {"text": "Hi.", "format": "pcm", "api_key": "open-sesame"}
        answer = await client.request(method, "/tts", params=query)
        refused = await client.request(method, "/tts", params=query | {"api_key": "wrong"})
    assert (answer.status_code, refused.status_code) == (200, 401)
    assert answer.headers["cache-control"] == "no-store"
    assert [stream.request.client.name for stream in engine.streams] == (["anna"] if method == "GET" else [])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/tts"),
        ("GET", "/speakers"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/metrics"),
    ],
)
async def test_key_in_the_address_of_another_route_is_not_taken(method: str, path: str) -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        answer = await client.request(method, path, params={"api_key": "open-sesame"}, json={"text": "Hi."})
    assert answer.status_code == 401
    assert "only GET /tts and WebSockets take a key in the address" in str(error_of(answer)["message"])


async def test_signed_address_speaks_without_a_key() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine, keys=KEYS)) as client:
        fields = {"voice": "anna", "format": "mp3", "speed": 1.5, "seed": 7, "normalize": False}
        url = await signed(client, **fields, lexicon={"Grüße": "greetings"})
        answer = await client.get(url)
        again = await client.get(url.replace("+", "%20"))  # the same query, written as players may
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
    assert again.status_code == 200
    request = engine.streams[0].request
    assert (request.text, request.voice.speaker, request.seed, request.reading.normalize) == (
        TEXT,
        "anna",
        7,
        False,
    )
    assert request.reading.lexicon == {"Grüße": "greetings"}
    assert request.client.name == "anna"
    assert "open-sesame" not in url
    parameters = parse_qs(urlsplit(url).query)
    assert {"signed_by", "expires", "signature"} < parameters.keys()
    assert parameters["signed_by"] == ["anna"]


async def test_recording_of_a_form_stands_in_the_address() -> None:
    engine, recording = FakeEngine(), b"RIFF\xff\xfe"
    async with in_process(make_services(engine, keys=KEYS)) as client:
        answer = await client.post(
            "/v1/signed-urls",
            data={"text": TEXT},
            files={"reference_audio": ("a.wav", recording)},
            headers=ANNA,
        )
        assert (await client.get(answer.json()["url"])).status_code == 200
    sent = engine.streams[0].request.voice.reference
    assert isinstance(sent, SentRecording)
    assert sent.content == recording


async def test_changed_address_is_refused() -> None:
    services = make_services(keys=KEYS)
    async with in_process(services) as client:
        url = await signed(client, format="pcm")
        pairs = parse_qsl(urlsplit(url).query)
        changed = [
            *([(k, v + "x" if k == name else v) for k, v in pairs] for name, _ in pairs),
            *([pair for pair in pairs if pair[0] != name] for name in ("format", "expires", "signed_by")),
            [*pairs, ("speed", "2")],
            [*pairs, ("_", "1")],
            [*pairs, ("signature", "")],
            [("signature", "é"), *pairs],
            [pairs[1], pairs[0], *pairs[2:]],
            [(k, "bob" if k == "signed_by" else v) for k, v in pairs],
            [(k, "99999999999" if k == "expires" else v) for k, v in pairs],
        ]
        for query in changed:
            answer = await client.get(f"/tts?{urlencode(query)}")
            assert answer.status_code == 401, query
            assert error_of(answer)["code"] in ("invalid_signature", "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.post(f"/tts?{urlencode(pairs)}", json={"text": "Hi."})).status_code == 401
        assert (await client.get(f"/speakers?{urlencode(pairs)}")).status_code == 401
        assert (await client.get(url)).status_code == 200
    assert counted(services, "tts_rejected_total", reason="auth") == len(changed) + 2


async def test_signed_address_expires() -> None:
    clock = Clock()
    clock.now_s = 1_800_000_000
    async with in_process(make_services(keys=KEYS, now=clock)) as client:
        answer = await client.post("/v1/signed-urls", json={"text": "Hi.", "expires_in_s": 60}, headers=ANNA)
        assert answer.json()["expires_at"] == "2027-01-15T08:01:00Z"
        clock.now_s += 59
        assert (await client.get(answer.json()["url"])).status_code == 200
        clock.now_s += 1
        late = await client.get(answer.json()["url"])
    assert (late.status_code, error_of(late)["code"]) == (401, "invalid_signature")
    assert "has expired; ask for a new one" in str(error_of(late)["message"])


async def test_signature_outlives_a_restart_and_ends_with_its_key(tmp_path: Path) -> None:
    query, _ = UrlSigner(b"secret", KeyRing(KEYS)).sign([("text", "Hi.")], anna(KEYS), 60)
    assert UrlSigner(b"secret", KeyRing(["new:new", *KEYS])).client_of(query).name == "anna"
    for secret, keys in ((b"secret", KEYS[1:]), (b"secret", ["anna:another"]), (b"other", KEYS)):
        with pytest.raises(InvalidSignature, match="its key is gone"):
            UrlSigner(secret, KeyRing(keys)).client_of(query)


def anna(keys: list[str]) -> Client:
    client = KeyRing(keys).client_of("open-sesame")
    assert client is not None
    return client


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({}, 400, "text"),
        ({"text": ""}, 400, "text"),
        ({"text": "Hi.", "expires_in_s": 0}, 400, "expires_in_s"),
        ({"text": "Hi.", "expires_in_s": MAX_LIFETIME_S + 1}, 400, "expires_in_s"),
        ({"text": "Hi.", "expires_in_s": True}, 400, "expires_in_s"),
        ({"text": "Hi.", "spaeker": "anna"}, 400, "spaeker"),
        ({"text": "Hi.", "sample_rate": 5}, 400, "sample_rate"),
        ({"text": "Hi.", "speaker": "nobody"}, 404, "speaker"),
        ({"text": "x" * (INFO.limits.max_text_chars + 1)}, 413, "text"),
    ],
)
async def test_what_would_not_be_spoken_is_not_signed(
    fields: dict[str, Any], status: int, param: str
) -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        answer = await client.post("/v1/signed-urls", json=fields, headers=ANNA)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)


async def test_longest_text_fits_into_an_address_or_is_refused() -> None:
    async with in_process(make_services(keys=KEYS)) as client:
        url = await signed(client, text="好" * INFO.limits.max_text_chars)
        assert len(url) < MAX_URL_CHARS
        refused = await client.post(
            "/v1/signed-urls", json={"text": "Hi.", "instruct": "👋" * 1000 + "x"}, headers=ANNA
        )
    assert refused.status_code == 400


async def test_server_without_keys_signs_too_and_asks_for_nothing() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/signed-urls", json={"text": "Hi."})
        assert (await client.get(answer.json()["url"])).status_code == 200
        assert (await client.get("/tts?text=Hi&api_key=whatever")).status_code == 200
