"""Batches over the transport: what is taken, spoken, refused, cancelled and deleted, and who sees it."""

import asyncio
import io
import os
import shutil
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from firstword.app import supervisor
from firstword.app.audio.dsp import to_pcm16
from firstword.app.audio.formats import OutputFormat
from firstword.app.clients import Client
from firstword.app.errors import InvalidRequest, Overloaded, StoreFull, StoreUnavailable, SynthesisFailed
from firstword.app.http.keys import KeyRing
from firstword.app.http.service import Service
from firstword.app.surfaces.batches import runner as runner_module
from firstword.app.surfaces.batches import schemas, store
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.store import BatchStore, Job, NewItem
from firstword.app.surfaces.batches.surface import BatchSurface
from firstword.app.surfaces.operations import OperationsSurface
from tests.support.fake_engine import FakeEngine, speech
from tests.support.grpc_serving import until
from tests.support.serving import counted, error_of, in_process, make_services, make_surfaces

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PATH = "/v1/audio/batches"
MB = 1 << 20


@asynccontextmanager
async def running(
    directory: Path, engine: FakeEngine | None = None, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Service]]:
    """A service whose batches are kept in the directory, and a client of it."""
    services = make_services(engine, **options)
    async with running_surface(services, directory) as (client, _):
        yield client, services


@asynccontextmanager
async def running_surface(
    services: Service, directory: Path
) -> AsyncIterator[tuple[httpx.AsyncClient, BatchSurface]]:
    """The batches of a service, beside what tells whether it is ready, and a client of them."""
    surface = BatchSurface(BatchOptions(disk_mb=1), directory)
    surfaces = [surface, OperationsSurface()]
    async with surface.running(services), in_process(services, surfaces=surfaces) as client:
        yield client, surface


async def ended(client: httpx.AsyncClient, id: str, **options: Any) -> dict[str, Any]:
    """The batch once nothing of it waits or runs."""
    while True:
        batch: dict[str, Any] = (await client.get(f"{PATH}/{id}", **options)).json()
        if not batch["queued"] + batch["running"]:
            return batch
        await asyncio.sleep(0.01)


async def test_a_batch_becomes_files_one_by_one_and_all_in_a_zip(tmp_path: Path) -> None:
    items = [
        {"text": "One."},
        {"text": "Two.", "name": "second", "format": "flac"},
        {"text": "3", "speed": 2},
    ]
    async with running(tmp_path) as (client, services):
        made = await client.post(PATH, json={"items": items})
        assert made.status_code == 201
        batch = await ended(client, made.json()["id"])
        assert (batch["state"], batch["done"], batch["failed"]) == ("done", 3, 0)
        listed = (await client.get(f"{PATH}/{batch['id']}/items", params={"after": 1})).json()["items"]
        one = await client.get(f"{PATH}/{batch['id']}/items/1/audio")
        none = await client.get(f"{PATH}/{batch['id']}/items/4/audio")
        archive = await client.get(f"{PATH}/{batch['id']}/audio")
        assert (await client.get(PATH)).json() == {"batches": [batch]}
    assert [(item["number"], item["name"], item["state"]) for item in listed] == [
        (2, "second", "done"),
        (3, "00003", "done"),
    ]
    assert one.headers["content-type"] == "audio/wav"
    assert one.headers["x-firstword-synthetic"] == "true"
    samples, _ = soundfile.read(io.BytesIO(one.content), dtype="int16")  # whose header is true
    np.testing.assert_array_equal(samples, to_pcm16(speech("One.")))
    assert int.from_bytes(one.content[40:44], "little") == 2 * len(samples)
    assert error_of(none)["code"] == "not_found"
    with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
        assert files.testzip() is None
        assert files.namelist() == ["00001.wav", "second.flac", "00003.wav"]
        assert files.read("00001.wav") == one.content
        assert files.read("second.flac").startswith(b"fLaC")
    assert batch["audio_seconds"] == pytest.approx(len(samples) / 24_000 * 2 + 0.025, abs=0.05)
    assert counted(services, "tts_batch_items_total", outcome="done") == 3
    assert counted(services, "tts_requests_total", protocol="batch", outcome="ok") == 3


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ([], "invalid_request", "items"),
        ([{"text": "Hi."}, {"text": "Hi.", "speed": 9}], "invalid_request", "`items.1.speed`"),
        ([{"text": "Hi.", "speaker": "nobody"}], "speaker_not_found", "nobody"),
        ([{"text": "Hi.", "language": "xx"}], "invalid_request", "items[0]: unknown language"),
        ([{"text": "Hi.", "format": "opus", "sample_rate": 44100}], "invalid_request", "items[0]: sample"),
        ([{"text": "Hi.", "name": "../up"}], "invalid_request", "`items.0.name`"),
        ([{"text": "Hi.", "name": "a"}, {"text": "Ho.", "name": "a"}], "invalid_request", "'a' came before"),
        ([{"text": "Hi.", "reference_audio": "?"}], "invalid_request", "items[0]: reference_audio is not"),
        ([{"text": "a" * 100_001}], "text_too_long", "items[0].text has 100001 characters"),
        ([{"txt": "Hi."}], "invalid_request", "`items.0.text` is missing"),
    ],
)
async def test_bad_items_are_named(items: list[Any], code: str, message: str) -> None:
    async with in_process(make_services()) as client:
        error = error_of(await client.post(PATH, json={"items": items}))
        assert error["code"] == code
        assert message in str(error["message"])
        assert (await client.get(PATH)).json() == {"batches": []}


async def test_what_is_unfinished_is_spoken_after_a_restart(tmp_path: Path) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
    async with running(tmp_path, engine) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "First."}, {"text": "Second."}]})
        await engine.has_opened.wait()
        batch = (await client.get(f"{PATH}/{made.json()['id']}")).json()
        assert (batch["state"], batch["running"], batch["queued"]) == ("running", 1, 1)
    orphan = tmp_path / "batch_of_nobody"
    orphan.mkdir()
    async with running(tmp_path) as (client, _):
        batch = await ended(client, made.json()["id"])
        assert batch["done"] == 2
        audio = await client.get(f"{PATH}/{batch['id']}/items/1/audio")
    samples, _ = soundfile.read(io.BytesIO(audio.content), dtype="int16")
    np.testing.assert_array_equal(samples, to_pcm16(speech("First.")))
    assert sorted(os.listdir(tmp_path / batch["id"])) == ["1.wav", "2.wav"]
    assert not orphan.exists()


async def test_an_item_that_ends_its_server_three_times_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(pause=asyncio.Event())) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "First."}, {"text": "Second."}]})
    for _ in range(3):
        store = BatchStore(tmp_path, MB)
        job = store.take()
        assert job is not None
        assert job.number == 1
        store.close()  # as kill -9: it is neither ended nor released
    async with running(tmp_path) as (client, _):
        batch = await ended(client, made.json()["id"])
        items = (await client.get(f"{PATH}/{batch['id']}/items")).json()["items"]
    assert [item["state"] for item in items] == ["failed", "done"]
    assert "ended 3 times while it spoke this item" in items[0]["error"]["message"]


async def test_an_item_that_ends_its_worker_three_times_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    for method in ("finish", "fail"):  # the second is what the worker does about the first
        original = getattr(BatchStore, method)

        def end_worker(kept: BatchStore, job: Job, *given: Any, original: Any = original) -> Any:
            if job.number == 1 and job.num_starts <= runner_module.MAX_STARTS:
                raise MemoryError
            return original(kept, job, *given)

        monkeypatch.setattr(BatchStore, method, end_worker)
    async with running(tmp_path) as (client, services):
        made = await client.post(PATH, json={"items": [{"text": "First."}, {"text": "Second."}]})
        batch = await ended(client, made.json()["id"])
        items = (await client.get(f"{PATH}/{batch['id']}/items")).json()["items"]
        assert counted(services, "tts_worker_failures_total", worker="batches") == runner_module.MAX_STARTS
    assert [item["state"] for item in items] == ["failed", "done"]
    assert "ended 3 times while it spoke this item" in items[0]["error"]["message"]


async def test_a_restart_that_was_asked_for_counts_against_no_item(tmp_path: Path) -> None:
    id = ""
    for _ in range(4):
        engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
        async with running(tmp_path, engine) as (client, _):
            if not id:
                id = (await client.post(PATH, json={"items": [{"text": "Hi."}]})).json()["id"]
            await engine.has_opened.wait()
    async with running(tmp_path) as (client, _):
        assert (await ended(client, id))["done"] == 1


async def test_cancelling_stops_what_is_spoken_and_deleting_removes_the_audio(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with running(tmp_path, engine) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "Done."}]})
        done = await ended(client, made.json()["id"])
        engine.pause, engine.has_opened = asyncio.Event(), asyncio.Event()
        made = await client.post(PATH, json={"items": [{"text": "Stopped."}, {"text": "Never."}]})
        await engine.has_opened.wait()
        cancelled = (await client.post(f"{PATH}/{made.json()['id']}/cancel")).json()
        assert (cancelled["state"], cancelled["queued"], cancelled["running"]) == ("cancelled", 0, 0)
        assert engine.streams[-1].cancels == ["client_cancel"]
        engine.pause = None
        assert (await client.delete(f"{PATH}/{done['id']}")).status_code == 204
        assert error_of(await client.get(f"{PATH}/{done['id']}"))["code"] == "not_found"
        assert not (tmp_path / done["id"]).exists()
        made = await client.post(PATH, json={"items": [{"text": "The queue goes on."}]})
        assert (await ended(client, made.json()["id"]))["done"] == 1


async def test_an_item_that_is_cancelled_before_it_sounds_is_not_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, has_begun, goes_on = FakeEngine(), asyncio.Event(), asyncio.Event()
    client_of = runner_module.BatchRunner._client

    async def held(runner: runner_module.BatchRunner, owner: str) -> Client:
        has_begun.set()
        await goes_on.wait()
        return await client_of(runner, owner)

    monkeypatch.setattr(runner_module.BatchRunner, "_client", held)
    async with running(tmp_path, engine) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "Never."}]})
        await has_begun.wait()
        await client.post(f"{PATH}/{made.json()['id']}/cancel")
        goes_on.set()
        made = await client.post(PATH, json={"items": [{"text": "The next."}]})
        assert (await ended(client, made.json()["id"]))["done"] == 1
    assert [stream.request.text for stream in engine.streams] == ["The next."]


async def test_a_failing_item_fails_alone_and_a_full_server_is_waited_for(tmp_path: Path) -> None:
    engine = FakeEngine(failure=SynthesisFailed("it broke"), fails_after_chunks=1)
    async with running(tmp_path, engine) as (client, services):
        made = await client.post(PATH, json={"items": [{"text": "Fails."}]})
        batch = await ended(client, made.json()["id"])
        assert (batch["state"], batch["failed"]) == ("done", 1)
        item = (await client.get(f"{PATH}/{batch['id']}/items")).json()["items"][0]
        assert (item["state"], item["error"]["code"]) == ("failed", "internal")
        assert counted(services, "tts_batch_items_total", outcome="failed") == 1
        engine.failure, engine.refusal = None, Overloaded("full", 1)
        made = await client.post(PATH, json={"items": [{"text": "Waits."}]})
        await asyncio.sleep(0.1)
        batch = (await client.get(f"{PATH}/{made.json()['id']}")).json()
        assert batch["queued"] + batch["running"] == 1
        engine.refusal = None
        assert (await ended(client, made.json()["id"]))["done"] == 1


async def test_a_batch_is_seen_by_its_key_and_admin_alone_and_ends_with_the_key(tmp_path: Path) -> None:
    ring = tmp_path / "keys.toml"
    ring.write_text(
        '[anna]\nkey = "anna-key"\nscopes = ["speak"]\n[ben]\nkey = "ben-key"\nscopes = ["speak"]\n'
        '[root]\nkey = "root-key"\nscopes = ["admin"]\n'
    )

    def bearer(name: str) -> dict[str, Any]:
        return {"headers": {"X-API-Key": f"{name}-key"}}

    engine = FakeEngine(pause=asyncio.Event())
    async with running(tmp_path / "batches", engine, keys=KeyRing(file=ring)) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "A"}, {"text": "B"}]}, **bearer("anna"))
        id = made.json()["id"]
        await engine.has_opened.wait()
        for path in ("", "/items", "/items/1/audio", "/audio"):
            assert error_of(await client.get(f"{PATH}/{id}{path}", **bearer("ben")))["code"] == "not_found"
        assert error_of(await client.delete(f"{PATH}/{id}", **bearer("ben")))["code"] == "not_found"
        assert error_of(await client.post(f"{PATH}/{id}/cancel", **bearer("ben")))["code"] == "not_found"
        assert (await client.get(PATH, **bearer("ben"))).json() == {"batches": []}
        assert len((await client.get(PATH, **bearer("root"))).json()["batches"]) == 1
        ring.write_text('[root]\nkey = "root-key"\nscopes = ["admin"]\n')
        engine.streams[0]._engine.pause.set()  # type: ignore[union-attr]
        engine.pause.set()  # type: ignore[union-attr]
        batch = await ended(client, id, **bearer("root"))
        assert (batch["done"], batch["failed"]) == (1, 1)
        items = (await client.get(f"{PATH}/{id}/items", **bearer("root"))).json()["items"]
        assert items[1]["error"]["code"] == "invalid_api_key"


async def test_room_is_bounded_in_bytes_batches_and_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_UNFINISHED", 2)
    item = NewItem("1", "wav", "{}")
    kept = BatchStore(tmp_path, 1000)
    with pytest.raises(StoreFull, match="download and delete finished ones"):
        kept.add("", [NewItem("1", "wav", "x" * 1001)])
    assert kept.owned_by(None, 10) == []
    kept.add("", [item])
    job = kept.take()
    assert job is not None
    assert kept.finish(job, 900, 1.0)
    with pytest.raises(StoreFull):
        kept.add("", [NewItem("1", "wav", "x" * 101)])
    full = kept.add("", [item])
    job = kept.take()
    assert job is not None
    kept.finish(job, 200, 1.0)
    kept.delete(full.id)
    kept.add("", [item])
    kept.add("", [item])
    with pytest.raises(InvalidRequest, match="2 of them not finished"):
        kept.add("", [item])
    kept.add("ben", [item])
    kept.close()
    async with in_process(make_services()) as client:
        answer = await client.post(PATH, json={"items": [{"text": "a"}] * (schemas.MAX_ITEMS + 1)})
        assert "10000" in str(error_of(answer)["message"])


async def test_audio_counts_once_while_its_item_is_finished(tmp_path: Path) -> None:
    kept = BatchStore(tmp_path, 1000)
    kept.add("", [NewItem(name, "wav", "{}") for name in "123"])
    first, second, third = (kept.take() for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    kept.wrote(first, 600)
    assert kept.finish(first, 600, 1.0)
    kept.wrote(second, 300)  # before the first one's writer has said that it stopped
    kept.stopped_writing(second)
    kept.cancel(third.batch)
    assert not kept.finish(third, 300, 1.0)
    kept.wrote(second, 300)  # what was cancelled takes no room
    kept.close()


async def test_no_room_for_audio_lets_items_wait_until_there_is(tmp_path: Path) -> None:
    kept = BatchStore(tmp_path, 1000)
    first = kept.add("", [NewItem("1", "wav", "{}"), NewItem("2", "wav", "{}")])
    job = kept.take()
    assert job is not None
    kept.finish(job, 2000, 1.0)
    with pytest.raises(StoreFull):
        kept.take()
    assert kept.get(first.id).num_queued == 1
    kept.delete(first.id)
    kept.add("", [NewItem("1", "wav", "{}")])
    assert kept.take() is not None
    kept.close()


async def test_a_second_server_with_the_same_directory_says_so_and_a_server_may_take_none(
    tmp_path: Path,
) -> None:
    first = BatchStore(tmp_path, MB)
    for other, message in ((BatchStore(tmp_path, MB), "another server"), (BatchStore(tmp_path, 0), "is 0")):
        async with in_process(make_services(), surfaces=make_surfaces(batches=other)) as client:
            answer = await client.post(PATH, json={"items": [{"text": "Hi."}]})
        assert answer.status_code == 503
        assert message in str(error_of(answer)["message"])
        assert other.num_waiting == 0
    first.close()


async def test_batches_take_turns_by_their_items(tmp_path: Path) -> None:
    kept = BatchStore(tmp_path, MB)
    book = kept.add("anna", [NewItem(str(n), "wav", "{}") for n in range(3)])
    short = kept.add("ben", [NewItem("1", "wav", "{}")])
    taken = [kept.take() for _ in range(4)]
    assert [job and (job.batch, job.number) for job in taken] == [
        (book.id, 1),
        (short.id, 1),
        (book.id, 2),
        (book.id, 3),
    ]
    assert kept.take() is None
    kept.close()


async def test_directory_that_is_gone_takes_no_batch_and_is_said(tmp_path: Path) -> None:
    async with running(tmp_path / "batches") as (client, _):
        shutil.rmtree(tmp_path / "batches")
        answer = await client.post(PATH, json={"items": [{"text": "Hi."}]})
        ready = await client.get("/readyz")
        assert (answer.status_code, error_of(answer)["code"]) == (503, "store_unavailable")
        assert (ready.status_code, ready.json()["reason"]) == (
            503,
            "the file of the batches is gone from its disk",
        )


async def test_item_whose_folder_cannot_be_made_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "RETRY_AFTER_S", 0.01)
    (tmp_path / "batch_1").write_text("in the way")
    monkeypatch.setattr(store.secrets, "token_hex", lambda n: "1")
    async with running_surface(make_services(), tmp_path) as (client, surface):
        made = await client.post(PATH, json={"items": [{"text": "Hi."}]})
        with pytest.raises(StoreUnavailable):
            surface.batches.store.take()
        assert (await client.get(f"{PATH}/{made.json()['id']}")).json()["state"] == "queued"
        (tmp_path / "batch_1").unlink()
        surface.batches.changed.set()
        assert (await ended(client, made.json()["id"]))["done"] == 1


async def test_worker_that_fails_is_said_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.05)
    take, failures = BatchStore.take, iter(range(3))

    def fail(kept: BatchStore) -> Job | None:
        if next(failures, None) is not None:
            raise RuntimeError("out of inodes")
        return take(kept)

    monkeypatch.setattr(BatchStore, "take", fail)
    services = make_services()
    async with running_surface(services, tmp_path) as (client, surface):
        while True:
            said = (await client.get("/readyz")).json()
            if said["failing_workers"]:
                break
            await asyncio.sleep(0.001)
        failing = {"damaged_speakers": [], "failing_workers": ["batches-0"]}
        limit = {"max_streams": 0, "max_streams_from": "", "networks": "loaded"}
        assert said == {"ready": True, "reason": ""} | failing | limit
        made = await client.post(PATH, json={"items": [{"text": "Hi."}]})
        assert (await ended(client, made.json()["id"]))["done"] == 1
        while True:
            if not surface.batches.workers.failing:
                break
            await asyncio.sleep(0.01)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "the worker batches-0 failed and is started again"
    ]


async def test_item_whose_end_cannot_be_written_is_spoken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(runner_module, "RETRY_AFTER_S", 0.01)
    for method, num_failures in (("finish", 1), ("release", 2)):
        original, failures = getattr(BatchStore, method), iter(range(num_failures))

        def fail(kept: BatchStore, *given: Any, original: Any = original, failures: Any = failures) -> Any:
            if next(failures, None) is not None:
                raise StoreFull("the disk is full")
            return original(kept, *given)

        monkeypatch.setattr(BatchStore, method, fail)
    async with running(tmp_path) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "Hi."}]})
        assert (await ended(client, made.json()["id"]))["done"] == 1


async def test_batch_is_deleted_while_it_is_spoken(tmp_path: Path) -> None:
    engine = FakeEngine(pause=asyncio.Event())
    async with running(tmp_path, engine) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "Stopped."}, {"text": "Never."}]})
        await engine.has_opened.wait()
        assert (await client.delete(f"{PATH}/{made.json()['id']}")).status_code == 204
        assert engine.streams[-1].cancels == ["client_cancel"]
        assert (await client.get(PATH)).json() == {"batches": []}
        engine.pause = None
        made = await client.post(PATH, json={"items": [{"text": "The queue goes on."}]})
        assert (await ended(client, made.json()["id"]))["done"] == 1
    assert os.listdir(tmp_path / made.json()["id"]) == ["1.wav"]


def sizes_in(directory: Path) -> list[int]:
    return [path.stat().st_size for path in directory.rglob("*.wav*")]


async def test_the_quota_of_the_disk_is_counted_while_an_item_is_written(tmp_path: Path) -> None:
    """A letter is 2,400 bytes, and all batches may have 1 MiB."""
    async with running(tmp_path) as (client, _):
        made = await client.post(PATH, json={"items": [{"text": "a" * 600}, {"text": "b" * 44}]})
        batch = await ended(client, made.json()["id"])
        items = (await client.get(f"{PATH}/{batch['id']}/items")).json()["items"]
        assert len(sizes_in(tmp_path)) == 1
    assert (batch["failed"], batch["done"]) == (1, 1)
    assert items[0]["error"]["code"] == "invalid_request"
    assert "FIRSTWORD_BATCH_DISK_MB" in items[0]["error"]["message"]


async def test_an_item_waits_until_there_is_room_for_all_of_it(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with running(tmp_path, engine) as (client, _):
        first, second = [
            (await client.post(PATH, json={"items": [{"text": letter * 300}]})).json()["id"]
            for letter in "ab"
        ]
        assert (await ended(client, first))["done"] == 1
        await until(lambda: len(engine.streams) == 2 and not engine.open_streams)  # it met the limit
        assert (await client.get(f"{PATH}/{second}")).json()["failed"] == 0
        assert sum(sizes_in(tmp_path)) < MB
        assert (await client.delete(f"{PATH}/{first}")).status_code == 204
        assert (await ended(client, second))["done"] == 1
    assert len(engine.streams) == 3, "it was not tried in vain"


async def test_workers_that_release_at_once_release_each_item_once() -> None:
    released: list[str] = []
    store: Any = SimpleNamespace(release=lambda job, has_failed: released.append(job))
    service: Any = None
    runner = runner_module.BatchRunner(service, Batches(store))
    unspoken: Any = runner._unspoken
    unspoken += [("one", False), ("two", True)]
    await asyncio.gather(runner._release(), runner._release())
    assert sorted(released) == ["one", "two"]


async def test_audio_that_was_deleted_meanwhile_is_not_found(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, _):
        batch = await ended(
            client, (await client.post(PATH, json={"items": [{"text": "One."}]})).json()["id"]
        )
        shutil.rmtree(tmp_path / batch["id"])
        answer = await client.get(f"{PATH}/{batch['id']}/items/1/audio")
    assert answer.status_code == 404


def test_a_signed_item_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = tmp_path / "1.wav"
    path.write_bytes(b"RIFF")
    service: Any = SimpleNamespace(provenance=SimpleNamespace(signed=lambda content, _: content + b" signed"))
    runner_module._sign(path, service, OutputFormat("wav", 24_000))
    assert path.read_bytes() == b"RIFF signed"
    assert synced == [len(b"RIFF signed")]
