"""Recordings in which people agree to a voice made of theirs: kept in the speakers' file, beside them."""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from firstword.app.clients import Client
from firstword.app.database import Database, SqlDatabase
from firstword.app.errors import InvalidRequest, PathNotFound
from firstword.app.speakers.interface import KnownSpeaker, key_of
from firstword.app.speakers.store_file import SPEAKERS

MAX_UNUSED_CONSENTS = 100  # of one owner, that belong to no speaker yet
MAX_LABEL_CHARS = 256

# owner: name of the key that sent it; "" of nobody, or of a release that did not ask.
TABLES = (
    """CREATE TABLE IF NOT EXISTS consents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    name TEXT NOT NULL,
    language TEXT NOT NULL,
    recording BLOB NOT NULL,
    owner TEXT NOT NULL DEFAULT ''
) STRICT""",
    """CREATE TABLE IF NOT EXISTS consent_speakers (
    id TEXT NOT NULL, speaker INTEGER NOT NULL, PRIMARY KEY (id, speaker)
) STRICT""",
)
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
    owner: str = ""  # the name of the client's key; "" of nobody


class ConsentStore:
    """Thread-safe; every method may wait for a disk, and raises StoreUnavailable and DatabaseError.

    A client sees and changes its own consents, an administrator all of them. A write may raise StoreFull.
    """

    def __init__(self, database: SqlDatabase) -> None:
        """database: that of the speakers; it is closed by `close`. Raises DatabaseError."""
        self._database = database

    @classmethod
    def of_file(cls, database: Database) -> Self:
        """database: the speakers' file, whose tables are brought to this release's. Raises DatabaseError."""
        with database.writing(erases=True):
            for statement in TABLES:
                database.execute(statement)
            columns = [row[1] for row in database.execute("PRAGMA table_info(consents)")]
            if "owner" not in columns:  # of a release before 0.1
                database.execute("ALTER TABLE consents ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
            database.execute("DROP TRIGGER IF EXISTS consented_speaker_deleted")
            database.execute(TRIGGER)
            database.execute(SWEEP)
        return cls(database)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises DatabaseError."""
        return cls.of_file(Database(path, SPEAKERS, is_checked=False))

    def close(self) -> None:
        self._database.close()

    def add(self, name: str, language: str, recording: bytes, client: Client) -> Consent:
        """Raises InvalidRequest if too many of the client's belong to no speaker."""
        created_at = int(time.time())
        consent = Consent(f"cons_{secrets.token_hex(12)}", created_at, _checked(name), language, client.name)
        with self._database.writing():
            (unused,) = self._database.execute(
                """SELECT count(*) FROM consents WHERE owner = ?
                AND id NOT IN (SELECT id FROM consent_speakers)""",
                (client.name,),
            ).fetchone()
            if unused >= MAX_UNUSED_CONSENTS:
                raise InvalidRequest(
                    f"{unused} consent recordings belong to no voice; create their voices or delete some"
                )
            self._database.execute(
                """INSERT INTO consents (id, created_at, name, language, owner, recording)
                VALUES (?, ?, ?, ?, ?, ?)""",
                (consent.id, created_at, name, language, client.name, recording),
            )
        return consent

    def get(self, id: str, client: Client) -> Consent:
        """Raises PathNotFound, also for another owner's."""
        with self._database.reading():
            found = self._database.execute(
                "SELECT id, created_at, name, language, owner FROM consents WHERE id = ?", (id,)
            ).fetchone()
        consent = None if found is None else Consent(*found)
        if consent is None or not client.sees(consent.owner, "private"):
            raise PathNotFound(f"there is no consent {id[:64]!a}; GET /v1/audio/voice_consents lists them")
        return consent

    def list(self, after: str | None, limit: int, client: Client) -> tuple[list[Consent], bool]:
        """Return the newest first, behind the one with the id `after`, and whether there are more.

        Raises PathNotFound for an unknown `after`.
        """
        if after is not None:
            self.get(after, client)
        with self._database.reading():
            found = self._database.execute(
                """SELECT id, created_at, name, language, owner FROM consents
                WHERE (:is_first = 1 OR number < (SELECT number FROM consents WHERE id = :after))
                AND (:sees_all = 1 OR owner = :owner) ORDER BY number DESC LIMIT :limit""",
                {
                    "is_first": int(after is None),
                    "after": after or "",
                    "sees_all": int(client.visible_owner is None),
                    "owner": client.visible_owner or "",
                    "limit": limit + 1,
                },
            ).fetchall()
        return [Consent(*one) for one in found[:limit]], len(found) > limit

    def rename(self, id: str, name: str, client: Client) -> Consent:
        """Raises PathNotFound."""
        self.get(id, client)
        with self._database.writing(erases=True):
            self._database.execute("UPDATE consents SET name = ? WHERE id = ?", (_checked(name), id))
        return self.get(id, client)

    def delete(self, id: str, client: Client) -> None:
        """Raises PathNotFound, and InvalidRequest for one that a speaker was made with."""
        self.get(id, client)
        with self._database.writing(erases=True):
            deleted = self._database.execute(
                "DELETE FROM consents WHERE id = ? AND id NOT IN (SELECT id FROM consent_speakers)", (id,)
            )
            if not deleted.rowcount:
                raise InvalidRequest(
                    f"a voice was created with consent {id}, which is kept as long as the voice; delete the "
                    "voice, and its consent goes with it"
                )

    def attach(self, id: str, speaker: KnownSpeaker) -> None:
        """Keep the consent as long as the speaker, which was registered a moment ago."""
        key = key_of(speaker.name, (speaker.owner or "") if speaker.access == "private" else None)
        with self._database.writing():
            self._database.execute(
                """INSERT INTO consent_speakers
                SELECT ?, id FROM speakers WHERE name = ? AND created_at = ? ON CONFLICT DO NOTHING""",
                (id, key, speaker.created_at),
            )


def _checked(name: str) -> str:
    if not 1 <= len(name) <= MAX_LABEL_CHARS or not name.isprintable():
        raise InvalidRequest(f"a name of {len(name)} characters; expected 1 to {MAX_LABEL_CHARS}", "name")
    return name
