"""The SQLite file of the speakers' store: making and opening it, its faults, and space kept in reserve."""

import errno
import hashlib
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from firstword.app.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x46575350  # "FWSP", in the header of the file
SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, SCHEMA_VERSION)  # 1: without owners; a release that knows none must not open 2

SPEAKERS_TABLE = """
CREATE TABLE speakers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    transcript TEXT NOT NULL,
    language TEXT,
    duration_s REAL NOT NULL,
    quality TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    recording BLOB NOT NULL,
    features BLOB NOT NULL
) STRICT
"""
SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
{SPEAKERS_TABLE};
"""
# Of each speaker's sound. Releases that do not know of them drop a digest when they change the sound.
DIGESTS_TABLE = """
CREATE TABLE IF NOT EXISTS digests (id INTEGER PRIMARY KEY, digest BLOB NOT NULL) STRICT
"""
TRIGGERS = tuple(
    f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {change} ON speakers "
    "BEGIN DELETE FROM digests WHERE id = old.id; END"
    for name, change in (
        ("sound_changed", "UPDATE OF recording, features"),
        ("speaker_deleted", "DELETE"),
    )
)

# Who may use a speaker; shared by all where there is no row. The name of a private one, in `speakers`, is
# `owner/name`: each owner has names of its own there.
OWNERS_TABLE = """
CREATE TABLE IF NOT EXISTS owners (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, access TEXT NOT NULL) STRICT
"""
# What a speaker says for a word, as a JSON object; nothing of its own where there is no row.
LEXICONS_TABLE = """
CREATE TABLE IF NOT EXISTS lexicons (id INTEGER PRIMARY KEY, lexicon TEXT NOT NULL) STRICT
"""

RESERVE_BYTES = 1 << 20  # to delete a speaker on a full disk takes a tenth of it
RETRY_AFTER_S = 30


class SpeakerStoreError(Exception):
    """The file that keeps the speakers cannot be used; the message names it and is not for clients."""


def open_store_file(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Open a connection for one thread at a time; it waits `timeout_s` for others' locks.

    Raises SpeakerStoreError if the file cannot be made or opened, is none of ours, newer or damaged.
    """
    with errors_named(path):
        if not path.exists():
            _make(path)
        connection = sqlite3.connect(path, timeout_s, isolation_level="IMMEDIATE", check_same_thread=False)
        try:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application_id != APPLICATION_ID:
                raise SpeakerStoreError(
                    f"{path}: holds no speakers of ours; give the speakers a file of their own"
                )
            if version not in READABLE_VERSIONS:
                raise SpeakerStoreError(
                    f"{path}: speakers of schema {version}, this release knows {SCHEMA_VERSION}; use the "
                    "release that wrote it"
                )
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it returns
            for statement in (DIGESTS_TABLE, OWNERS_TABLE, LEXICONS_TABLE, *TRIGGERS):
                connection.execute(statement)
            if version != SCHEMA_VERSION:
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Turn what SQLite or the file system raises into a SpeakerStoreError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise SpeakerStoreError(f"{path}: the store of the speakers cannot be used: {error}") from error


def _make(path: Path) -> None:
    """Create an empty store, complete or not at all; of several creators one wins.

    Only its owner may read it: it holds people's voices.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(unfinished)) as connection:
            connection.executescript(SCHEMA)
        with suppress(FileExistsError):
            os.link(unfinished, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the file's name is on the disk then, as its content is
    finally:
        os.close(directory)


@contextmanager
def faults_translated(path: Path) -> Iterator[None]:
    """Turn a SpeakerStoreError of a store in use into what a client is answered, and log it.

    Raises StoreFull and StoreUnavailable; anything else is left as it is.
    """
    try:
        yield
    except SpeakerStoreError as error:
        if is_full(error):
            logger.error("%s; free space on its disk", error)
            raise StoreFull(
                "the disk that holds the server's speakers is full and nothing was saved; free space on it "
                "and try again; what is registered can still be used and deleted"
            ) from error
        if _sqlite_code(error) in UNAVAILABLE_CODES:
            logger.error("%s", error)
            raise StoreUnavailable(
                "the server's file of speakers cannot be written and nothing was saved; the server's log has "
                "the reason",
                RETRY_AFTER_S,
            ) from error
        raise


UNAVAILABLE_CODES = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
)


def is_full(error: SpeakerStoreError) -> bool:
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return _sqlite_code(error) == sqlite3.SQLITE_FULL


def is_damage(error: SpeakerStoreError) -> bool:
    return _sqlite_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _sqlite_code(error: SpeakerStoreError) -> int | None:
    """SQLite's primary result code, where SQLite raised it."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def identity_of(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Device and inode of the file and of its journal; None for one that is not there."""
    found: list[tuple[int, int] | None] = []
    for file in (path, Path(f"{path}-wal")):
        try:
            status = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return tuple(found)


def digest_of(recording: bytes, features: bytes) -> bytes:
    digest = hashlib.sha256(len(recording).to_bytes(8, "little"))
    digest.update(recording)
    digest.update(features)
    return digest.digest()


def keep_reserve(path: Path) -> bool:
    """Take up space beside the file, for deleting on a full disk. Return whether it is there."""
    reserve = reserve_of(path)
    try:
        descriptor = os.open(reserve, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.fstat(descriptor).st_size < RESERVE_BYTES:
                os.pwrite(descriptor, os.urandom(RESERVE_BYTES), 0)  # not compressible, and no hole
                os.fsync(descriptor)
            is_whole = os.fstat(descriptor).st_size >= RESERVE_BYTES
        finally:
            os.close(descriptor)
    except OSError as error:
        logger.warning("%s: no space could be kept in reserve: %s", reserve, error)
        is_whole = False
    if not is_whole:
        release_reserve(path)
    return is_whole


def release_reserve(path: Path) -> bool:
    """Give its space back. Return whether there was any."""
    try:
        reserve_of(path).unlink()
    except OSError:
        return False
    return True


def reserve_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.reserve")


def copy_aside(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy the file page by page, damage included, to a new one beside it, which is returned."""
    copy = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(copy)) as target:
            connection.backup(target)
    except BaseException:
        copy.unlink()
        raise
    return copy


def rebuild(connection: sqlite3.Connection, dropped_id: int, damaged_ids: frozenset[int]) -> None:
    """Copy all speakers but one into new tables, within a transaction that the caller commits.

    Of those that are damaged only the sound is left out. The old tables stay in the file under other names
    and are never touched again: to free the pages of a damaged one could free those of others.
    """
    suffix = f"damaged_{dropped_id}"
    connection.execute("BEGIN IMMEDIATE")
    for trigger in ("sound_changed", "speaker_deleted"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in ("speakers", "digests"):
        connection.execute(f"ALTER TABLE {table} RENAME TO {table}_{suffix}")
    connection.execute(SPEAKERS_TABLE)
    connection.execute(DIGESTS_TABLE)
    columns = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(speakers)"))
    emptied = columns.replace("recording, features", "x'', x''")
    ids = [row[0] for row in connection.execute(f"SELECT id FROM speakers_{suffix} ORDER BY id")]
    for id in ids:
        if id == dropped_id:
            continue
        chosen = emptied if id in damaged_ids else columns
        connection.execute(
            f"INSERT INTO speakers ({columns}) SELECT {chosen} FROM speakers_{suffix} WHERE id = ?", (id,)
        )
        if id not in damaged_ids:
            connection.execute(
                f"INSERT INTO digests SELECT id, digest FROM digests_{suffix} WHERE id = ?", (id,)
            )
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'speakers'")
    connection.execute(
        "INSERT INTO sqlite_sequence SELECT 'speakers', seq FROM sqlite_sequence WHERE name = ?",
        (f"speakers_{suffix}",),
    )
    for trigger in TRIGGERS:
        connection.execute(trigger)
