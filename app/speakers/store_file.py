"""The SQLite file of the speakers' store: its tables, its repair, and space kept in reserve."""

import logging
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from firstword.app.database import Database, Schema

logger = logging.getLogger(__name__)

SPEAKERS_FILE = "speakers.sqlite3"  # in the data directory
APPLICATION_ID = 0x46575350  # "FWSP", in the header of the file
SCHEMA_VERSION = 2  # 1: without owners; a release that knows none must not open 2

SPEAKERS_TABLE = """
CREATE TABLE IF NOT EXISTS speakers (
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
# How often a speaker was changed, counted from 1; 1 where there is no row.
VERSIONS_TABLE = """
CREATE TABLE IF NOT EXISTS versions (id INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT
"""
# The Idempotency-Key that a speaker was registered with, and the digest of that request.
KEYS_TABLE = """
CREATE TABLE IF NOT EXISTS speaker_keys (
    owner TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, id INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT
"""

SPEAKERS = Schema(
    "speakers",
    SCHEMA_VERSION,
    (SPEAKERS_TABLE, DIGESTS_TABLE, OWNERS_TABLE, LEXICONS_TABLE, VERSIONS_TABLE, KEYS_TABLE, *TRIGGERS),
    APPLICATION_ID,
    oldest=1,
)

RESERVE_BYTES = 1 << 20  # to delete a speaker on a full disk takes a tenth of it


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


def copy_aside(database: Database, path: Path) -> Path:
    """Copy the file page by page, damage included, to a new one beside it, which is returned."""
    copy = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(copy)) as target:
            database.connection.backup(target)
    except BaseException:
        copy.unlink()
        raise
    return copy


def rebuild(database: Database, dropped_id: int, damaged_ids: frozenset[int]) -> None:
    """Copy all speakers but one into new tables, within a transaction that the caller commits.

    Of those that are damaged only the sound is left out. The old tables stay in the file under other names
    and are never touched again: to free the pages of a damaged one could free those of others.
    """
    suffix = f"damaged_{dropped_id}"
    for trigger in ("sound_changed", "speaker_deleted"):
        database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in ("speakers", "digests"):
        database.execute(f"ALTER TABLE {table} RENAME TO {table}_{suffix}")
    database.execute(SPEAKERS_TABLE)
    database.execute(DIGESTS_TABLE)
    columns = ", ".join(row[1] for row in database.execute("PRAGMA table_info(speakers)"))
    emptied = columns.replace("recording, features", "x'', x''")
    ids = [row[0] for row in database.execute(f"SELECT id FROM speakers_{suffix} ORDER BY id")]
    for id in ids:
        if id == dropped_id:
            continue
        chosen = emptied if id in damaged_ids else columns
        database.execute(
            f"INSERT INTO speakers ({columns}) SELECT {chosen} FROM speakers_{suffix} WHERE id = ?", (id,)
        )
        if id not in damaged_ids:
            database.execute(
                f"INSERT INTO digests SELECT id, digest FROM digests_{suffix} WHERE id = ?", (id,)
            )
    database.execute("DELETE FROM sqlite_sequence WHERE name = 'speakers'")
    database.execute(
        "INSERT INTO sqlite_sequence SELECT 'speakers', seq FROM sqlite_sequence WHERE name = ?",
        (f"speakers_{suffix}",),
    )
    for trigger in TRIGGERS:
        database.execute(trigger)
