import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firstword.app.database import DatabaseError
from firstword.app.errors import SpeakerExists
from firstword.app.speakers.interface import PromptInfo, Quality, SpeakerChange
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import reserve_of
from firstword.app.speakers.tables import SpeakerRow, StoredSpeaker

OpenStore = Callable[[], SpeakerStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "speakers.sqlite"


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    """Each call is what another process would have."""
    stores: list[SpeakerStore] = []

    def opened() -> SpeakerStore:
        stores.append(SpeakerStore(path))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def speaker(name: str = "mia", recording: bytes = b"sound", transcript: str = "Hello.") -> StoredSpeaker:
    row = SpeakerRow(
        name,
        "2026-05-01T12:00:00+00:00",
        PromptInfo(2.5, transcript, "en", 62),
        Quality(30.0, 0.0, 0.6),
        "checkpoint-1",
    )
    return StoredSpeaker(row, recording, b"features")


def test_a_speaker_outlives_the_process(open_store: OpenStore) -> None:
    stored = speaker(transcript="Grüße, 你好 👋🏽 \u202bשלם")
    store = open_store()
    row = store.insert(stored)
    store.close()

    again = open_store()

    assert row == replace(stored.row, id=row.id)
    assert again.rows() == (row,)
    assert again.read(row.id) == replace(stored, row=row)


def test_stores_of_one_file_see_each_other_at_once(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    assert other.rows() == ()

    row = one.insert(speaker())
    assert other.rows() == (row,)
    assert other.row("mia") == row

    other.update("mia", SpeakerChange("Good day.", None))
    assert [found.prompt.transcript for found in one.rows()] == ["Good day."]

    other.delete("mia")
    assert one.rows() == ()
    assert one.row("mia") is None


def test_a_store_sees_its_own_writes(open_store: OpenStore) -> None:
    store = open_store()
    store.rows()
    store.insert(speaker())

    assert [row.name for row in store.rows()] == ["mia"]


def test_rows_are_not_read_again_while_nothing_was_written(open_store: OpenStore) -> None:
    store = open_store()
    store.insert(speaker())

    assert store.rows() is store.rows()


def test_a_name_is_taken_once(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    row = one.insert(speaker(recording=b"first"))

    with pytest.raises(SpeakerExists, match="'mia' already"):
        other.insert(speaker(recording=b"second"))

    found = other.read(row.id)
    assert found is not None
    assert found.recording == b"first"


def test_an_id_is_never_used_again(open_store: OpenStore) -> None:
    store = open_store()
    first = store.insert(speaker())
    store.delete("mia")
    second = store.insert(speaker())

    assert second.id > first.id
    assert store.read(first.id) is None


def test_an_update_leaves_what_is_not_given_and_removes_an_empty_language(open_store: OpenStore) -> None:
    store = open_store()
    store.insert(speaker())

    def updated(transcript: str | None, language: str | None) -> tuple[str, str | None]:
        row = store.update("mia", SpeakerChange(transcript, language))
        assert row is not None
        assert row == store.row("mia")
        return row.prompt.transcript, row.prompt.language

    assert updated(None, "de") == ("Hello.", "de")
    assert updated("", None) == ("", "de")
    assert updated(None, "") == ("", None)
    assert store.update("nobody", SpeakerChange("x", "y")) is None


def test_features_of_a_deleted_speaker_go_nowhere(open_store: OpenStore) -> None:
    store = open_store()
    row = store.insert(speaker())
    newer = replace(row, prompt=replace(row.prompt, num_tokens=63), fingerprint="checkpoint-2")
    store.replace_features(StoredSpeaker(newer, b"sound", b"new"))
    found = store.read(row.id)
    assert found is not None
    kept = found.row
    assert (found.features, kept.prompt.num_tokens, kept.fingerprint) == (b"new", 63, "checkpoint-2")
    assert found.recording == b"sound"

    store.delete("mia")
    store.replace_features(StoredSpeaker(newer, b"sound", b"newer"))

    assert store.rows() == ()


def test_many_who_open_a_new_store_at_once_share_it(path: Path) -> None:
    start = threading.Barrier(8)

    def register(number: int) -> None:
        start.wait(timeout=30)
        with closing(SpeakerStore(path)) as store:
            store.insert(speaker(f"s{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(register, range(8)))

    with closing(SpeakerStore(path)) as store:
        assert [row.name for row in store.rows()] == [f"s{number}" for number in range(8)]
    assert sorted(os.listdir(path.parent)) == [path.name, reserve_of(path).name]


def test_a_writer_waits_for_another_and_lookups_do_not(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    row = store.insert(speaker())
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        writing = pool.submit(store.update, "mia", SpeakerChange("Later."))

        assert store.row("mia") == row
        assert not writing.done()
        other.execute("COMMIT")

        assert writing.result(timeout=30) == replace(
            row, prompt=replace(row.prompt, transcript="Later."), version=2
        )


def test_a_commit_is_on_the_disk_before_it_returns(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_only_its_owner_reads_it(open_store: OpenStore, path: Path) -> None:
    store = open_store()
    store.insert(speaker())

    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert modes == {0o600}


@pytest.mark.parametrize("content", [b"", b"name,voice\nmia,high\n" * 100])
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(DatabaseError, match=r"speakers\.sqlite: "):
        SpeakerStore(path)

    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE speakers (name TEXT)")
    content = path.read_bytes()

    with pytest.raises(DatabaseError, match="holds no speakers of ours; give the speakers a file"):
        SpeakerStore(path)

    assert path.read_bytes() == content


def test_a_damaged_store_is_refused(path: Path) -> None:
    with closing(SpeakerStore(path)) as store:
        for number in range(100):
            store.insert(speaker(f"s{number}"))
    content = bytearray(path.read_bytes())
    content[8192:16384] = b"\xa5" * 8192
    path.write_bytes(content)

    with pytest.raises(DatabaseError, match="cannot be used: database disk image is malformed"):
        SpeakerStore(path)


def test_a_truncated_store_is_refused(path: Path) -> None:
    with closing(SpeakerStore(path)) as store:
        store.insert(speaker(recording=bytes(100_000)))
    os.truncate(path, path.stat().st_size // 2)

    with pytest.raises(DatabaseError, match="malformed"):
        SpeakerStore(path)


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(DatabaseError, match=r"file/speakers\.sqlite"):
        SpeakerStore(tmp_path / "file" / "speakers.sqlite")
    with pytest.raises(DatabaseError, match="unable to open"):
        SpeakerStore(tmp_path)


def test_lookups_of_many_threads_never_overlap(open_store: OpenStore) -> None:
    store = open_store()
    store.insert(speaker())
    watched = store._reader.connection = OneAtATime(store._reader.connection)  # type: ignore[assignment]
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: (store.row("mia"), store.rows()), range(200)):
            assert found[0] is not None
            assert found[1] == (found[0],)
    assert not watched.has_overlapped


class OneAtATime:
    """A connection that notices whether it is asked while it answers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.has_overlapped = False
        self._connection = connection
        self._free = threading.Lock()

    def execute(self, *given: Any) -> sqlite3.Cursor:
        if not self._free.acquire(blocking=False):
            self.has_overlapped = True
            self._free.acquire()
        try:
            return self._connection.execute(*given)
        finally:
            self._free.release()

    def close(self) -> None:
        self._connection.close()
