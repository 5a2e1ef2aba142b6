"""`firstword backup` and `firstword restore`."""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from filelock import FileLock

from firstword.app.commands import backup as backup_module
from firstword.app.database import Database
from firstword.app.service import LOCK_FILE, USAGE_FILE
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import SPEAKERS, SPEAKERS_FILE
from firstword.app.surfaces.batches.store import BatchStore, NewItem
from firstword.app.telemetry.usage import UsageStore
from tests.commands.typed import refused, run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory that a server has open: its last rows stand in the journal alone."""
    directory = tmp_path / "data"
    (directory / "batches").mkdir(parents=True)
    (directory / "batches" / "one.wav").write_bytes(b"RIFF")
    (directory / "batches" / "two.wav.part").write_bytes(b"RIF")
    (directory / "capacity.json").write_text("{}")
    monkeypatch.setenv("FIRSTWORD_DATA_DIR", str(directory))
    return directory


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def rows(file: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT name FROM speakers").fetchall()


def test_what_a_server_writes_meanwhile_is_copied_and_put_back(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, other = tmp_path / "copy", tmp_path / "other"
    with FileLock(data / LOCK_FILE), closing(sqlite3.connect(data / "speakers.sqlite3")) as server:
        server.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE speakers (name); PRAGMA wal_autocheckpoint=0"
        )
        server.execute("INSERT INTO speakers VALUES ('anna')")
        server.commit()
        assert run("backup", str(copy)).exit_code == 0
        assert f"a server uses {data}" in refused("restore", str(copy))
    assert names(copy) == {"speakers.sqlite3", "batches/one.wav"}
    assert (copy / "speakers.sqlite3").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("FIRSTWORD_DATA_DIR", str(other))
    assert run("restore", str(copy)).exit_code == 0
    assert names(other) - {LOCK_FILE} == names(copy)
    assert rows(other / "speakers.sqlite3") == [("anna",)]


@pytest.mark.timeout(60)
def test_the_stores_of_a_server_are_copied_while_it_has_them_open(data: Path, tmp_path: Path) -> None:
    with ExitStack() as server:
        batches = BatchStore(data / "batches", 1 << 20)
        for store in (batches, SpeakerStore(data / SPEAKERS_FILE), UsageStore.open(data / USAGE_FILE)):
            server.callback(store.close)
        batches.add("anna", [NewItem("one", "wav", "{}")])
        assert run("backup", str(tmp_path / "copy")).exit_code == 0
        assert batches.take() is not None
    copy = BatchStore(tmp_path / "copy" / "batches", 1 << 20)
    assert copy.num_waiting == 1
    copy.close()


@pytest.mark.timeout(60)
def test_a_database_that_somebody_has_locked_is_said(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "LOCKED_S", 0.1)
    locking = Database(data / SPEAKERS_FILE, SPEAKERS, is_exclusive=True)
    assert "database is locked" in refused("backup", str(tmp_path / "copy"))
    locking.close()


def test_a_directory_behind_a_link_is_copied_too(data: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(data / "speakers.sqlite3")) as server:
        server.execute("CREATE TABLE speakers (name)")
    (data / "batches").rename(tmp_path / "larger")
    (data / "batches").symlink_to(tmp_path / "larger")
    (tmp_path / "larger" / "up").symlink_to(data)  # and back
    assert run("backup", str(tmp_path / "copy")).exit_code == 0
    assert names(tmp_path / "copy") == {"speakers.sqlite3", "batches/one.wav"}


def test_nothing_is_written_over(data: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(data / "speakers.sqlite3")) as server:
        server.execute("CREATE TABLE speakers (name)")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "letter.txt").touch()
    assert "has something in it, letter.txt" in refused("backup", str(tmp_path / "copy"))
    assert run("backup", str(tmp_path / "fresh")).exit_code == 0
    assert "has something in it" in refused("restore", str(tmp_path / "fresh"))


def test_damage_and_nothing_at_all_are_said(data: Path, tmp_path: Path) -> None:
    assert "no data of a server" in refused("backup", str(tmp_path / "copy"))
    assert "no backup" in refused("restore", str(tmp_path))
    (data / "speakers.sqlite3").write_bytes(b"no database at all" * 100)
    assert "is not whole: file is not a database" in refused("backup", str(tmp_path / "copy"))
