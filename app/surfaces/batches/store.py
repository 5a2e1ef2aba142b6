"""Batches: what is to be spoken, and what became of it. In a SQLite file, the audio in files beside it; or in
PostgreSQL with the audio, where any server speaks the items and serves what was spoken."""

import logging
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from filelock import FileLock

from firstword.app.database import RETRY_AFTER_S, Database, DatabaseError, Schema, SqlDatabase
from firstword.app.errors import InvalidRequest, PathNotFound, StoreFull, StoreUnavailable
from firstword.app.speakers.interface import RequestKey

DELETED_AT_ONCE: Final = 20  # items, of which each may have megabytes of audio
MAX_UNFINISHED: Final = 20  # batches of one owner
BATCHES_FILE: Final = "batches.sqlite3"
LOCK_FILE: Final = "batches.lock"
LOCK_TIMEOUT_S: Final = 1.0
REPLICA: Final = "replica-"  # and its name: a folder of audio that is not in the database yet
AUDIO_PIECE_BYTES: Final = 1 << 20  # of audio in a database
MAX_BATCHES: Final = 200  # batches of one owner, with the finished ones
PART_OF_DISK: Final = 1 / 2  # that one owner may have, where there are keys; what is being spoken may pass it

ItemState = Literal["queued", "running", "done", "failed", "cancelled"]
BatchState = Literal["queued", "running", "done", "cancelled"]

BATCHES = Schema(
    "batches",
    1,
    (
        """CREATE TABLE IF NOT EXISTS batches (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            is_cancelled INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
        """CREATE TABLE IF NOT EXISTS items (
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
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX IF NOT EXISTS queued_items ON items (number, batch) WHERE state = 'queued'",
        """CREATE TABLE IF NOT EXISTS batch_keys (
            owner TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,
            batch INTEGER NOT NULL REFERENCES batches (number) ON DELETE CASCADE, PRIMARY KEY (owner, key)
        ) STRICT""",
        """CREATE TABLE IF NOT EXISTS item_starts (
            batch INTEGER NOT NULL REFERENCES batches (number) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            num_starts INTEGER NOT NULL,
            PRIMARY KEY (batch, number)
        ) STRICT, WITHOUT ROWID""",
    ),
)
COUNTS = """
SELECT b.id, b.owner, b.created_at, b.is_cancelled, count(*),
    count(*) FILTER (WHERE i.state = 'queued'), count(*) FILTER (WHERE i.state = 'running'),
    count(*) FILTER (WHERE i.state = 'done'), count(*) FILTER (WHERE i.state = 'failed'),
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
    num_starts: int = 1  # this one among them, but not those that were given back


class _MadeMeanwhile(Exception):
    """Another server has taken the very request."""


class BatchStore:
    """Thread-safe; every method may wait for a disk. One process at a time has the file; a database many
    servers, each of which speaks items of its own, and those of one that died.

    Any method raises StoreUnavailable while the file cannot be used, and DatabaseError if it is damaged.
    """

    def __init__(
        self,
        directory: Path | None,
        max_bytes: int,
        shared: SqlDatabase | None = None,
        replica: str = "",
    ) -> None:
        """directory: None keeps all in memory but audio, of which there is none. max_bytes: of the audio and
        of what waits to be spoken; 0 takes no batches. shared: a database instead of a file, in which this
        server is called `replica`; the directory is for audio that is not finished."""
        self.max_bytes = max_bytes
        self.has_several_owners: Callable[[], bool] = lambda: True  # else the one may have all of the disk
        self._lock = threading.Lock()  # of the next three
        self._free_bytes = max_bytes  # beside what is stored
        self._writing_bytes: Counter[Job] = Counter()  # of audio whose item is not finished
        self._wanted_bytes: dict[str, int] = {}  # by owner: what an item of theirs lacked, until one is taken
        self._directory = directory
        self._replica = replica
        self._directory_lock: FileLock | None = None  # None: nobody else could have the file
        self._database: SqlDatabase | None = None
        self._reason = "this server takes no batches: FIRSTWORD_BATCH_DISK_MB is 0"
        if max_bytes and shared is not None:
            self._database = shared
            self._directory = None if directory is None else self._own_folder(directory)
        elif max_bytes:
            try:
                self._database = self._opened()
            except (DatabaseError, StoreFull, StoreUnavailable, OSError) as error:
                logger.error("no batches are taken: %s", error)
                self._reason = (
                    "the server's file of batches cannot be used, or another server with the same data "
                    "directory has it; ask that one, or see the log"
                )

    def close(self) -> None:
        if self.is_shared and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._directory_lock is not None:
            self._directory_lock.release()

    @property
    def is_shared(self) -> bool:
        """Whether other servers may add to it, and finish what they have added."""
        return self._database is not None and self._database.is_shared

    def is_in_place(self) -> bool:
        """Return whether what was taken would be found after a restart."""
        return self._database is None or self._database.is_in_place()

    def add(self, owner: str, items: Sequence[NewItem], request: RequestKey | None = None) -> Batch:
        """Return that of before where the request was served before.

        Raises InvalidRequest where the owner has too many, or the request's key came with another one;
        StoreFull where there is no room.
        """
        id = f"batch_{secrets.token_hex(12)}"
        database = self._file()
        try:
            with database.writing():
                made = None if request is None else self._made_with(owner, request)
                if made is None:
                    self._insert(id, owner, items, request)
        except _MadeMeanwhile:
            assert request is not None
            with database.reading():
                made = self._made_with(owner, request)
        return self.get(made or id)

    def _made_with(self, owner: str, request: RequestKey) -> str | None:
        found = (
            self._file()
            .execute(
                """SELECT b.id, k.digest FROM batch_keys k JOIN batches b ON b.number = k.batch
            WHERE k.owner = ? AND k.key = ?""",
                (owner, request.key),
            )
            .fetchone()
        )
        if found is None:
            return None
        id, digest = found
        request.refuse_other(bytes(digest))
        return str(id)

    def _insert(self, id: str, owner: str, items: Sequence[NewItem], request: RequestKey | None) -> None:
        """Insert a batch within a transaction, which is to be undone where it raises _MadeMeanwhile."""
        database = self._file()
        num_batches, unfinished = database.execute(
            """SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT 1 FROM items i
            WHERE i.batch = b.number AND i.state IN ('queued', 'running'))) FROM batches b
            WHERE b.owner = ?""",
            (owner,),
        ).fetchone()
        if unfinished >= MAX_UNFINISHED or num_batches >= MAX_BATCHES:
            raise InvalidRequest(
                f"this key has {num_batches} batches, {unfinished} of them not finished; at "
                f"most {MAX_BATCHES} and {MAX_UNFINISHED} may be: wait for some, or delete some"
            )
        num_bytes = sum(len(item.request) for item in items)
        self._check_space(owner, num_bytes)
        (batch,) = database.execute(
            "INSERT INTO batches (id, owner, created_at) VALUES (?, ?, ?) RETURNING number",
            (id, owner, int(time.time())),
        ).fetchone()
        database.execute_many(
            "INSERT INTO items (batch, number, name, suffix, request) VALUES (?, ?, ?, ?, ?)",
            (
                (batch, number, item.name, item.suffix, item.request)
                for number, item in enumerate(items, start=1)
            ),
        )
        if request is not None:
            kept = database.execute(
                """INSERT INTO batch_keys (owner, key, digest, batch) VALUES (?, ?, ?, ?)
                ON CONFLICT (owner, key) DO NOTHING""",
                (owner, request.key, request.digest, batch),
            )
            if not kept.rowcount:
                raise _MadeMeanwhile
        database.announce()

    def get(self, id: str) -> Batch:
        """Raises PathNotFound."""
        database = self._file()
        with database.reading():
            found = database.execute(f"{COUNTS} WHERE b.id = ? GROUP BY b.number", (id,)).fetchone()
        if found is None:
            raise PathNotFound(f"there is no batch {id[:64]!a}; GET /v1/audio/batches lists them")
        return _batch(found)

    def owned_by(self, owner: str | None, limit: int) -> list[Batch]:
        """Return batches, the newest first; owner None: everybody's."""
        database = self._file()
        with database.reading():
            found = database.execute(
                f"""{COUNTS} WHERE :is_all = 1 OR b.owner = :owner
                GROUP BY b.number ORDER BY b.number DESC LIMIT :limit""",
                {"is_all": int(owner is None), "owner": owner or "", "limit": limit},
            ).fetchall()
        return [_batch(one) for one in found]

    def items(self, id: str, after: int, limit: int) -> list[Item]:
        """Return items in order, behind the one with the number `after`."""
        database = self._file()
        with database.reading():
            found = database.execute(
                """SELECT i.number, name, state, num_bytes, audio_s, code, message FROM items i
                JOIN batches b ON b.number = i.batch WHERE b.id = ? AND i.number > ?
                ORDER BY i.number LIMIT ?""",
                (id, after, limit),
            ).fetchall()
        return [Item(*one) for one in found]

    @contextmanager
    def audio(self, id: str, number: int, path: Path) -> Iterator[Path]:
        """Give where the audio of an item is, of which `files` says the path, while it is read.

        Raises FileNotFoundError where it was deleted meanwhile.
        """
        if not self.is_shared:
            if not path.exists():
                raise FileNotFoundError(path)
            yield path
            return
        with tempfile.NamedTemporaryFile(dir=self._directory, suffix=path.suffix) as file:
            for piece in self._pieces(id, number):
                file.write(piece)
            file.flush()
            if not file.tell():
                raise FileNotFoundError(path)
            yield Path(file.name)

    def _pieces(self, id: str, number: int) -> Iterator[bytes]:
        database, piece = self._file(), 0
        while True:
            with database.reading():
                found = database.execute(
                    """SELECT data FROM audio WHERE batch = (SELECT number FROM batches WHERE id = ?)
                    AND number = ? AND piece = ?""",
                    (id, number, piece),
                ).fetchone()
            if found is None:
                return
            yield bytes(found[0])
            piece += 1

    def files(self, id: str) -> list[tuple[int, str, Path]]:
        """Number, name with its suffix, and path of every item that is done."""
        database = self._file()
        with database.reading():
            found = database.execute(
                """SELECT i.number, name, suffix FROM items i JOIN batches b ON b.number = i.batch
                WHERE b.id = ? AND state = 'done' ORDER BY i.number""",
                (id,),
            ).fetchall()
        return [
            (number, f"{name}.{suffix}", self._path(id, number, suffix)) for number, name, suffix in found
        ]

    def wrote(self, job: Job, num_bytes: int) -> None:
        """Count audio of an item that is about to be written.

        Raises StoreFull where there is no room for it now, InvalidRequest where there never will be.
        """
        with self._lock:
            self._writing_bytes[job] += num_bytes
            if self._writing_bytes.total() <= self._free_bytes:
                return
            self._wanted_bytes[job.owner] = item_bytes = self._writing_bytes[job]
            is_alone = len(self._writing_bytes) == 1
        database = self._file()
        with database.reading():
            (finished,) = database.execute("SELECT coalesce(sum(num_bytes), 0) FROM items").fetchone()
        if item_bytes > self.max_bytes or (is_alone and not finished):
            self._wanted_bytes.pop(job.owner, None)
            raise InvalidRequest(
                f"the audio of this item takes more than the {self.max_bytes / 2**20:g} MB that batches may "
                "have (FIRSTWORD_BATCH_DISK_MB); make several items of it, or choose a smaller format"
            )
        raise self._full()

    def stopped_writing(self, job: Job) -> None:
        """The item is finished, or its file is gone."""
        with self._lock:
            self._writing_bytes.pop(job, None)

    def take(self) -> Job | None:
        """Return the next item to speak, as running; None: there is none.

        Of several batches the items take turns by their numbers; those of an owner for whom there is no room
        wait. Raises StoreFull where all do.
        """
        database = self._file()
        with database.writing():
            self._requeue_of_dead()
            waiting = self._without_room()
            theirs = f"SELECT number FROM batches WHERE owner IN ({', '.join('?' * len(waiting)) or 'NULL'})"
            found = database.execute(
                f"""SELECT batch, number, request, suffix FROM items WHERE state = 'queued'
                AND batch NOT IN ({theirs}) ORDER BY number, batch LIMIT 1 {database.skip_locked}""",
                waiting,
            ).fetchone()
            if found is None:
                queued = f"SELECT 1 FROM items WHERE state = 'queued' AND batch IN ({theirs}) LIMIT 1"
                if database.execute(queued, waiting).fetchone():
                    raise self._full()
                return None
            batch, number, request, suffix = found
            id, owner = database.execute(
                "SELECT id, owner FROM batches WHERE number = ?", (batch,)
            ).fetchone()
            self._wanted_bytes.pop(owner, None)
            path = self._path(id, number, suffix)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # first: it may fail
            claim = f", claimed_by = '{self._replica}'" if self.is_shared else ""
            database.execute(
                f"UPDATE items SET state = 'running'{claim} WHERE batch = ? AND number = ?", (batch, number)
            )
            (num_starts,) = database.execute(
                """INSERT INTO item_starts VALUES (?, ?, 1) ON CONFLICT (batch, number)
                DO UPDATE SET num_starts = item_starts.num_starts + 1 RETURNING num_starts""",
                (batch, number),
            ).fetchone()
        return Job(id, owner, number, request, path, num_starts)

    def finish(self, job: Job, num_bytes: int, audio_s: float) -> bool:
        """Return whether it was still wanted; its text is forgotten. The audio is at the job's path."""
        return self._end(job, "done", num_bytes, audio_s)

    def fail(self, job: Job, code: str, message: str) -> None:
        self._end(job, "failed", 0, 0.0, code, message)

    def release(self, job: Job, has_failed: bool = False) -> bool:
        """It is to be spoken later. Return whether it is still wanted. has_failed: the start counts."""
        database = self._file()
        with database.writing():
            released = database.execute(
                f"""UPDATE items SET state = 'queued' WHERE {self._own} AND number = ?
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (job.number, job.batch),
            )
            if not has_failed:
                database.execute(
                    """UPDATE item_starts SET num_starts = num_starts - 1 WHERE number = ?
                    AND batch = (SELECT number FROM batches WHERE id = ?)""",
                    (job.number, job.batch),
                )
        return released.rowcount > 0

    def cancel(self, id: str) -> None:
        """Speak nothing more of a batch; what is done stays."""
        database = self._file()
        with database.writing(erases=True):
            cancelled = database.execute(
                """UPDATE items SET state = 'cancelled', request = '' WHERE state IN ('queued', 'running')
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (id,),
            )
            if cancelled.rowcount:
                database.execute("UPDATE batches SET is_cancelled = 1 WHERE id = ?", (id,))
            database.announce()
        self._wanted_bytes.clear()

    def unwanted(self, spoken: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return which of these items, by batch and number, were cancelled or deleted by any server."""
        database = self._file()
        with database.reading():
            return [
                (id, number)
                for id, number in spoken
                if database.execute(
                    """SELECT 1 FROM items WHERE state = 'running' AND number = ?
                    AND batch = (SELECT number FROM batches WHERE id = ?)""",
                    (number, id),
                ).fetchone()
                is None
            ]

    def delete(self, id: str) -> None:
        """Forget the batch and its texts. Its audio stays until `remove_files`, or the next start.

        In a shared database some items at a time: no statement may take long. What is left where the
        database fails is a cancelled batch with fewer items.
        """
        database = self._file()
        if self.is_shared:
            self.cancel(id)
            while self._delete_some(id):
                pass
        with database.writing(erases=True):
            database.execute("DELETE FROM batches WHERE id = ?", (id,))
            database.announce()
        self._wanted_bytes.clear()

    def _delete_some(self, id: str) -> bool:
        """Delete items of a shared batch with their audio; return whether there were any."""
        database = self._file()
        with database.writing(erases=True):
            deleted = database.execute(
                """DELETE FROM items i USING batches b WHERE b.id = ? AND i.batch = b.number AND i.number IN
                (SELECT number FROM items WHERE batch = b.number ORDER BY number LIMIT ?)""",
                (id, DELETED_AT_ONCE),
            )
        return deleted.rowcount > 0

    def remove_files(self, id: str) -> None:
        """Remove the audio of a batch that was deleted."""
        if self._directory is not None:
            shutil.rmtree(self._directory / id, ignore_errors=True)

    @property
    def num_waiting(self) -> int:
        """Items to be spoken, of all batches; 0 while the file cannot be used."""
        if self._database is None:
            return 0
        with suppress(DatabaseError, StoreUnavailable), self._database.reading():
            query = "SELECT count(*) FROM items WHERE state = 'queued'"
            return int(self._database.execute(query).fetchone()[0])
        return 0

    def _opened(self) -> Database:
        """Open the file: what ran when the process ended waits again, what belongs to no batch goes.

        A lock beside the file keeps other servers away: one of SQLite's would keep backups away too.
        """
        path = None
        with ExitStack() as undoing:
            if self._directory is not None:
                path = self._directory / BATCHES_FILE
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = FileLock(self._directory / LOCK_FILE, LOCK_TIMEOUT_S, thread_local=False)
                undoing.enter_context(lock)
                self._directory_lock = lock
            database = Database(path, BATCHES)
            undoing.callback(database.close)
            with database.writing():
                database.execute("UPDATE items SET state = 'queued' WHERE state = 'running'")
                known = {id for (id,) in database.execute("SELECT id FROM batches").fetchall()}
            with database.errors_named():
                self._sweep(known)
            undoing.pop_all()
        return database

    def _sweep(self, known: set[str]) -> None:
        if self._directory is None:
            return
        for folder in self._directory.iterdir():
            if folder.is_dir() and folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
        for unfinished in self._directory.glob("*/*.part"):
            unfinished.unlink(missing_ok=True)

    @property
    def _own(self) -> str:
        """The condition in SQL of an item that this server speaks."""
        return "state = 'running'" + (f" AND claimed_by = '{self._replica}'" if self.is_shared else "")

    def _requeue_of_dead(self) -> None:
        """Within a transaction: let what a server began that lives no more be spoken again."""
        if self.is_shared:
            self._file().execute(
                """UPDATE items SET state = 'queued', claimed_by = NULL WHERE state = 'running'
                AND claimed_by NOT IN (SELECT name FROM replicas)"""
            )

    def _keep_audio(self, job: Job) -> None:
        """Within a transaction: put the audio into the database, where every server finds it."""
        database = self._file()
        (batch,) = database.execute("SELECT number FROM batches WHERE id = ?", (job.batch,)).fetchone()
        with job.path.open("rb") as file:
            number = 0
            while data := file.read(AUDIO_PIECE_BYTES):
                database.execute("INSERT INTO audio VALUES (?, ?, ?, ?)", (batch, job.number, number, data))
                number += 1

    def _own_folder(self, directory: Path) -> Path:
        """Return this server's, made, with those of dead ones removed: several may have one directory."""
        with self._file().reading():
            alive = {name for (name,) in self._file().execute("SELECT name FROM replicas").fetchall()}
        own = directory / f"{REPLICA}{self._replica}"
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in directory.glob(f"{REPLICA}*"):
            if folder.name.removeprefix(REPLICA) not in alive:
                shutil.rmtree(folder, ignore_errors=True)
        return own

    def _path(self, id: str, number: int, suffix: str) -> Path:
        return (self._directory or Path()) / id / f"{number}.{suffix}"

    @property
    def _max_of_one(self) -> int:
        return int(PART_OF_DISK * self.max_bytes) if self.has_several_owners() else self.max_bytes

    def _used(self) -> dict[str, int]:
        """Bytes by owner, of finished audio and of what waits to be spoken. Within a transaction."""
        rows = self._file().execute(
            """SELECT b.owner, sum(i.num_bytes) + sum(length(i.request))
            FROM batches b JOIN items i ON i.batch = b.number GROUP BY b.owner"""
        )
        return {owner: int(used) for owner, used in rows.fetchall()}

    def _without_room(self) -> list[str]:
        """Owners whose items wait until something is deleted. Within a transaction."""
        used, most = self._used(), self._max_of_one
        with self._lock:
            self._free_bytes = self.max_bytes - sum(used.values())
            free = self._free_bytes - self._writing_bytes.total()
        return [
            owner
            for owner, num_bytes in used.items()
            if self._wanted_bytes.get(owner, 0) > free or free < 0 or (owner and num_bytes > most)
        ]

    def _check_space(self, owner: str, num_bytes: int) -> None:
        """Count bytes to be stored; raise StoreFull without room for them. Within a transaction."""
        used, most = self._used(), self._max_of_one
        of_owner = used.get(owner, 0)
        if owner and of_owner + num_bytes > most:  # without keys there are no others
            raise StoreFull(
                f"batches of this key take {of_owner / 2**20:.0f} MB, and this one {num_bytes / 2**20:.1f} "
                f"MB, of the {most / 2**20:g} MB that one key's may have (half of FIRSTWORD_BATCH_DISK_MB "
                "where there are several keys); download and delete finished ones, or send fewer items"
            )
        with self._lock:
            self._free_bytes = self.max_bytes - sum(used.values())
            if self._free_bytes < self._writing_bytes.total() + num_bytes:
                raise self._full()
            self._free_bytes -= num_bytes

    def _full(self) -> StoreFull:
        used = self.max_bytes - self._free_bytes + self._writing_bytes.total()
        return StoreFull(
            f"batches take {used / 2**20:.0f} MB of the {self.max_bytes / 2**20:.0f} MB they may have "
            f"(FIRSTWORD_BATCH_DISK_MB), those of one key {self._max_of_one / 2**20:.0f} MB; download and "
            "delete finished ones"
        )

    def _end(
        self,
        job: Job,
        state: ItemState,
        num_bytes: int,
        audio_s: float,
        code: str | None = None,
        message: str | None = None,
    ) -> bool:
        database = self._file()
        with database.writing(erases=True):
            ended = database.execute(
                f"""UPDATE items SET state = ?, num_bytes = ?, audio_s = ?, code = ?, message = ?,
                request = '' WHERE {self._own} AND number = ?
                AND batch = (SELECT number FROM batches WHERE id = ?)""",
                (state, num_bytes, audio_s, code, message, job.number, job.batch),
            )
            if ended.rowcount and self.is_shared and job.path.exists():
                self._keep_audio(job)
            with self._lock:
                self._writing_bytes.pop(job, None)
                if ended.rowcount:
                    self._free_bytes -= num_bytes
        if self.is_shared:
            job.path.unlink(missing_ok=True)
        return ended.rowcount > 0

    def _file(self) -> SqlDatabase:
        """Raises StoreUnavailable where there is none."""
        if self._database is None:
            raise StoreUnavailable(self._reason, RETRY_AFTER_S)
        return self._database


def _batch(row: Sequence[Any]) -> Batch:
    id, owner, created_at, is_cancelled, *counts = row
    return Batch(id, owner, created_at, bool(is_cancelled), *counts)
