"""What each key used is counted, and kept across restarts."""

import asyncio
import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from firstword.app.errors import StoreFull, StoreUnavailable
from firstword.app.options import InvalidOptions
from firstword.app.telemetry import usage as usage_module
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import MAX_LABELS, OTHER, Usage, UsageStore, UsedByClient
from tests.support.readings import samples, value

pytestmark = pytest.mark.anyio


def read_file(path: Path) -> dict[str, UsedByClient]:
    """As another server would."""
    with closing(UsageStore.open(path)) as file:
        return file.read()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.sqlite3"


async def test_counts_secret_and_time_outlive_a_restart(path: Path) -> None:
    async with Usage(path, Metrics()) as first:
        first.count("anna", 10, 1.5)
        first.count("", 1, 0.25)
    async with Usage(path, Metrics()) as second:
        second.count("anna", 5, 0.5)
        assert await second.read() == {"anna": UsedByClient(2, 15, 2.0), "": UsedByClient(1, 1, 0.25)}
        assert second.secret == first.secret
        assert second.began_at == first.began_at
    assert len(first.secret) == 32
    assert os.stat(path).st_mode & 0o777 == 0o600


async def test_counts_of_several_servers_are_added(path: Path) -> None:
    async with Usage(path, Metrics()) as one, Usage(path, Metrics()) as other:
        assert one.secret == other.secret
        for _ in range(100):
            one.count("anna", 1, 1.0)
            other.count("anna", 1, 1.0)
    assert read_file(path) == {"anna": UsedByClient(200, 200, 200.0)}


async def test_counts_are_written_together_and_soon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "WRITE_INTERVAL_S", 0.01)
    written = asyncio.Event()
    writes: list[object] = []
    loop = asyncio.get_running_loop()
    add = UsageStore.add

    def add_and_tell(file: UsageStore, counts: dict[str, UsedByClient]) -> None:
        add(file, counts)
        writes.append(counts)
        loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(UsageStore, "add", add_and_tell)
    async with Usage(path, Metrics()) as usage:
        for _ in range(1000):
            usage.count("anna", 1, 0.0)
        async with asyncio.timeout(20):
            await written.wait()
        assert read_file(path) == {"anna": UsedByClient(1000, 1000, 0.0)}
    assert len(writes) == 1  # all in one, and none at the end: nothing was left


async def test_what_cannot_be_written_is_kept_and_written_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage_module, "WRITE_INTERVAL_S", 0.01)
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()
    add = UsageStore.add

    def fail(file: UsageStore, counts: dict[str, UsedByClient]) -> None:
        loop.call_soon_threadsafe(failed.set)
        raise sqlite3.OperationalError("database or disk is full")

    async with Usage(path, Metrics()) as usage:
        monkeypatch.setattr(UsageStore, "add", fail)
        usage.count("anna", 10, 1.0)
        for _ in range(3):
            failed.clear()
            async with asyncio.timeout(20):
                await failed.wait()
        assert await usage.read() == {"anna": UsedByClient(1, 10, 1.0)}
        monkeypatch.setattr(UsageStore, "add", add)
    assert read_file(path) == {"anna": UsedByClient(1, 10, 1.0)}
    messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len([message for message in messages if "and is kept: database or disk is full" in message]) == 1


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 10, None])
async def test_file_that_cannot_be_used_stops_the_start(path: Path, content: bytes | None) -> None:
    if content is None:
        os.mkdir(path)
    else:
        with open(path, "wb") as file:  # noqa: ASYNC230
            file.write(content)
    with pytest.raises(InvalidOptions, match="move it away to begin a new one"):
        async with Usage(path, Metrics()):
            pytest.fail("it was used")


async def test_a_full_disk_is_no_reason_to_move_the_file_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: object) -> UsageStore:
        raise StoreFull("the disk is full; free space on it and try again")

    monkeypatch.setattr(usage_module, "_opened", full)
    with pytest.raises(InvalidOptions, match=r"free space on it and try again$"):
        async with Usage(path, Metrics()):
            pytest.fail("it was used")


async def test_metric_has_a_bounded_number_of_names(path: Path) -> None:
    metrics = Metrics()
    usage = Usage(path, metrics)
    for number in range(MAX_LABELS + 5):
        usage.count(f"key{number}", 2, 0.5)
    usage.count("key0", 2, 0.5)
    usage.count("", 2, 0.5)
    found = {dict(labels)["key"] for (name, labels) in samples(metrics) if name == "tts_key_requests_total"}
    assert len(found) == MAX_LABELS + 1
    assert value(metrics, "tts_key_requests_total", key=OTHER) == 5
    assert value(metrics, "tts_key_characters_total", key="key0") == 4
    assert value(metrics, "tts_key_audio_seconds_total", key="key0") == 1.0


async def test_removed_file_is_no_new_one_with_another_secret(path: Path) -> None:
    async with Usage(path, Metrics()) as usage:
        os.unlink(path)
        assert not usage.is_in_place()
        with pytest.raises(StoreUnavailable, match="the server's file of usage is gone from its disk"):
            await usage.read()
        usage.count("anna", 1, 1.0)
    with pytest.raises(FileNotFoundError), closing(open(path)):  # noqa: ASYNC230
        pass
