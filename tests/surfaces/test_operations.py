"""Probes, metrics, and what the server says of itself."""

import httpx
import pytest

from firstword.app.audio.formats import FORMATS
from firstword.app.core.interface import EngineStatus
from firstword.app.speakers.interface import StoreHealth
from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.serving import LIMITS, MODEL_ID, build_app, in_process, make_services, make_surfaces

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/livez", "/health"])
async def test_a_server_that_is_not_ready_lives(path: str) -> None:
    engine = FakeEngine(status=EngineStatus(is_ready=False, reason="loading"))
    async with in_process(make_services(engine)) as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readiness_follows_the_engine() -> None:
    limit = {"max_streams": 3, "max_streams_from": "measurement", "networks": "unloaded"}
    engine = FakeEngine(status=EngineStatus(is_ready=False, reason="draining", **limit))
    async with in_process(make_services(engine)) as client:
        before = await client.get("/readyz")
        engine.status = EngineStatus(is_ready=True)
        after = await client.get("/readyz")
    assert (before.status_code, before.json()) == (
        503,
        {"ready": False, "reason": "draining", "damaged_speakers": [], "failing_workers": [], **limit},
    )
    assert before.headers["retry-after"] == "1"
    assert (after.status_code, after.json()["ready"]) == (200, True)


async def test_a_store_that_is_gone_makes_it_unready_and_a_damaged_speaker_does_not() -> None:
    speakers = FakeSpeakers(store_health=StoreHealth(is_available=False))
    async with in_process(make_services(speakers=speakers)) as client:
        gone = await client.get("/readyz")
        speakers.store_health = StoreHealth(is_available=True, damaged=("mia",))
        damaged = await client.get("/readyz")
    assert (gone.status_code, gone.json()["ready"]) == (503, False)
    assert gone.json()["reason"] == "the file of the speakers is gone from its disk"
    assert (damaged.status_code, damaged.json()["ready"]) == (200, True)
    assert damaged.json()["damaged_speakers"] == ["mia"]


async def test_metrics_are_shown_on_the_main_port_or_not() -> None:
    services = make_services()
    async with in_process(services) as client:
        answer = await client.get("/metrics")
    hidden = httpx.ASGITransport(build_app(services, make_surfaces(metrics_port=1)))
    async with httpx.AsyncClient(transport=hidden, base_url="http://test") as client:
        refused = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "tts_requests_total" in answer.text
    assert refused.status_code == 404


async def test_capabilities_say_what_a_client_may_ask_for() -> None:
    async with in_process(make_services()) as client:
        told = (await client.get("/v1/capabilities")).json()
    assert told["model"] == MODEL_ID
    assert (told["checkpoint"], told["backend"]) == ("fake-voice", "fake")
    assert (told["speakers"], told["default_speaker"]) == (2, "hum")
    assert (told["continuous_text"], told["instruct"], told["languages"]) == (True, True, ["en", "zh"])
    assert told["voice_modes"] == ["zero_shot", "cross_lingual", "instruct", "sft"]
    assert told["limits"]["max_reference_bytes"] == LIMITS.max_reference_bytes
    assert told["formats"] == list(FORMATS)
    assert told["sample_rates"]["ulaw"] == [8000]
    assert told["limits"]["max_text_chars"] == 4096


async def test_the_documents_describe_every_route_and_its_errors() -> None:
    async with in_process(make_services()) as client:
        document = (await client.get("/openapi.json")).json()
    operations = [
        operation
        for path in document["paths"].values()
        for method, operation in path.items()
        if method in ("get", "post", "patch", "delete")
    ]
    assert len(operations) >= 18
    for operation in operations:
        assert "default" in operation["responses"], operation["operationId"]
        assert "422" not in operation["responses"], operation["operationId"]


async def test_a_page_from_elsewhere_may_call_only_if_told_so() -> None:
    services = make_services(keys=["anna:sesame"])
    headers = {"Origin": "https://page.test", "Access-Control-Request-Method": "POST"}
    allowing = httpx.ASGITransport(build_app(services, cors_origins=["https://page.test"]))
    async with httpx.AsyncClient(transport=allowing, base_url="http://test") as client:
        preflight = await client.options("/tts", headers=headers)
        refused = await client.post("/tts", json={"text": "Hi."}, headers=headers)
        other = await client.options("/tts", headers={**headers, "Origin": "https://other.test"})
    async with in_process(services) as client:
        silent = await client.options("/tts", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://page.test"
    assert refused.status_code == 401  # and the page may read why
    assert refused.headers["access-control-allow-origin"] == "https://page.test"
    assert "X-Request-Id" in refused.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-origin" not in silent.headers
