"""Every store's file: what is deleted is gone from the disk, and what older releases wrote is opened."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from firstword.app import database as module
from firstword.app.clients import ANYBODY
from firstword.app.database import Database, DatabaseError, Schema
from firstword.app.errors import StoreFull, StoreUnavailable
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.interface import PromptInfo, Quality, SpeakerChange
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.tables import SpeakerRow, StoredSpeaker
from firstword.app.surfaces.batches.store import BATCHES, BatchStore, NewItem
from firstword.app.telemetry.usage import UsageStore, UsedByClient

NOTES = Schema("notes", 3, ("CREATE TABLE IF NOT EXISTS notes (text TEXT) STRICT",), oldest=2)
SECRET = "a private sentence, kept apart"
MIA = SpeakerRow("mia", "2026-05-01", PromptInfo(2.5, SECRET, "en", 62), Quality(30, 0, 0.6), "checkpoint")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "notes.sqlite3"


@pytest.fixture
def notes(path: Path) -> Iterator[Database]:
    with closing(Database(path, NOTES)) as database:
        with database.writing():
            database.execute("INSERT INTO notes VALUES (?)", (SECRET * 1000,))
        yield database


def content_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def delete(notes: Database) -> None:
    with notes.writing(erases=True):
        notes.execute("DELETE FROM notes")


def test_deleted_speaker_consent_and_batch_are_nowhere_on_the_disk(tmp_path: Path) -> None:
    """Recordings, transcripts, texts and the base64 of references, while the files are open."""
    recording, features = b"RIFF of mia" * 5000, b"features of mia" * 500
    request = f'{{"text": "{SECRET}", "reference_audio": "{"cmVmZXJlbmNl" * 3000}"}}'
    told = (SECRET.encode(), b"RIFF of mia", b"features of mia", b"cmVmZXJlbmNl", b"I agree", b"Mias consent")
    with (
        closing(SpeakerStore(tmp_path / "speakers.sqlite3")) as speakers,
        closing(ConsentStore.open(tmp_path / "speakers.sqlite3")) as consents,
        closing(BatchStore(tmp_path / "batches", 1 << 20)) as batches,
    ):
        for name in ("mia", "eva"):
            speakers.insert(StoredSpeaker(replace(MIA, name=name), recording, features))
        consent = consents.add("Mias consent", "en", b"I agree" * 5000, ANYBODY)
        batch = batches.add("anna", [NewItem(str(number), "wav", request) for number in range(3)])
        assert all(secret in content_of(tmp_path) for secret in told)

        speakers.delete("mia")
        speakers.delete("eva")
        consents.delete(consent.id, ANYBODY)
        batches.delete(batch.id)

        assert [secret for secret in told if secret in content_of(tmp_path)] == []


def test_replaced_transcript_and_text_that_was_spoken_are_erased_too(tmp_path: Path) -> None:
    with (
        closing(SpeakerStore(tmp_path / "speakers.sqlite3")) as speakers,
        closing(BatchStore(tmp_path / "batches", 1 << 20)) as batches,
    ):
        speakers.insert(StoredSpeaker(MIA, b"sound", b"features"))
        batches.add("", [NewItem(str(number), "wav", SECRET) for number in range(2)])
        speakers.update("mia", SpeakerChange("Hello."))
        for _ in range(2):
            job = batches.take()
            assert job is not None
            batches.finish(job, 100, 1.0)
        assert SECRET.encode() not in content_of(tmp_path)


def test_what_another_process_reads_meanwhile_is_erased_later(
    notes: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ERASE_RETRY_S", 0.01)
    erased = threading.Event()
    again = Database._empty_journal_again

    def noted(database: Database) -> None:
        again(database)
        if database._erasing is None:
            erased.set()

    monkeypatch.setattr(Database, "_empty_journal_again", noted)
    notes.connection.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM notes").fetchone()
        delete(notes)
        assert SECRET.encode() in content_of(path.parent)
        other.execute("COMMIT")
        assert erased.wait(30)
    assert SECRET.encode() not in content_of(path.parent)


def test_what_a_killed_process_deleted_is_erased_at_the_next_start(
    notes: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "_empty_journal", lambda database: None)
    delete(notes)
    assert SECRET.encode() in content_of(path.parent)
    with closing(Database(path, NOTES)):
        assert SECRET.encode() not in content_of(path.parent)


def fail_after_deleting(notes: Database, error: Exception) -> None:
    with notes.writing():
        notes.execute("DELETE FROM notes")
        raise error


def test_failed_write_leaves_nothing_and_the_next_one_works(notes: Database) -> None:
    for error, expected in ((ValueError("ours"), ValueError), (OSError(28, "No space left"), StoreFull)):
        with pytest.raises(expected):
            fail_after_deleting(notes, error)
    with notes.reading():
        assert notes.execute("SELECT count(*) FROM notes").fetchone() == (1,)
    delete(notes)


def test_file_that_was_moved_takes_nothing_until_it_is_back(notes: Database, path: Path) -> None:
    away = path.rename(path.with_name("away"))
    with pytest.raises(StoreUnavailable, match="the server's file of notes is gone from its disk"):
        delete(notes)
    away.rename(path)
    delete(notes)


@pytest.mark.parametrize(("version", "opens"), [(1, False), (2, True), (3, True), (4, False)])
def test_versions_of_a_schema(path: Path, version: int, opens: bool) -> None:
    Database(path, NOTES).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {version}")
    if opens:
        Database(path, NOTES).close()
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (3,)
        return
    with pytest.raises(DatabaseError, match=f"notes of schema {version}, this release knows 3"):
        Database(path, NOTES)


def test_damage_is_found_at_the_start(notes: Database, path: Path) -> None:
    notes.close()
    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"the file of the notes is damaged|malformed"):
        Database(path, NOTES)


def test_files_of_releases_without_this_module_are_opened(tmp_path: Path) -> None:
    """Those had no journal of their own for the usage, and nothing was overwritten."""
    with closing(sqlite3.connect(tmp_path / "usage.sqlite3")) as old:
        old.execute(
            """CREATE TABLE usage (name TEXT PRIMARY KEY, requests INTEGER NOT NULL,
            characters INTEGER NOT NULL, audio_s REAL NOT NULL) STRICT"""
        )
        old.execute("CREATE TABLE server (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT")
        old.execute("INSERT INTO usage VALUES ('anna', 2, 15, 2.0)")
        old.execute("INSERT INTO server VALUES ('secret', x'aa'), ('began_at', x'32303236')")
        old.commit()
    (tmp_path / "batches").mkdir()
    with closing(sqlite3.connect(tmp_path / "batches" / "batches.sqlite3", isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("PRAGMA user_version = 1")
        for statement in BATCHES.statements:
            old.execute(statement)
        old.execute("INSERT INTO batches (id, owner, created_at) VALUES ('batch_1', 'anna', 5)")
        old.execute(
            "INSERT INTO items (batch, number, name, suffix, request) VALUES (1, 1, 'a', 'wav', '{}')"
        )

    with closing(UsageStore.open(tmp_path / "usage.sqlite3")) as usage:
        assert usage.read() == {"anna": UsedByClient(2, 15, 2.0)}
        assert (usage.value("secret"), usage.value("began_at")) == (b"\xaa", b"2026")
        usage.add({"anna": UsedByClient(1, 5, 0.5)})
        assert usage.read() == {"anna": UsedByClient(3, 20, 2.5)}
    with closing(BatchStore(tmp_path / "batches", 1 << 20)) as batches:
        assert [batch.id for batch in batches.owned_by("anna", 10)] == ["batch_1"]
        assert batches.take() is not None
