"""A store whose file is gone, whose disk is full, or that is damaged."""

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from firstword.app.errors import SpeakerDamaged, StoreFull, StoreUnavailable
from firstword.app.speakers import store as store_module
from firstword.app.speakers.interface import PromptInfo, Quality, SpeakerChange, StoreHealth
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import RESERVE_BYTES, reserve_of
from firstword.app.speakers.tables import SpeakerRow, StoredSpeaker
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers

SOUND_BYTES = 300_000
NUM_SPEAKERS = 6


def speaker(name: str, num_bytes: int = SOUND_BYTES) -> StoredSpeaker:
    row = SpeakerRow(
        name,
        "2026-05-01T12:00:00+00:00",
        PromptInfo(2.5, "Hello.", "en", 62),
        Quality(30.0, 0.0, 0.6),
        "checkpoint-1",
        "anna",
        "read-only",
    )
    return StoredSpeaker(row, name.encode() * (num_bytes // len(name)), b"features")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store with speakers s0, s1 … whose recordings are far larger than a page."""
    path = tmp_path / "data" / "speakers.sqlite"
    with closing(SpeakerStore(path)) as store:
        for number in range(NUM_SPEAKERS):
            store.insert(speaker(f"s{number}"))
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SpeakerStore]:
    with closing(SpeakerStore(path)) as store:
        yield store


def id_of(store: SpeakerStore, name: str) -> int:
    row = store.row(name)
    assert row is not None
    return row.id


def overwrite(path: Path, name: str, num_bytes: int) -> None:
    """Write over the middle of a speaker's recording."""
    content = path.read_bytes()
    first = content.index(name.encode() * 1000) + SOUND_BYTES // 3
    path.write_bytes(content[:first] + b"\xa5" * num_bytes + content[first + num_bytes :])


@pytest.mark.parametrize("change", ["removed", "moved", "replaced", "journal removed"])
def test_nothing_is_registered_in_a_file_that_is_not_there(
    store: SpeakerStore, path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert store.is_in_place()
    match change:
        case "removed":
            shutil.rmtree(path.parent)
        case "moved":
            path.parent.rename(path.parent.with_name("elsewhere"))
        case "replaced":
            copy = path.with_name("copy")
            shutil.copy(path, copy)
            copy.replace(path)
        case "journal removed":
            os.unlink(f"{path}-wal")

    with caplog.at_level(logging.ERROR), pytest.raises(StoreUnavailable, match="nothing was saved"):
        store.insert(speaker("late"))
    for attempt in (lambda: store.update("s0", SpeakerChange("Other.")), lambda: store.delete("s0")):
        with pytest.raises(StoreUnavailable):
            attempt()

    assert not store.is_in_place()
    assert store.row("late") is None
    assert len([record for record in caplog.records if "removed, moved or replaced" in record.message]) == 1


def test_a_file_that_goes_while_it_is_written_is_no_success(
    store: SpeakerStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = store._execute

    def execute_and_move(statement: str, values: dict[str, object]) -> SpeakerRow | None:
        row = execute(statement, values)
        path.parent.rename(path.parent.with_name("elsewhere"))
        return row

    monkeypatch.setattr(store, "_execute", execute_and_move)

    with pytest.raises(StoreUnavailable):
        store.insert(speaker("late"))


def test_a_store_that_stays_locked_is_unavailable(
    store: SpeakerStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store._writer.connection.execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            store.insert(speaker("late"))
        other.execute("ROLLBACK")
    assert "database is locked" in caplog.text


ON_A_FULL_DISK = """
import sys
from contextlib import closing
from pathlib import Path
from firstword.app.errors import StoreFull
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import reserve_of
from tests.speakers.test_store_faults import speaker

path = Path(sys.argv[1]) / "speakers.sqlite"

def fill():
    with open(path.with_name("filler"), "ab", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass

with closing(SpeakerStore(path)) as store:
    names = [f"s{number}" for number in range(3)]
    for name in names:
        store.insert(speaker(name))
    store._writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fill()
    try:
        store.insert(speaker("late"))
        raise SystemExit("the disk was not full")
    except StoreFull as error:
        print(error)
    assert [row.name for row in store.rows()] == names
    assert store.delete("s1") is not None
    fill()
for _ in range(2):
    with closing(SpeakerStore(path)) as store:
        assert [row.name for row in store.rows()] == ["s0", "s2"]
        assert store.read(store.row("s0").id).recording == speaker("s0").recording
path.with_name("filler").unlink()
with closing(SpeakerStore(path)) as store:
    assert store.insert(speaker("s1"))
    assert reserve_of(path).exists()
    assert [row.name for row in store.rows()] == names
"""


def test_a_check_that_the_end_of_the_server_breaks_off_finds_no_damage(
    store: SpeakerStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: sqlite3.Connection) -> str:
        raise sqlite3.OperationalError("interrupted")

    monkeypatch.setattr(store_module, "find_fault", interrupted)
    store._is_closing.set()
    store._check_all()
    assert not caplog.records


@pytest.mark.slow
def test_a_full_disk_is_said_in_words_and_can_be_deleted_from(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=6m none "$0" && exec "$@"'
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*shell, mounted, tmp_path, "true"], check=False).returncode
    ):
        pytest.skip("a small file system cannot be mounted here without privileges")

    command = [*shell, mounted, tmp_path, sys.executable, "-c", ON_A_FULL_DISK, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the disk that holds the server's speakers is full and nothing was saved")


class FullDisk:
    """A connection that finds no space while there is a reserve."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def execute(self, statement: str, *given: object) -> sqlite3.Cursor:
        if statement.startswith(("DELETE", "INSERT")) and reserve_of(self._path).exists():
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(statement, *given)  # type: ignore[arg-type]

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        self._connection.close()


def test_deleting_uses_the_space_kept_in_reserve(store: SpeakerStore, path: Path) -> None:
    assert reserve_of(path).stat().st_blocks * 512 >= RESERVE_BYTES
    store._writer.connection = FullDisk(store._writer.connection, path)  # type: ignore[assignment]

    with pytest.raises(StoreFull, match="can still be used and deleted"):
        store.insert(speaker("late"))
    assert len(store.rows()) == NUM_SPEAKERS

    deleted = store.delete("s1")
    assert deleted is not None
    assert len(store.rows()) == NUM_SPEAKERS - 1
    assert reserve_of(path).exists()


@pytest.mark.parametrize("num_bytes", [1, 64 << 10])
def test_damage_to_one_speaker_is_found_at_the_start_and_can_be_removed(
    path: Path, num_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(path, "s3", num_bytes)
    damaged_content = path.read_bytes()

    with caplog.at_level(logging.ERROR), closing(SpeakerStore(path, max_check_s=60)) as store:
        damaged_id = id_of(store, "s3")
        assert store.damaged == {damaged_id}
        assert "speaker s3 is damaged" in caplog.text
        for attempt in (
            lambda: store.read(damaged_id),
            lambda: store.update("s3", SpeakerChange("Other.")),
        ):
            with pytest.raises(SpeakerDamaged, match="'s3' is damaged; delete it and register it again"):
                attempt()
        assert not list(path.parent.glob("*.damaged-*"))

        last_id = store.rows()[-1].id
        assert store.delete("s3") is not None

        assert store.damaged == frozenset()
        again = store.insert(speaker("s3"))
        assert again.id > last_id
        assert store.read(again.id) == replace(speaker("s3"), row=again)
    (copy,) = path.parent.glob("*.damaged-*")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert damaged_content[-4096:] == copy.read_bytes()[len(damaged_content) - 4096 :]
    assert copy.stat().st_size == len(damaged_content)
    assert_whole(path)


def assert_whole(path: Path) -> None:
    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert store.damaged == frozenset()
        assert [row.name for row in store.rows()] == [f"s{number}" for number in range(NUM_SPEAKERS)]
        for row in store.rows():
            assert store.read(row.id) == replace(speaker(row.name), row=row)
            assert (row.owner, row.access) == ("anna", "read-only")


@pytest.mark.anyio
async def test_a_damaged_speaker_is_shown_and_refused_until_it_is_registered_again(servers: Servers) -> None:
    first = await servers.open()
    for name in ("mia", "eva"):
        await first.enrol(name, recording(), "Hello.")
    with closing(sqlite3.connect(servers.path)) as connection:
        connection.execute("UPDATE digests SET digest = x'00' WHERE id = 1")
        connection.commit()
    registry = await servers.open()

    assert registry.health() == StoreHealth(is_available=True, damaged=("mia",))
    assert [speaker.damaged for speaker in registry.list() if speaker.kind == "registered"] == [False, True]
    for attempt in (
        registry.prepared,
        registry.export,
        partial(registry.update, change=SpeakerChange("Other.")),
    ):
        with pytest.raises(SpeakerDamaged):
            await attempt("mia")
        await attempt("eva")

    await registry.delete("mia")
    await registry.enrol("mia", recording(), "Hello.")
    assert registry.health() == StoreHealth(is_available=True)
    await registry.prepared("mia")
    await registry.export("mia")


def test_two_damaged_speakers_are_removed_one_after_the_other(path: Path) -> None:
    overwrite(path, "s1", 64 << 10)
    overwrite(path, "s4", 64 << 10)

    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert {row.name for row in store.rows() if row.id in store.damaged} == {"s1", "s4"}
        store.delete("s1")
        assert {row.name for row in store.rows() if row.id in store.damaged} == {"s4"}
    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert {row.name for row in store.rows() if row.id in store.damaged} == {"s4"}
        assert store.rows()[3].prompt.transcript == "Hello."
        store.delete("s4")
        store.insert(speaker("s1"))
        store.insert(speaker("s4"))
    assert len(list(path.parent.glob("*.damaged-*"))) == 1
    assert_whole(path)


def test_other_processes_go_on_after_a_damaged_speaker_was_removed(path: Path) -> None:
    overwrite(path, "s3", 64 << 10)
    with closing(SpeakerStore(path)) as one, closing(SpeakerStore(path)) as other:
        one.delete("s3")

        assert [row.name for row in other.rows()] == ["s0", "s1", "s2", "s4", "s5"]
        assert other.insert(speaker("s3")) in one.rows()
        assert other.update("s2", SpeakerChange("Other.")) is not None
    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert store.damaged == frozenset()


def test_damage_is_found_in_the_background_where_the_start_may_not_wait(path: Path) -> None:
    overwrite(path, "s3", 64 << 10)
    with closing(SpeakerStore(path, max_check_s=0)) as store:
        assert len(store.rows()) == NUM_SPEAKERS
        store._check.join(timeout=60)
        assert store.damaged == {id_of(store, "s3")}


def test_a_store_of_a_release_without_digests_is_given_them(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old:
        for kind, name in old.execute(
            "SELECT type, name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            old.execute(f"DROP {kind} {name}")
        old.execute("DROP TABLE digests")
        old.commit()
    SpeakerStore(path, max_check_s=60).close()
    overwrite(path, "s2", 1)

    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert store.damaged == {id_of(store, "s2")}


def test_what_a_release_without_digests_changes_is_no_damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.execute("UPDATE speakers SET features = x'00' WHERE name = 's2'")
        old.commit()

    with closing(SpeakerStore(path, max_check_s=60)) as store:
        assert store.damaged == frozenset()
