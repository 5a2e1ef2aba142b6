"""Durable store of speakers in one SQLite file, which a server and commands use at the same time."""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from firstword.app.database import Database, DatabaseError, find_fault
from firstword.app.errors import SpeakerDamaged, StoreFull, StoreUnavailable
from firstword.app.speakers.store_file import SPEAKERS, copy_aside, keep_reserve, rebuild, release_reserve
from firstword.app.speakers.tables import (
    ROWS,
    RowCheck,
    SpeakerRow,
    SpeakerTables,
    StoredSpeaker,
    allow_any,
    digest_of,
    row_of,
)

logger = logging.getLogger(__name__)

READ_TIMEOUT_S = 1.0  # only while another process recovers the file is a reader kept waiting
WRITE_TIMEOUT_S = 10.0
MAX_CHECK_S = 5.0  # of a start; what is left of the check goes on beside the service


class SpeakerStore(SpeakerTables):
    """What any process wrote is seen by the next call of every other."""

    def __init__(self, path: Path, max_check_s: float = MAX_CHECK_S) -> None:
        """Make the file if there is none, and check what it holds: from `max_check_s` on in the background.

        Raises DatabaseError if it is foreign, newer or damaged beyond single speakers.
        """
        self._path = path
        self._reader, self._writer = self._open()
        super().__init__(self._writer)
        self._rows: tuple[SpeakerRow, ...] = ()  # under the reader's lock
        self._rows_version: int | None = None
        self._is_closing = threading.Event()
        try:
            self.rows()  # touches every row: damage shows now
        except BaseException:
            self._reader.close()
            self._writer.close()
            raise
        self._has_reserve = keep_reserve(path)
        self._check = threading.Thread(target=self._check_all, name="speakers-check", daemon=True)
        self._check.start()
        self._check.join(max_check_s)

    def close(self) -> None:
        """Wait for a write that is under way."""
        self._is_closing.set()
        self._check.join()
        self._writer.close()
        self._reader.close()

    def row(self, key: str) -> SpeakerRow | None:
        with self._reader.reading():
            found = self._reader.execute(f"{ROWS} WHERE name = ?", (key,)).fetchone()
            return None if found is None else row_of(found)

    def rows(self) -> tuple[SpeakerRow, ...]:
        """Read again only if anything was written since, by any process."""
        with self._reader.reading():
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._rows_version:
                found = self._reader.execute(f"{ROWS} ORDER BY name").fetchall()  # reads the names' index too
                rows = sorted(map(row_of, found), key=lambda row: row.position)
                self._rows, self._rows_version = tuple(rows), version
            return self._rows

    def delete(self, key: str, check: RowCheck = allow_any) -> SpeakerRow | None:
        """Return the row that was deleted, if any. Of a full disk the space kept in reserve is used."""
        try:
            return self._delete(key, check)
        except StoreFull:
            if not release_reserve(self._path):
                raise
            self._has_reserve = False
        return self._delete(key, check)

    def _delete(self, key: str, check: RowCheck) -> SpeakerRow | None:
        row = self.row(key)
        if row is None:
            return None
        check(row)
        try:
            self.read(row.id)
        except SpeakerDamaged:
            return self._delete_damaged(row)
        with self._writing(erases=True):
            row = self._row(key)  # another process may have given the name to another one
            if row is not None:
                check(row)
                self._delete_beside(row.id)
                self._execute("DELETE FROM speakers WHERE id = :id", {"id": row.id})
        return row

    def _delete_damaged(self, row: SpeakerRow) -> SpeakerRow:
        """Delete a speaker whose pages cannot be trusted to be its own."""
        damaged = frozenset[int]()
        with self._writer.reading():
            is_emptied = self._is_emptied(row.id)
            if not is_emptied:
                copy = copy_aside(self._writer, self._path)
                logger.warning("%s: kept as %s before speaker %s is removed", self._path, copy, row.name)
                # Outside of the transaction: one that met damage cannot go on.
                ids = self._writer.execute("SELECT id FROM speakers").fetchall()
                damaged = frozenset(id for (id,) in ids if not self._is_whole(id))
        with self._writing(erases=True):
            if is_emptied:
                self._execute("DELETE FROM speakers WHERE id = :id", {"id": row.id})
            else:
                rebuild(self._writer, row.id, damaged)
            self._delete_beside(row.id)
        self.damaged -= {row.id}
        return row

    def _is_emptied(self, id: int) -> bool:
        """Whether its sound was left out when the file was rebuilt."""
        found = self._writer.execute("SELECT length(recording) FROM speakers WHERE id = ?", (id,)).fetchone()
        return bool(found == (0,))

    def _check_all(self) -> None:
        """Find damage: first of the file as a whole, then of each speaker's sound."""
        try:
            finding = self._find_fault()
            if finding:
                logger.error("%s: the file is damaged: %s", self._path, finding)
            for row in self.rows():
                if self._is_closing.is_set():
                    return
                with self._writer.reading():
                    is_whole = self._is_whole(row.id)
                if is_whole and not finding:
                    self._add_digest(row.id)
        except (DatabaseError, SpeakerDamaged, StoreFull, StoreUnavailable) as error:
            logger.error("the check of the speakers was not finished: %s", error)

    def _find_fault(self) -> str:
        """Return the first fault of the file's structure, without keeping a writer waiting; "" for none, and
        where the server stops before it is found."""
        with self._writer.errors_named(), closing(sqlite3.connect(self._path)) as connection:
            connection.set_progress_handler(lambda: int(self._is_closing.is_set()), 100_000)
            try:
                return find_fault(connection)
            except sqlite3.OperationalError:
                if self._is_closing.is_set():
                    return ""
                raise

    def _add_digest(self, id: int) -> None:
        """Give a digest to a speaker that a release without digests wrote."""
        query = "SELECT 1 FROM digests WHERE id = ?"
        with self._reader.reading():
            if self._reader.execute(query, (id,)).fetchone() is not None:
                return
        with self._writing():
            stored = self._read(id)
            if stored is not None:
                self._keep_digest(id, digest_of(stored.recording, stored.features))

    def _is_whole(self, id: int) -> bool:
        try:
            self._read(id)
        except SpeakerDamaged:
            return False
        return True

    def _read(self, id: int) -> StoredSpeaker | None:
        """Under the writer's lock. Raises SpeakerDamaged."""
        try:
            with self._writer.errors_named():
                return super()._read(id)
        except DatabaseError as error:
            if not error.is_damage:
                raise
            raise self._found_damaged(id, str(error)) from error

    def _known_rows(self) -> Iterator[SpeakerRow]:
        return iter(self._rows)

    @contextmanager
    def _writing(self, erases: bool = False) -> Iterator[None]:
        """One transaction, and no success unless it went into the file under the path."""
        with self._writer.writing(erases):
            yield
        if not self._has_reserve:
            self._has_reserve = keep_reserve(self._path)

    def _open(self) -> tuple[Database, Database]:
        """Return one to look up and one to write; on a full disk the reserve is freed for the journal."""
        try:
            reader = Database(self._path, SPEAKERS, READ_TIMEOUT_S, is_checked=False)
        except DatabaseError as error:
            if not (error.is_full and release_reserve(self._path)):
                raise
            reader = Database(self._path, SPEAKERS, READ_TIMEOUT_S, is_checked=False)
        try:
            return reader, Database(self._path, SPEAKERS, WRITE_TIMEOUT_S, is_checked=False)
        except BaseException:
            reader.close()
            raise
