"""Recordings in which people agree to a voice made of theirs: kept in the speakers' file, beside them."""

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from firstword.app.errors import InvalidRequest, PathNotFound
from firstword.app.speakers.store_file import errors_named, faults_translated, open_store_file

MAX_UNUSED_CONSENTS = 100  # that belong to no speaker yet
MAX_LABEL_CHARS = 256
WRITE_TIMEOUT_S = 10.0

TABLES = """
CREATE TABLE IF NOT EXISTS consents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    name TEXT NOT NULL,
    language TEXT NOT NULL,
    recording BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS consent_speakers (
    id TEXT NOT NULL, speaker INTEGER NOT NULL, PRIMARY KEY (id, speaker)
) STRICT;
"""
# With its last speaker a consent goes too. Made anew at each start: a rebuilt file has new tables.
TRIGGER = """
CREATE TRIGGER consented_speaker_deleted AFTER DELETE ON speakers BEGIN
    DELETE FROM consents WHERE id IN (SELECT id FROM consent_speakers WHERE speaker = old.id)
    AND id NOT IN (SELECT id FROM consent_speakers WHERE speaker <> old.id);
    DELETE FROM consent_speakers WHERE speaker = old.id;
END
"""
SWEEP = """
DELETE FROM consents WHERE id IN (SELECT id FROM consent_speakers)
AND id NOT IN (SELECT id FROM consent_speakers WHERE speaker IN (SELECT id FROM speakers))
"""


@dataclass(frozen=True, slots=True)
class Consent:
    id: str
    created_at: int  # seconds since 1970, UTC
    name: str
    language: str


class ConsentStore:
    """Thread-safe; every method may wait for a disk. A write may raise StoreFull and StoreUnavailable."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """connection: to the speakers' file at `path`; it is closed by `close`. Raises SpeakerStoreError."""
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()
        with self._writing():
            for statement in TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute("DROP TRIGGER IF EXISTS consented_speaker_deleted")
            connection.execute(TRIGGER)
            connection.execute(SWEEP)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises SpeakerStoreError."""
        return cls(open_store_file(path, WRITE_TIMEOUT_S), path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def add(self, name: str, language: str, recording: bytes) -> Consent:
        """Raises InvalidRequest where too many belong to no speaker."""
        consent = Consent(f"cons_{secrets.token_hex(12)}", int(time.time()), _checked(name), language)
        with self._writing():
            (unused,) = self._connection.execute(
                "SELECT count(*) FROM consents WHERE id NOT IN (SELECT id FROM consent_speakers)"
            ).fetchone()
            if unused >= MAX_UNUSED_CONSENTS:
                raise InvalidRequest(
                    f"{unused} consent recordings belong to no voice; create their voices or delete some"
                )
            self._connection.execute(
                "INSERT INTO consents (id, created_at, name, language, recording) VALUES (?, ?, ?, ?, ?)",
                (consent.id, consent.created_at, consent.name, consent.language, recording),
            )
        return consent

    def get(self, id: str) -> Consent:
        """Raises PathNotFound."""
        with self._reading():
            found = self._connection.execute(
                "SELECT id, created_at, name, language FROM consents WHERE id = ?", (id,)
            ).fetchone()
        if found is None:
            raise PathNotFound(f"there is no consent {id[:64]!a}; GET /v1/audio/voice_consents lists them")
        return Consent(*found)

    def list(self, after: str | None, limit: int) -> tuple[list[Consent], bool]:
        """Return the newest first, behind the one with the id `after`, and whether there are more.

        Raises PathNotFound for an unknown `after`.
        """
        if after is not None:
            self.get(after)
        with self._reading():
            found = self._connection.execute(
                """SELECT id, created_at, name, language FROM consents WHERE ?1 IS NULL
                OR number < (SELECT number FROM consents WHERE id = ?1) ORDER BY number DESC LIMIT ?2""",
                (after, limit + 1),
            ).fetchall()
        return [Consent(*one) for one in found[:limit]], len(found) > limit

    def rename(self, id: str, name: str) -> Consent:
        """Raises PathNotFound."""
        with self._writing():
            self._connection.execute("UPDATE consents SET name = ? WHERE id = ?", (_checked(name), id))
        return self.get(id)

    def delete(self, id: str) -> None:
        """Raises PathNotFound, and InvalidRequest for one that a speaker was made with."""
        self.get(id)
        with self._writing():
            deleted = self._connection.execute(
                "DELETE FROM consents WHERE id = ?1 AND id NOT IN (SELECT id FROM consent_speakers)", (id,)
            )
            if not deleted.rowcount:
                raise InvalidRequest(
                    f"a voice was created with consent {id}, which is kept as long as the voice; delete the "
                    "voice, and its consent goes with it"
                )

    def attach(self, id: str, speaker: str) -> None:
        """Keep the consent as long as the speaker, the newest one of that name."""
        with self._writing():
            self._connection.execute(
                """INSERT OR IGNORE INTO consent_speakers SELECT ?1, max(id) FROM speakers
                WHERE name = ?2 OR name LIKE '%/' || ?2 HAVING max(id) IS NOT NULL""",
                (id, speaker),
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, errors_named(self._path):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, faults_translated(self._path), errors_named(self._path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield


def _checked(name: str) -> str:
    if not 1 <= len(name) <= MAX_LABEL_CHARS or not name.isprintable():
        raise InvalidRequest(f"a name of {len(name)} characters; expected 1 to {MAX_LABEL_CHARS}", "name")
    return name
