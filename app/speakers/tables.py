"""The tables of registered speakers: what is the same in SQLite and PostgreSQL."""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from firstword.app.clients import Access
from firstword.app.database import DatabaseError, SqlDatabase
from firstword.app.errors import SpeakerChanged, SpeakerDamaged, SpeakerExists
from firstword.app.speakers.interface import PromptInfo, Quality, RequestKey, SpeakerChange, key_of

logger = logging.getLogger(__name__)

COLUMNS = "id, name, created_at, transcript, language, duration_s, quality, prompt_tokens, fingerprint"
ROWS = f"""SELECT {COLUMNS}, coalesce(owner, '') AS owner, coalesce(access, 'shared') AS access,
coalesce(lexicon, '{{}}') AS lexicon, coalesce(version, 1) AS version
FROM speakers LEFT JOIN owners USING (id) LEFT JOIN lexicons USING (id) LEFT JOIN versions USING (id)"""
BESIDE_SPEAKERS = ("owners", "lexicons", "versions", "speaker_keys")
"""Tables with what else is kept of a speaker, by its id."""


@dataclass(frozen=True, slots=True)
class SpeakerRow:
    """What is stored of a speaker beside its sound. id: never used again; 0 before it is stored."""

    name: str
    created_at: str
    prompt: PromptInfo
    quality: Quality  # without warnings
    fingerprint: str  # of the checkpoint whose features are kept
    owner: str = ""  # the name of the client's key; "" of nobody
    access: Access = "shared"
    lexicon: Mapping[str, str] = field(default_factory=dict, hash=False)
    id: int = 0
    version: int = 1  # one more with each change

    @property
    def key(self) -> str:
        """Unique: each owner's private speakers have names of their own."""
        return key_of(self.name, self.owner if self.access == "private" else None)

    @property
    def position(self) -> tuple[str, str]:
        """What lists are sorted by: of two private speakers of one name by their owners."""
        return self.name, self.owner if self.access == "private" else ""


RowCheck = Callable[[SpeakerRow], None]


def allow_any(row: SpeakerRow) -> None:
    """The `RowCheck` that refuses none."""


@dataclass(frozen=True, slots=True)
class StoredSpeaker:
    row: SpeakerRow
    recording: bytes  # as uploaded
    features: bytes  # a safetensors file


class SpeakerTables(ABC):
    """Thread-safe. `row` and `rows` are quick lookups; all else may wait for a disk, a lock or a network.

    A write is whole and on the disk when its method returns, and else never happened. Any method raises
    DatabaseError and StoreUnavailable; one that writes also StoreFull.
    """

    damaged: frozenset[int] = frozenset()
    """The ids of speakers found damaged so far."""

    def __init__(self, database: SqlDatabase) -> None:
        """database: what reads the sound, and writes."""
        self._database = database
        self.on_removed: Callable[[int], object] = lambda id: None
        """Called, in any thread, with the id of a speaker that another server deleted."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def row(self, key: str) -> SpeakerRow | None: ...

    @abstractmethod
    def rows(self) -> tuple[SpeakerRow, ...]:
        """Sorted by `position`; the very tuple of the last call where nothing was written since."""

    @abstractmethod
    def delete(self, key: str, check: RowCheck = allow_any) -> SpeakerRow | None:
        """Return the row that was deleted, if any. check: as of `update`."""

    @abstractmethod
    def _writing(self, erases: bool = False) -> AbstractContextManager[None]:
        """One transaction."""

    def is_in_place(self) -> bool:
        """Return whether what is registered would be found after a restart."""
        return self._database.is_in_place()

    def read(self, id: int) -> StoredSpeaker | None:
        """Raises SpeakerDamaged."""
        with self._database.reading():
            return self._read(id)

    def made_with(self, owner: str, request: RequestKey) -> SpeakerRow | None:
        """Return the speaker that was registered with the very request. Raises InvalidRequest."""
        with self._database.reading():
            return self._made_with(owner, request)

    def insert(self, speaker: StoredSpeaker, request: RequestKey | None = None) -> SpeakerRow:
        """Return the row with its id; that of before where the request was served before.

        Raises SpeakerExists, and InvalidRequest as `made_with` does.
        """
        row = speaker.row
        values = {
            "name": row.key,
            "created_at": row.created_at,
            "transcript": row.prompt.transcript,
            "language": row.prompt.language,
            "duration_s": row.prompt.duration_s,
            "quality": _quality_text(row.quality),
            "prompt_tokens": row.prompt.num_tokens,
            "fingerprint": row.fingerprint,
            "recording": speaker.recording,
            "features": speaker.features,
        }
        names = ", ".join(values)
        parameters = ", ".join(f":{name}" for name in values)
        with self._writing():
            if request is not None and (made := self._made_with(row.owner, request)):
                return made
            id = self._execute(
                f"INSERT INTO speakers ({names}) VALUES ({parameters}) ON CONFLICT (name) DO NOTHING", values
            )
            if id is None:
                raise _taken(row)
            self._keep_digest(id, digest_of(speaker.recording, speaker.features))
            self._keep_owner(id, row)
            self._keep_lexicon(id, row.lexicon)
            if request is not None:
                self._database.execute(
                    "INSERT INTO speaker_keys (owner, key, digest, id) VALUES (?, ?, ?, ?)",
                    (row.owner, request.key, request.digest, id),
                )
            self._touch(id)
        return replace(row, id=id)

    def update(self, key: str, change: SpeakerChange, check: RowCheck = allow_any) -> SpeakerRow | None:
        """Return the row as it is then; None: there is no such speaker.

        check: called with the row as it was before, within the transaction; refuses it by what it raises.
        Raises SpeakerDamaged: a change would move what is damaged; SpeakerExists where `access` or `name`
        gives it another key, which is taken; SpeakerChanged where it has another version.
        """
        with self._writing(erases=True):
            row = self._row(key)
            if row is None:
                return None
            check(row)
            if change.version not in (None, row.version):
                raise SpeakerChanged(
                    f"speaker {row.name!r} has version {row.version}, and the change is one of version "
                    f"{change.version}; read the speaker again, and change what it is now"
                )
            self._read(row.id)
            changed = _changed(row, change)
            if changed.key != key and self._row(changed.key) is not None:
                raise _taken(changed)
            self._database.execute(
                """UPDATE speakers SET name = :key, transcript = :transcript, language = :language,
                quality = :quality WHERE id = :id""",
                {
                    "id": row.id,
                    "key": changed.key,
                    "transcript": changed.prompt.transcript,
                    "language": changed.prompt.language,
                    "quality": _quality_text(changed.quality),
                },
            )
            if change.access is not None:
                self._keep_owner(row.id, changed)
            if change.lexicon is not None:
                self._keep_lexicon(row.id, changed.lexicon)
            self._database.execute(
                """INSERT INTO versions (id, version) VALUES (?, ?)
                ON CONFLICT (id) DO UPDATE SET version = excluded.version""",
                (row.id, changed.version),
            )
            self._touch(row.id)
        return changed

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
                    "prompt_tokens": row.prompt.num_tokens,
                    "fingerprint": row.fingerprint,
                },
            )
            if id is not None:
                self._keep_digest(id, digest_of(stored.recording, stored.features))
                self._touch(id)

    def _touch(self, id: int) -> None:  # noqa: B027  a file's other users look by themselves
        """Within `_writing`: let other servers see that the speaker was written."""

    def _row(self, key: str) -> SpeakerRow | None:
        """Within a transaction."""
        found = self._database.execute(f"{ROWS} WHERE name = ?", (key,)).fetchone()
        return None if found is None else row_of(found)

    def _read(self, id: int) -> StoredSpeaker | None:
        """Within a transaction. Raises SpeakerDamaged."""
        query = f"""SELECT row.*, recording, features, digest FROM ({ROWS} WHERE id = ?) AS row
        JOIN speakers USING (id) LEFT JOIN digests USING (id)"""
        found = self._database.execute(query, (id,)).fetchone()
        if found is None:
            return None
        *columns, recording, features, digest = found
        if not recording or (digest is not None and digest != digest_of(recording, features)):
            raise self._found_damaged(id, "its sound is not what was stored")
        return StoredSpeaker(row_of(columns), recording, features)

    def _found_damaged(self, id: int, reason: str) -> SpeakerDamaged:
        name = next((row.name for row in self._known_rows() if row.id == id), None)
        if id not in self.damaged:
            self.damaged |= {id}
            logger.error("speaker %s is damaged: %s", name or id, reason)
        return SpeakerDamaged(
            f"what the server keeps of speaker {name or id!r} is damaged; delete it and register it again"
        )

    @abstractmethod
    def _known_rows(self) -> Iterator[SpeakerRow]:
        """Those that were read so far."""

    def _made_with(self, owner: str, request: RequestKey) -> SpeakerRow | None:
        found = self._database.execute(
            "SELECT id, digest FROM speaker_keys WHERE owner = ? AND key = ?", (owner, request.key)
        ).fetchone()
        if found is None:
            return None
        id, digest = found
        request.refuse_other(bytes(digest))
        row = self._database.execute(f"{ROWS} WHERE id = ?", (id,)).fetchone()
        return None if row is None else row_of(row)

    def _execute(self, statement: str, values: Mapping[str, object]) -> int | None:
        """Return the id of the one row that it touched."""
        found = self._database.execute(f"{statement} RETURNING id", values).fetchall()
        return int(found[0][0]) if found else None

    def _keep_digest(self, id: int, digest: bytes) -> None:
        self._database.execute(
            """INSERT INTO digests (id, digest) VALUES (?, ?)
            ON CONFLICT (id) DO UPDATE SET digest = excluded.digest""",
            (id, digest),
        )

    def _keep_owner(self, id: int, row: SpeakerRow) -> None:
        self._database.execute(
            """INSERT INTO owners (id, owner, access) VALUES (?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, access = excluded.access""",
            (id, row.owner, row.access),
        )

    def _keep_lexicon(self, id: int, lexicon: Mapping[str, str]) -> None:
        self._database.execute("DELETE FROM lexicons WHERE id = ?", (id,))
        if lexicon:
            text = json.dumps(dict(lexicon))
            self._database.execute("INSERT INTO lexicons (id, lexicon) VALUES (?, ?)", (id, text))

    def _delete_beside(self, id: int) -> None:
        for table in BESIDE_SPEAKERS:
            self._database.execute(f"DELETE FROM {table} WHERE id = ?", (id,))


def digest_of(recording: bytes, features: bytes) -> bytes:
    digest = hashlib.sha256(len(recording).to_bytes(8, "little"))
    digest.update(recording)
    digest.update(features)
    return digest.digest()


def row_of(values: Any) -> SpeakerRow:
    """values: those of ROWS. Raises DatabaseError."""
    named = dict(zip((*COLUMNS.split(", "), "owner", "access", "lexicon", "version"), values, strict=True))
    named["name"] = str(named["name"]).rpartition("/")[2]
    named["prompt"] = PromptInfo(
        duration_s=named.pop("duration_s"),
        transcript=named.pop("transcript"),
        language=named.pop("language"),
        num_tokens=named.pop("prompt_tokens"),
    )
    try:
        named["quality"] = Quality(**json.loads(str(named["quality"])))
        named["lexicon"] = json.loads(str(named["lexicon"]))
    except (TypeError, ValueError) as error:
        raise DatabaseError(
            f"the quality or the lexicon of speaker {named['name']!r} is malformed"
        ) from error
    return SpeakerRow(**named)


def _changed(row: SpeakerRow, change: SpeakerChange) -> SpeakerRow:
    changed = replace(row, version=row.version + 1)
    if change.transcript is not None:
        quality = replace(row.quality, transcript_fit=None)
        prompt = replace(row.prompt, transcript=change.transcript)
        changed = replace(changed, prompt=prompt, quality=quality)
    if change.language is not None:
        changed = replace(changed, prompt=replace(changed.prompt, language=change.language or None))
    if change.access is not None:
        changed = replace(changed, access=change.access)
    if change.lexicon is not None:
        changed = replace(changed, lexicon=change.lexicon)
    if change.name is not None:
        changed = replace(changed, name=change.name)
    return changed


def _quality_text(quality: Quality) -> str:
    return json.dumps({name: value for name, value in asdict(quality).items() if name != "warnings"})


def _taken(row: SpeakerRow) -> SpeakerExists:
    return SpeakerExists(f"there is a speaker {row.name!r} already; choose another name, or delete it")
