"""What the stores ask of a database, and SQLite's files: one way to make, check, write and erase them."""

import errno
import logging
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from firstword.app.errors import InvalidRequest, StoreFull, StoreUnavailable

RETRY_AFTER_S: Final = 30
ERASE_RETRY_S: Final = 20.0  # until what another process still read is erased from the journal
MOUNTS: Final = Path("/proc/self/mountinfo")  # of Linux
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)
UNAVAILABLE_CODES: Final = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
)

logger = logging.getLogger(__name__)


class DatabaseError(Exception):
    """A file of the service cannot be used; the message names the file and is not for clients."""

    @property
    def is_full(self) -> bool:
        """Whether the disk, or the user's share of it, is full."""
        if isinstance(self.__cause__, OSError):
            return self.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
        return self._code == sqlite3.SQLITE_FULL

    @property
    def is_damage(self) -> bool:
        return self._code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

    @property
    def is_unavailable(self) -> bool:
        """Whether it may work later, once somebody frees or repairs what the file needs."""
        return isinstance(self.__cause__, OSError) or self._code in UNAVAILABLE_CODES

    @property
    def _code(self) -> int | None:
        """SQLite's primary result code, if SQLite raised the cause."""
        code = getattr(self.__cause__, "sqlite_errorcode", None)
        return None if code is None else code & 0xFF


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file holds.

    subject: names the content in messages, such as "speakers". version: the newest that this release reads.
    statements: run at each opening; each does nothing where it has been run. application_id: in the header;
    None: not looked at. oldest: the oldest version that this release reads.
    """

    subject: str
    version: int
    statements: Sequence[str]
    application_id: int | None = None
    oldest: int = 0


UNSTORABLE: Final = (OverflowError, UnicodeEncodeError)
"""What a database raises for values that are none of its own: an integer of 65 bits, half a character."""


def unstorable(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"a number or a character of the request cannot be stored: {error}; leave it out")


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class SqlDatabase(Protocol):
    """`Database` of a file and `PostgresDatabase`: one SQL, with `?` and `:name` for values, for both."""

    @property
    def is_shared(self) -> bool:
        """Whether other servers use it at the same time, on any machine."""
        ...

    @property
    def skip_locked(self) -> str:
        """What follows a SELECT of rows that others may claim at the same time."""
        ...

    def close(self) -> None: ...

    def is_in_place(self) -> bool: ...

    def refuse_if_gone(self) -> None: ...

    def reading(self) -> AbstractContextManager[None]: ...

    def writing(self, erases: bool = False) -> AbstractContextManager[None]: ...

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> Rows: ...

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None: ...

    def announce(self) -> None: ...


class Database:
    """One connection to one SQLite file. Thread-safe: `reading` and `writing` exclude each other.

    A write is whole and on the disk when `writing` ends, and else never happened. What was deleted by a write
    that `erases` is neither in the file nor in its journal afterwards.
    """

    is_shared: Final = False
    skip_locked: Final = ""

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        timeout_s: float = 10.0,
        is_exclusive: bool = False,
        is_checked: bool = True,
    ) -> None:
        """Make the file if there is none, and open it. path: None keeps everything in memory.

        timeout_s: how long other connections' locks are waited for. is_exclusive: no other process may open
        the file meanwhile. is_checked: whether all of the file is read for damage first.

        Raises DatabaseError if the file cannot be made or opened, is none of ours, newer or damaged, or on a
        network file system.
        """
        if path is not None:
            _refuse_network(path, schema.subject)
        self.path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._is_in_place = True
        self._erasing: threading.Timer | None = None  # again, a little later
        with self.errors_named():
            if path is not None and not path.exists():
                _make(path, schema)
            self.connection = self._connect(timeout_s)
            try:
                self._prepare(is_exclusive, is_checked)
            except BaseException:
                self.connection.close()
                raise
        self._identity = _identity_of(path)

    def close(self) -> None:
        """Wait for what is under way, and close the file."""
        with self._lock:
            if self._erasing is not None:
                self._erasing.cancel()
                self._erasing = None
            self.connection.close()

    def is_in_place(self) -> bool:
        """Whether what is open is still what stands under the path; logged when that changes."""
        is_in_place = _identity_of(self.path) == self._identity
        if self._is_in_place and not is_in_place:
            logger.error(
                "%s: the file that is open was removed, moved or replaced; nothing can be saved in it until "
                "it is back, or the server is restarted",
                self.path,
            )
        elif is_in_place and not self._is_in_place:
            logger.info("%s: the file is back", self.path)
        self._is_in_place = is_in_place
        return is_in_place

    def refuse_if_gone(self) -> None:
        """Raises StoreUnavailable unless what is open is what stands under the path."""
        if not self.is_in_place():
            raise StoreUnavailable(
                f"the server's file of {self._schema.subject} is gone from its disk and nothing was saved; "
                "whoever runs the server must put it back, or restart it",
                RETRY_AFTER_S,
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises StoreFull and StoreUnavailable for the disk's faults, DatabaseError for others."""
        with self._lock, self._faults_answered("read"), self.errors_named():
            yield

    @contextmanager
    def writing(self, erases: bool = False) -> Iterator[None]:
        """One transaction, which raises as `reading` does, also where the file under the path is another."""
        with self._lock, self._faults_answered("written and nothing was saved"), self.errors_named():
            self.refuse_if_gone()
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite itself ended it after some faults
                    self.execute("ROLLBACK")
                raise
            self.refuse_if_gone()
            if erases:
                self._empty_journal()

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> sqlite3.Cursor:
        """Within `reading` or `writing`."""
        return self.connection.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Within `writing`."""
        self.connection.executemany(statement, rows)

    def announce(self) -> None:
        """Within `writing`: other processes look at the file by themselves."""

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turn what SQLite or the file system raises into a DatabaseError that names the file."""
        try:
            yield
        except UNSTORABLE as error:
            raise unstorable(error) from error
        except (sqlite3.Error, OSError) as error:
            raise DatabaseError(
                f"{self.path}: the store of the {self._schema.subject} cannot be used: {error}"
            ) from error

    @contextmanager
    def _faults_answered(self, verb: str) -> Iterator[None]:
        """Turn a DatabaseError of a file in use into what a client is answered, and log it."""
        subject = self._schema.subject
        try:
            yield
        except DatabaseError as error:
            if error.is_full:
                logger.error("%s; free space on its disk", error)
                raise StoreFull(
                    f"the disk that holds the server's {subject} is full and nothing was saved; free space "
                    "on it and try again; what is registered can still be used and deleted"
                ) from error
            if error.is_unavailable:
                logger.error("%s", error)
                raise StoreUnavailable(
                    f"the server's file of {subject} cannot be {verb}; the server's log has the reason",
                    RETRY_AFTER_S,
                ) from error
            raise

    def _connect(self, timeout_s: float) -> sqlite3.Connection:
        """Open the file, which exists: one that was removed is not made again, empty."""
        name = ":memory:" if self.path is None else f"{self.path.absolute().as_uri()}?mode=rw"
        return sqlite3.connect(name, timeout_s, isolation_level=None, check_same_thread=False, uri=True)

    def _prepare(self, is_exclusive: bool, is_checked: bool) -> None:
        schema, path = self._schema, self.path
        if is_exclusive:
            self.execute("PRAGMA locking_mode = EXCLUSIVE")
        (application_id,) = self.execute("PRAGMA application_id").fetchone()
        (version,) = self.execute("PRAGMA user_version").fetchone()
        if path is not None and schema.application_id not in (None, application_id):
            raise DatabaseError(
                f"{path}: holds no {schema.subject} of ours; give the {schema.subject} a file of their own"
            )
        if path is not None and not schema.oldest <= version <= schema.version:
            raise DatabaseError(
                f"{path}: {schema.subject} of schema {version}, this release knows {schema.version}; use the "
                "release that wrote it"
            )
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it returns
        self.execute("PRAGMA secure_delete = ON")
        self.execute("PRAGMA foreign_keys = ON")
        if is_checked and (fault := find_fault(self.connection)):
            raise DatabaseError(f"{path}: the file of the {schema.subject} is damaged: {fault}")
        if is_exclusive:
            self.execute("BEGIN EXCLUSIVE")
            self.execute("COMMIT")
        for statement in schema.statements:
            self.execute(statement)
        if version != schema.version:
            self.execute(f"PRAGMA user_version = {schema.version}")
        with suppress(sqlite3.Error):  # another process reads: its next write does it
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what a killed process deleted

    def _empty_journal(self) -> None:
        """Copy the journal into the file and cut it off: it holds what was deleted."""
        try:
            (is_busy, *_) = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            logger.warning("%s: what was deleted is not erased yet: %s", self.path, error)
            is_busy = True
        if is_busy and self._erasing is None:
            self._erasing = threading.Timer(ERASE_RETRY_S, self._empty_journal_again)
            self._erasing.daemon = True
            self._erasing.start()

    def _empty_journal_again(self) -> None:
        with self._lock:
            if self._erasing is not None:  # else the file is closed
                self._erasing = None
                self._empty_journal()


def find_fault(connection: sqlite3.Connection) -> str:
    """Return the first fault of a file's structure, or ""."""
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return "" if finding == "ok" else str(finding).replace("\n", " ")


def _refuse_network(path: Path, subject: str) -> None:
    """Raises DatabaseError where SQLite's locks and shared memory are not those of all who open the file."""
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise DatabaseError(
            f"{path}: the {subject} would be kept on a network file system ({kind}), where SQLite loses "
            "data; set FIRSTWORD_DATA_DIR to a local disk, or FIRSTWORD_STORE to a PostgreSQL"
        )


def file_system_of(path: Path) -> str:
    """Return its kind, such as ext4; "" where the system does not say."""
    try:
        lines = [os.fsdecode(line) for line in MOUNTS.read_bytes().splitlines()]
    except OSError:
        return ""
    place, kind, longest = path.absolute().resolve(), "", -1
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = Path(mount.split(" ")[4].replace("\\040", " "))
        if len(point.parts) >= longest and place.is_relative_to(point):  # of two on one point the later
            kind, longest = source.split(" ")[0], len(point.parts)
    return kind


def _make(path: Path, schema: Schema) -> None:
    """Create an empty file, complete or not at all; of several creators one wins.

    Only its owner may read it: it holds people's voices and texts.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {schema.application_id or 0}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
            for statement in schema.statements:
                connection.execute(statement)
        with suppress(FileExistsError):
            os.link(unfinished, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the file's name is on the disk then, as its content is
    finally:
        os.close(directory)


def _identity_of(path: Path | None) -> tuple[tuple[int, int] | None, ...]:
    """Device and inode of the file and of its journal; None for one that is not there."""
    found: list[tuple[int, int] | None] = []
    for file in () if path is None else (path, Path(f"{path}-wal")):
        try:
            status = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return tuple(found)
