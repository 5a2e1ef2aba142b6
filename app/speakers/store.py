"""Where registered speakers outlive the process: one SQLite file that several servers may share."""

import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.engine.interface import SpeakerExists
from app.speakers.interface import Quality
from app.speakers.store_file import errors_named, open_store_file

COLUMNS = "id, name, created_at, transcript, language, duration_s, quality, prompt_tokens, fingerprint"
LOOK_TIMEOUT_S = 1.0  # only while another process recovers the file is a reader kept waiting
WRITE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class SpeakerRow:
    """What is known of a speaker without its sound. id: never used again; 0 before it is stored."""

    name: str
    created_at: str
    transcript: str
    language: str | None
    duration_s: float
    quality: Quality  # without warnings
    prompt_tokens: int
    fingerprint: str  # of the checkpoint whose features are kept
    id: int = 0


@dataclass(frozen=True, slots=True)
class StoredSpeaker:
    row: SpeakerRow
    recording: bytes  # as uploaded
    features: bytes  # a safetensors file


class SpeakerStore:
    """Any thread may call it. `row` and `rows` are quick lookups; all else may wait for a disk or a lock.

    A write is whole and on the disk when its method returns, and else never happened. What any process
    wrote is seen by the next call of every other. Any method raises SpeakerStoreError.
    """

    def __init__(self, path: Path) -> None:
        """Makes the file if there is none. Raises SpeakerStoreError if it is foreign, newer or damaged."""
        self._path = path
        self._looking = open_store_file(path, LOOK_TIMEOUT_S)
        self._working = open_store_file(path, WRITE_TIMEOUT_S)
        self._look_lock = threading.Lock()  # of `_looking` and the rows
        self._lock = threading.Lock()  # of `_working`
        self._rows: tuple[SpeakerRow, ...] = ()
        self._rows_version: int | None = None
        self.rows()  # touches every row: damage shows now

    def close(self) -> None:
        """Waits for a write that is under way."""
        with self._lock:
            self._working.close()
        with self._look_lock:
            self._looking.close()

    def row(self, name: str) -> SpeakerRow | None:
        with self._look_lock, errors_named(self._path):
            found = self._looking.execute(
                f"SELECT {COLUMNS} FROM speakers WHERE name = ?", (name,)
            ).fetchone()
            return None if found is None else _row(found)

    def rows(self) -> tuple[SpeakerRow, ...]:
        """By name; read again only if anything was written since, by whomever."""
        with self._look_lock, errors_named(self._path):
            (version,) = self._looking.execute("PRAGMA data_version").fetchone()
            if version != self._rows_version:
                found = self._looking.execute(f"SELECT {COLUMNS} FROM speakers ORDER BY name").fetchall()
                self._rows, self._rows_version = tuple(map(_row, found)), version
            return self._rows

    def read(self, id: int) -> StoredSpeaker | None:
        query = f"SELECT {COLUMNS}, recording, features FROM speakers WHERE id = ?"
        with self._lock, errors_named(self._path):
            found = self._working.execute(query, (id,)).fetchone()
            return None if found is None else StoredSpeaker(_row(found[:-2]), *found[-2:])

    def insert(self, speaker: StoredSpeaker) -> SpeakerRow:
        """-> the row with its id. Raises SpeakerExists."""
        row = speaker.row
        values = {
            "name": row.name,
            "created_at": row.created_at,
            "transcript": row.transcript,
            "language": row.language,
            "duration_s": row.duration_s,
            "quality": _quality_json(row.quality),
            "prompt_tokens": row.prompt_tokens,
            "fingerprint": row.fingerprint,
            "recording": speaker.recording,
            "features": speaker.features,
        }
        names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        stored = self._write(f"INSERT OR IGNORE INTO speakers ({names}) VALUES ({places})", values)
        if stored is None:
            raise SpeakerExists(f"there is a speaker {row.name!r} already; choose another name, or delete it")
        return stored

    def update(self, name: str, transcript: str | None, language: str | None) -> SpeakerRow | None:
        """None leaves a field, an empty language removes it. -> None if there is no such speaker."""
        return self._write(
            """UPDATE speakers SET transcript = coalesce(:transcript, transcript),
            language = nullif(coalesce(:language, language), '') WHERE name = :name""",
            {"name": name, "transcript": transcript, "language": language},
        )

    def replace_features(self, id: int, features: bytes, prompt_tokens: int, fingerprint: str) -> None:
        """Of the same recording, read again. Does nothing if the speaker is gone."""
        self._write(
            """UPDATE speakers SET features = :features, prompt_tokens = :prompt_tokens,
            fingerprint = :fingerprint WHERE id = :id""",
            {"id": id, "features": features, "prompt_tokens": prompt_tokens, "fingerprint": fingerprint},
        )

    def delete(self, name: str) -> SpeakerRow | None:
        """-> what was deleted, if anything."""
        return self._write("DELETE FROM speakers WHERE name = :name", {"name": name})

    def _write(self, statement: str, values: Mapping[str, object]) -> SpeakerRow | None:
        """One transaction. -> the one row it touched, as it is now, or was."""
        with self._lock, errors_named(self._path), self._working:
            found = self._working.execute(f"{statement} RETURNING {COLUMNS}", values).fetchall()
            return _row(found[0]) if found else None


def _quality_json(quality: Quality) -> str:
    numbers = {
        "snr_db": quality.snr_db,
        "clipping": quality.clipping,
        "speech_ratio": quality.speech_ratio,
    }
    return json.dumps(numbers)


def _row(values: tuple[object, ...]) -> SpeakerRow:
    """values: in the order of COLUMNS."""
    named = dict(zip(COLUMNS.split(", "), values, strict=True))
    try:
        named["quality"] = Quality(**json.loads(str(named["quality"])))
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"the quality of speaker {named['name']!r} is malformed") from error
    return SpeakerRow(**named)  # type: ignore[arg-type]
