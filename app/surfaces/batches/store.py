"""Batches in a SQLite file: what is to be spoken, and what became of it; the audio in files beside it."""

import logging
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from firstword.app.errors import InvalidRequest, PathNotFound, StoreFull, StoreUnavailable

MAX_UNFINISHED: Final = 20  # batches of one owner
MAX_BATCHES: Final = 200  # batches of one owner, with the finished ones
SCHEMA_VERSION: Final = 1
RETRY_AFTER_S: Final = 30

ItemState = Literal["queued", "running", "done", "failed", "cancelled"]
BatchState = Literal["queued", "running", "done", "cancelled"]

TABLES = """
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    is_cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS items (
    batch INTEGER NOT NULL REFERENCES batches (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    suffix TEXT NOT NULL,
    request TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    num_bytes INTEGER NOT NULL DEFAULT 0,
    audio_s REAL NOT NULL DEFAULT 0,
    code TEXT,
    message TEXT,
    PRIMARY KEY (batch, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queued_items ON items (number, batch) WHERE state = 'queued';
"""
COUNTS = """
SELECT b.id, b.owner, b.created_at, b.is_cancelled, count(*),
    sum(i.state = 'queued'), sum(i.state = 'running'), sum(i.state = 'done'), sum(i.state = 'failed'),
    sum(i.num_bytes), sum(i.audio_s)
FROM batches b JOIN items i ON i.batch = b.number
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    id: str
    owner: str  # name of the key that made it
    created_at: int  # seconds since 1970, UTC
    is_cancelled: bool
    num_items: int
    num_queued: int
    num_running: int
    num_done: int
    num_failed: int
    num_bytes: int  # of the audio
    audio_s: float

    @property
    def is_unfinished(self) -> bool:
        return self.num_queued + self.num_running > 0

    @property
    def progress(self) -> BatchState:
        if self.is_cancelled:
            return "cancelled"
        if not self.is_unfinished:
            return "done"
        return "queued" if self.num_queued == self.num_items else "running"


@dataclass(frozen=True, slots=True)
class Item:
    number: int  # from 1
    name: str  # of its file
    state: ItemState
    num_bytes: int
    audio_s: float
    code: str | None  # of its error
    message: str | None


@dataclass(frozen=True, slots=True)
class NewItem:
    name: str
    suffix: str  # of its file: the format
    request: str  # JSON


@dataclass(frozen=True, slots=True)
class Job:
    """An item that is to be spoken now."""

    batch: str
    owner: str
    number: int
    request: str
    path: Path  # of the audio, once all of it is there


class BatchStore:
    """Thread-safe; every method may wait for a disk. One process at a time has the file.

    Any method raises StoreUnavailable while the file cannot be used.
    """

    def __init__(self, directory: Path | None, max_bytes: int) -> None:
        """directory: None keeps all in memory but audio, of which there is none. max_bytes: of the audio and
        of what waits to be spoken; 0 takes no batches."""
        self.max_bytes = max_bytes
        self._directory = directory
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._reason = "this server takes no batches: FIRSTWORD_BATCH_DISK_MB is 0"
        if max_bytes:
            try:
                self._connection = self._open()
            except (sqlite3.Error, OSError) as error:
                logger.error("no batches are taken: %s: %s", directory, error)
                self._reason = (
                    "the server's file of batches cannot be used, or another server with the same data "
                    "directory has it; ask that one, or see the log"
                )

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def add(self, owner: str, items: Sequence[NewItem]) -> Batch:
        """Raises InvalidRequest where the owner has too many, StoreFull where there is no room."""
        id = f"batch_{secrets.token_hex(12)}"
        with self._writing() as connection:
            num_batches, unfinished = connection.execute(
                """SELECT count(*), total((SELECT count(*) FROM items i WHERE i.batch = b.number
                AND i.state IN ('queued', 'running')) > 0) FROM batches b WHERE b.owner = ?""",
                (owner,),
            ).fetchone()
            if unfinished >= MAX_UNFINISHED or num_batches >= MAX_BATCHES:
                raise InvalidRequest(
                    f"this key has {num_batches} batches, {unfinished:.0f} of them not finished; at "
                    f"most {MAX_BATCHES} and {MAX_UNFINISHED} may be: wait for some, or delete some"
                )
            self._check_space(sum(len(item.request) for item in items))
            row = connection.execute(
                "INSERT INTO batches (id, owner, created_at) VALUES (?, ?, ?)", (id, owner, int(time.time()))
            )
            connection.executemany(
                "INSERT INTO items (batch, number, name, suffix, request) VALUES (?, ?, ?, ?, ?)",
                (
                    (row.lastrowid, number, item.name, item.suffix, item.request)
                    for number, item in enumerate(items, start=1)
                ),
            )
        return self.get(id)

    def get(self, id: str) -> Batch:
        """Raises PathNotFound."""
        with self._reading() as connection:
            found = connection.execute(f"{COUNTS} WHERE b.id = ? GROUP BY b.number", (id,)).fetchone()
        if found is None:
            raise PathNotFound(f"there is no batch {id[:64]!a}; GET /v1/audio/batches lists them")
        return _batch(found)

    def owned_by(self, owner: str | None, limit: int) -> list[Batch]:
        """The newest first; owner None: everybody's."""
        with self._reading() as connection:
            found = connection.execute(
                f"""{COUNTS} WHERE ?1 IS NULL OR b.owner = ?1
                GROUP BY b.number ORDER BY b.number DESC LIMIT ?2""",
                (owner, limit),
            ).fetchall()
        return [_batch(one) for one in found]

    def items(self, id: str, after: int, limit: int) -> list[Item]:
        """In order, behind the one with the number `after`."""
        with self._reading() as connection:
            found = connection.execute(
                """SELECT i.number, name, state, num_bytes, audio_s, code, message FROM items i
                JOIN batches b ON b.number = i.batch WHERE b.id = ? AND i.number > ?
                ORDER BY i.number LIMIT ?""",
                (id, after, limit),
            ).fetchall()
        return [Item(*one) for one in found]

    def files(self, id: str) -> list[tuple[int, str, Path]]:
        """Number, name with its suffix, and path of every item that is done."""
        with self._reading() as connection:
            found = connection.execute(
                """SELECT i.number, name, suffix FROM items i JOIN batches b ON b.number = i.batch
                WHERE b.id = ? AND state = 'done' ORDER BY i.number""",
                (id,),
            ).fetchall()
        return [
            (number, f"{name}.{suffix}", self._path(id, number, suffix)) for number, name, suffix in found
        ]

    def take(self) -> Job | None:
        """Return the next item to speak, as running; None: there is none.

        Of several batches the items take turns by their numbers. Raises StoreFull while there is no room.
        """
        with self._writing() as connection:
            found = connection.execute(
                """SELECT b.id, b.owner, b.number, i.number, request, suffix FROM items i
                JOIN batches b ON b.number = i.batch WHERE state = 'queued'
                ORDER BY i.number, i.batch LIMIT 1"""
            ).fetchone()
            if found is None:
                return None
            self._check_space(0)
            id, owner, batch, number, request, suffix = found
            connection.execute(
                "UPDATE items SET state = 'running' WHERE batch = ? AND number = ?", (batch, number)
            )
        path = self._path(id, number, suffix)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Job(id, owner, number, request, path)

    def finish(self, job: Job, num_bytes: int, audio_s: float) -> bool:
        """Return whether it was still wanted; its text is forgotten."""
        return self._end(job, ("done", num_bytes, audio_s, None, None))

    def fail(self, job: Job, code: str, message: str) -> None:
        self._end(job, ("failed", 0, 0.0, code, message))

    def release(self, job: Job) -> None:
        """It is to be spoken later."""
        with self._writing() as connection:
            connection.execute(
                """UPDATE items SET state = 'queued' WHERE state = 'running' AND number = ?
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (job.number, job.batch),
            )

    def cancel(self, id: str) -> None:
        """What is done stays; nothing more is spoken."""
        with self._writing() as connection:
            cancelled = connection.execute(
                """UPDATE items SET state = 'cancelled', request = '' WHERE state IN ('queued', 'running')
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (id,),
            )
            if cancelled.rowcount:
                connection.execute("UPDATE batches SET is_cancelled = 1 WHERE id = ?", (id,))

    def delete(self, id: str) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM batches WHERE id = ?", (id,))
        if self._directory is not None:
            shutil.rmtree(self._directory / id, ignore_errors=True)

    @property
    def num_waiting(self) -> int:
        """Items to be spoken, of all batches; 0 while the file cannot be used."""
        with self._lock:
            if self._connection is None:
                return 0
            query = "SELECT count(*) FROM items WHERE state = 'queued'"
            return int(self._connection.execute(query).fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        """What ran when the process ended is to be spoken again. Removes what belongs to no batch."""
        path = ":memory:"
        if self._directory is not None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = str(self._directory / "batches.sqlite3")
        connection = sqlite3.connect(path, 1.0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # as long as it is open
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it returns
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN EXCLUSIVE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"schema {version}; use the release that wrote it")
            for statement in TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("UPDATE items SET state = 'queued' WHERE state = 'running'")
            known = {id for (id,) in connection.execute("SELECT id FROM batches")}
            connection.execute("COMMIT")
            self._sweep(known)
        except BaseException:
            connection.close()
            raise
        return connection

    def _sweep(self, known: set[str]) -> None:
        if self._directory is None:
            return
        for folder in self._directory.iterdir():
            if folder.is_dir() and folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
        for unfinished in self._directory.glob("*/*.part"):
            unfinished.unlink(missing_ok=True)

    def _path(self, id: str, number: int, suffix: str) -> Path:
        return (self._directory or Path()) / id / f"{number}.{suffix}"

    def _check_space(self, num_bytes: int) -> None:
        """Raises StoreFull where so many bytes would be too many. Within a transaction."""
        assert self._connection is not None, "within a transaction"
        query = "SELECT total(num_bytes) + total(length(request)) FROM items"
        (used,) = self._connection.execute(query).fetchone()
        if used + num_bytes > self.max_bytes:
            raise StoreFull(
                f"batches take {used / 2**20:.0f} MB of the {self.max_bytes / 2**20:.0f} MB they may have "
                "(FIRSTWORD_BATCH_DISK_MB); download and delete finished ones"
            )

    def _end(self, job: Job, outcome: Iterable[object]) -> bool:
        with self._writing() as connection:
            ended = connection.execute(
                """UPDATE items SET state = ?, num_bytes = ?, audio_s = ?, code = ?, message = ?, request = ''
                WHERE state = 'running' AND number = ?
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (*outcome, job.number, job.batch),
            )
        return ended.rowcount > 0

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                raise StoreUnavailable(self._reason, RETRY_AFTER_S)
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. Raises StoreFull and StoreUnavailable for the disk's faults."""
        try:
            with self._reading() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            logger.error("the file of batches: %s", error)
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
                raise StoreFull(
                    "the disk of the batches is full and nothing was saved; free space"
                ) from error
            raise StoreUnavailable(
                "the server's file of batches cannot be written; its log has the reason", RETRY_AFTER_S
            ) from error


def _batch(row: Sequence[Any]) -> Batch:
    id, owner, created_at, is_cancelled, *counts = row
    return Batch(id, owner, created_at, bool(is_cancelled), *counts)
