"""Durable store of speakers in one SQLite file that several servers may share."""

import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from firstword.app.clients import Access
from firstword.app.database import Database, DatabaseError, find_fault
from firstword.app.errors import SpeakerDamaged, SpeakerExists, StoreFull, StoreUnavailable
from firstword.app.speakers.interface import Quality, key_of
from firstword.app.speakers.store_file import (
    SPEAKERS,
    copy_aside,
    digest_of,
    keep_reserve,
    rebuild,
    release_reserve,
)

logger = logging.getLogger(__name__)

COLUMNS = "id, name, created_at, transcript, language, duration_s, quality, prompt_tokens, fingerprint"
ROWS = f"""SELECT {COLUMNS}, coalesce(owner, '') AS owner, coalesce(access, 'shared') AS access,
coalesce(lexicon, '{{}}') AS lexicon
FROM speakers LEFT JOIN owners USING (id) LEFT JOIN lexicons USING (id)"""
READ_TIMEOUT_S = 1.0  # only while another process recovers the file is a reader kept waiting
WRITE_TIMEOUT_S = 10.0
MAX_CHECK_S = 5.0  # of a start; what is left of the check goes on beside the service


@dataclass(frozen=True, slots=True)
class SpeakerRow:
    """What is stored of a speaker beside its sound. id: never used again; 0 before it is stored."""

    name: str
    created_at: str
    transcript: str
    language: str | None
    duration_s: float
    quality: Quality  # without warnings
    prompt_tokens: int
    fingerprint: str  # of the checkpoint whose features are kept
    owner: str = ""  # the name of the client's key; "" of nobody
    access: Access = "shared"
    lexicon: Mapping[str, str] = field(default_factory=dict, hash=False)
    id: int = 0

    @property
    def key(self) -> str:
        """Unique: each owner's private speakers have names of their own."""
        return key_of(self.name, self.owner if self.access == "private" else None)


@dataclass(frozen=True, slots=True)
class StoredSpeaker:
    row: SpeakerRow
    recording: bytes  # as uploaded
    features: bytes  # a safetensors file


class SpeakerStore:
    """Thread-safe. `row` and `rows` are quick lookups; all else may wait for a disk or a lock.

    A write is whole and on the disk when its method returns, and else never happened. What any process
    wrote is seen by the next call of every other. Any method raises DatabaseError and StoreUnavailable; one
    that writes also StoreFull.
    """

    def __init__(self, path: Path, max_check_s: float = MAX_CHECK_S) -> None:
        """Make the file if there is none, and check what it holds: from `max_check_s` on in the background.

        Raises DatabaseError if it is foreign, newer or damaged beyond single speakers.
        """
        self._path = path
        self._reader, self._writer = self._open()
        self._rows: tuple[SpeakerRow, ...] = ()  # under the reader's lock
        self._rows_version: int | None = None
        self._damaged: frozenset[int] = frozenset()
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

    @property
    def damaged(self) -> frozenset[int]:
        """The ids of speakers found damaged so far."""
        return self._damaged

    def is_in_place(self) -> bool:
        """Return whether what is open is still what stands under the path."""
        return self._writer.is_in_place()

    def row(self, key: str) -> SpeakerRow | None:
        with self._reader.reading():
            found = self._reader.execute(f"{ROWS} WHERE name = ?", (key,)).fetchone()
            return None if found is None else _row(found)

    def rows(self) -> tuple[SpeakerRow, ...]:
        """Sorted by name; read again only if anything was written since, by any process."""
        with self._reader.reading():
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._rows_version:
                found = self._reader.execute(f"{ROWS} ORDER BY name").fetchall()  # reads the names' index too
                rows = sorted(map(_row, found), key=lambda row: row.name)
                self._rows, self._rows_version = tuple(rows), version
            return self._rows

    def read(self, id: int) -> StoredSpeaker | None:
        """Raises SpeakerDamaged."""
        with self._writer.reading():
            return self._read(id)

    def insert(self, speaker: StoredSpeaker) -> SpeakerRow:
        """Return the row with its id. Raises SpeakerExists."""
        row = speaker.row
        values = {
            "name": row.key,
            "created_at": row.created_at,
            "transcript": row.transcript,
            "language": row.language,
            "duration_s": row.duration_s,
            "quality": json.dumps(
                {
                    "snr_db": row.quality.snr_db,
                    "clipping": row.quality.clipping,
                    "speech_ratio": row.quality.speech_ratio,
                    "transcript_fit": row.quality.transcript_fit,
                }
            ),
            "prompt_tokens": row.prompt_tokens,
            "fingerprint": row.fingerprint,
            "recording": speaker.recording,
            "features": speaker.features,
        }
        names = ", ".join(values)
        parameters = ", ".join(f":{name}" for name in values)
        with self._writing():
            id = self._execute(f"INSERT OR IGNORE INTO speakers ({names}) VALUES ({parameters})", values)
            if id is None:
                raise _taken(row)
            self._keep_digest(id, digest_of(speaker.recording, speaker.features))
            self._keep_owner(id, row)
            self._keep_lexicon(id, row.lexicon)
        return replace(row, id=id)

    def update(
        self,
        key: str,
        transcript: str | None,
        language: str | None,
        access: Access | None = None,
        lexicon: Mapping[str, str] | None = None,
    ) -> SpeakerRow | None:
        """Change a field unless it is None; an empty one removes it. None: no such speaker.

        Raises SpeakerDamaged: a change would move what is damaged; SpeakerExists where `access` gives it
        another key, which is taken.
        """
        row = self.row(key)
        if row is None:
            return None
        changed = replace(row, access=row.access if access is None else access)
        with self._writing(erases=True):
            self._read(row.id)
            id = self._execute(
                """UPDATE OR IGNORE speakers SET transcript = coalesce(:transcript, transcript),
                quality = iif(:transcript IS NULL, quality, json_remove(quality, '$.transcript_fit')),
                language = nullif(coalesce(:language, language), ''), name = :key WHERE name = :old_key""",
                {"old_key": key, "key": changed.key, "transcript": transcript, "language": language},
            )
            if id is not None and access is not None:
                self._keep_owner(id, changed)
            if id is not None and lexicon is not None:
                self._keep_lexicon(id, lexicon)
        updated = self.row(changed.key)
        if id is None and updated is not None:
            raise _taken(row)
        return updated

    def replace_features(self, stored: StoredSpeaker) -> None:
        """Store what was read anew of the same recording. Does nothing if the speaker is gone."""
        row = stored.row
        with self._writing():
            id = self._execute(
                """UPDATE speakers SET features = :features, prompt_tokens = :prompt_tokens,
                fingerprint = :fingerprint WHERE id = :id""",
                {
                    "id": row.id,
                    "features": stored.features,
                    "prompt_tokens": row.prompt_tokens,
                    "fingerprint": row.fingerprint,
                },
            )
            if id is not None:
                self._keep_digest(id, digest_of(stored.recording, stored.features))

    def delete(self, key: str) -> SpeakerRow | None:
        """Return the row that was deleted, if any. Of a full disk the space kept in reserve is used."""
        try:
            return self._delete(key)
        except StoreFull:
            if not release_reserve(self._path):
                raise
            self._has_reserve = False
        return self._delete(key)

    def _delete(self, key: str) -> SpeakerRow | None:
        row = self.row(key)
        if row is None:
            return None
        try:
            self.read(row.id)
        except SpeakerDamaged:
            return self._delete_damaged(row)
        with self._writing(erases=True):
            self._writer.execute("DELETE FROM owners WHERE id = ?", (row.id,))
            self._keep_lexicon(row.id, {})
            id = self._execute("DELETE FROM speakers WHERE id = :id", {"id": row.id})
        return None if id is None else row

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
            self._writer.execute("DELETE FROM owners WHERE id = ?", (row.id,))
            self._keep_lexicon(row.id, {})
        self._damaged -= {row.id}
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
        """Return the first fault of the file's structure, or "", without keeping a writer waiting."""
        with self._writer.errors_named(), closing(sqlite3.connect(self._path)) as connection:
            connection.set_progress_handler(lambda: int(self._is_closing.is_set()), 100_000)
            try:
                return find_fault(connection)
            except sqlite3.OperationalError:
                if self._is_closing.is_set():
                    return "not checked: the server stops"
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
        query = f"""SELECT row.*, recording, features, digest FROM ({ROWS} WHERE id = ?) AS row
        JOIN speakers USING (id) LEFT JOIN digests USING (id)"""
        try:
            with self._writer.errors_named():
                found = self._writer.execute(query, (id,)).fetchone()
        except DatabaseError as error:
            if not error.is_damage:
                raise
            raise self._found_damaged(id, str(error)) from error
        if found is None:
            return None
        *columns, recording, features, digest = found
        if not recording or (digest is not None and digest != digest_of(recording, features)):
            raise self._found_damaged(id, "its sound is not what was stored")
        return StoredSpeaker(_row(tuple(columns)), recording, features)

    def _found_damaged(self, id: int, reason: str) -> SpeakerDamaged:
        name = next((row.name for row in self._rows if row.id == id), None)
        if id not in self._damaged:
            self._damaged |= {id}
            logger.error("%s: speaker %s is damaged: %s", self._path, name or id, reason)
        return SpeakerDamaged(
            f"what the server keeps of speaker {name or id!r} is damaged; delete it and register it again"
        )

    @contextmanager
    def _writing(self, erases: bool = False) -> Iterator[None]:
        """One transaction, and no success unless it went into the file under the path."""
        with self._writer.writing(erases):
            yield
        if not self._has_reserve:
            self._has_reserve = keep_reserve(self._path)

    def _execute(self, statement: str, values: Mapping[str, object]) -> int | None:
        """Return the id of the one row that it touched."""
        found = self._writer.execute(f"{statement} RETURNING id", values).fetchall()
        return int(found[0][0]) if found else None

    def _keep_digest(self, id: int, digest: bytes) -> None:
        self._writer.execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (id, digest))

    def _keep_owner(self, id: int, row: SpeakerRow) -> None:
        self._writer.execute("INSERT OR REPLACE INTO owners VALUES (?, ?, ?)", (id, row.owner, row.access))

    def _keep_lexicon(self, id: int, lexicon: Mapping[str, str]) -> None:
        self._writer.execute("DELETE FROM lexicons WHERE id = ?", (id,))
        if lexicon:
            self._writer.execute("INSERT INTO lexicons VALUES (?, ?)", (id, json.dumps(dict(lexicon))))

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


def _row(values: tuple[object, ...]) -> SpeakerRow:
    """values: those of ROWS."""
    named = dict(zip((*COLUMNS.split(", "), "owner", "access", "lexicon"), values, strict=True))
    named["name"] = str(named["name"]).rpartition("/")[2]
    try:
        named["quality"] = Quality(**json.loads(str(named["quality"])))
        named["lexicon"] = json.loads(str(named["lexicon"]))
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(
            f"the quality or the lexicon of speaker {named['name']!r} is malformed"
        ) from error
    return SpeakerRow(**named)  # type: ignore[arg-type]


def _taken(row: SpeakerRow) -> SpeakerExists:
    return SpeakerExists(f"there is a speaker {row.name!r} already; choose another name, or delete it")
