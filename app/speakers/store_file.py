"""Opens the SQLite file of the speakers: makes it whole if there is none, refuses what is none of ours."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

APPLICATION_ID = 0x46575350  # "FWSP", in the header of the file
SCHEMA_VERSION = 1

SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
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
) STRICT;
"""


class SpeakerStoreError(Exception):
    """The file that keeps the speakers cannot be used; the message names it and is not for clients."""


def open_store_file(path: Path, timeout_s: float) -> sqlite3.Connection:
    """A connection that any one thread at a time may use; it waits `timeout_s` for others' locks.

    Raises SpeakerStoreError if the file cannot be made or opened, is none of ours, newer or damaged.
    """
    with errors_named(path):
        if not path.exists():
            _make(path)
        connection = sqlite3.connect(path, timeout_s, isolation_level="IMMEDIATE", check_same_thread=False)
        try:
            _check(path, connection)
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it returns
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """What SQLite or the file system says becomes a SpeakerStoreError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise SpeakerStoreError(f"{path}: the store of the speakers cannot be used: {error}") from error


def _make(path: Path) -> None:
    """An empty store appears under its name complete, or not at all; of several makers one wins.

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
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """So that the file's name is on the disk as well as its content."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path, connection: sqlite3.Connection) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise SpeakerStoreError(f"{path}: holds no speakers of ours; give the speakers a file of their own")
    if version != SCHEMA_VERSION:
        raise SpeakerStoreError(
            f"{path}: speakers of schema {version}, this release knows {SCHEMA_VERSION}; use the release "
            "that wrote it"
        )
