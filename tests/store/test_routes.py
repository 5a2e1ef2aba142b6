"""Pages of speakers, versions and Idempotency-Key over HTTP, with a real registry over either database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from firstword.app.speakers.registry import SpeakerRegistry
from tests.speakers.fakes import STATE_BYTES, FakeNetworks
from tests.speakers.recordings import recording
from tests.store.conftest import Replicas
from tests.store.values import speaker
from tests.support.serving import error_of, in_process, make_services, make_surfaces

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@asynccontextmanager
async def served(replicas: Replicas, count: int = 1) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of so many servers."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            replica = replicas.open()
            store = replica.speakers()
            networks: Any = FakeNetworks()
            registry = SpeakerRegistry(store, networks, max_cache_bytes=100 * STATE_BYTES)
            await stack.enter_async_context(registry)
            services = make_services(speakers=registry)  # type: ignore[arg-type]
            surfaces = make_surfaces(batches=replica.batches(), consents=replica.consents())
            clients.append(await stack.enter_async_context(in_process(services, surfaces=surfaces)))
        yield clients


async def test_pages_hold_every_speaker_once(replicas: Replicas) -> None:
    store = replicas.open().speakers()
    for number in range(7):
        store.insert(speaker(f"s{number}"))
    store.insert(speaker("s3", owner="anna"))
    async with served(replicas) as (client,):
        everybody = (await client.get("/speakers")).json()
        assert set(everybody) == {"speakers"}
        for limit in (1, 3, 100):
            seen, after = [], None
            while True:
                params = {"limit": limit} | ({} if after is None else {"after": after})
                page = (await client.get("/speakers", params=params)).json()
                assert len(page["speakers"]) <= limit
                seen += page["speakers"]
                after = page["next"]
                if after is None:
                    break
            assert seen == everybody["speakers"]
        store.delete("s2")
        behind = (await client.get("/speakers", params={"after": "s2", "limit": 1})).json()
        assert behind["speakers"][0]["name"] == "s3"
        assert (await client.get("/speakers?limit=0")).status_code == 400


async def test_version_that_is_past_is_a_conflict(replicas: Replicas) -> None:
    replicas.open().speakers().insert(speaker())
    async with served(replicas) as (client,):
        changed = await client.patch("/speakers/mia", json={"transcript": "One.", "version": 1})
        assert (changed.status_code, changed.json()["version"]) == (200, 2)
        late = await client.patch("/speakers/mia", json={"transcript": "Two.", "version": 1})
        assert (late.status_code, error_of(late)["code"]) == (409, "speaker_changed")


async def test_repeated_enrolment_answers_with_what_the_first_one_made(replicas: Replicas) -> None:
    async with served(replicas, 2) as clients:

        async def enrol(client: httpx.AsyncClient, key: str, transcript: str) -> httpx.Response:
            return await client.post(
                "/speakers",
                data={"name": "mia", "transcript": transcript},
                files={"audio": ("mia.wav", recording(2.0))},
                headers={"Idempotency-Key": key},
            )

        first = await enrol(clients[0], "one", "Hello.")
        again = await enrol(clients[1], "one", "Hello.")
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() | {"cached": True} == first.json()
        other = await enrol(clients[1], "one", "Something else.")
        assert (other.status_code, error_of(other)["param"]) == (400, "Idempotency-Key")
        assert (await enrol(clients[1], "two", "Hello.")).status_code == 409
        assert (await enrol(clients[1], "", "Hello.")).status_code == 400


async def test_what_no_database_can_hold_is_the_fault_of_the_client(replicas: Replicas) -> None:
    replicas.open().speakers().insert(speaker())
    async with served(replicas) as (client,):
        made = (await client.post("/v1/audio/batches", json={"items": [{"text": "Hi."}]})).json()
        for method, url, body in (
            ("GET", "/v1/audio/voice_consents?after=a%00", None),
            ("GET", "/v1/audio/batches/a%00", None),
            ("GET", f"/v1/audio/batches/{made['id']}/items?after={10**30}", None),
            ("DELETE", "/speakers/mia?owner=a%00", None),
            ("PATCH", "/speakers/mia?owner=a%00", {"transcript": "Hi."}),
            ("POST", "/v1/audio/voice_consents/cons_1", {"name": "a\0"}),
        ):
            answer = await client.request(method, url, json=body)
            assert answer.status_code < 500, (method, url, answer.text)
        voice = {"name": "eva", "consent": "cons_\0"}
        form = {"audio_sample": ("eva.wav", recording(2.0))}
        answer = await client.post("/v1/audio/voices", data=voice, files=form)
        assert answer.status_code < 500, answer.text


async def test_equal_batches_at_once_with_one_key_are_one_batch(shared: Replicas) -> None:
    async with served(shared, 2) as clients:
        answers = await asyncio.gather(
            *(
                client.post(
                    "/v1/audio/batches",
                    json={"items": [{"text": "Hi."}]},
                    headers={"Idempotency-Key": f"key{number}"},
                )
                for number in range(10)
                for client in clients
            )
        )
        assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
        assert len({answer.json()["id"] for answer in answers}) == 10
