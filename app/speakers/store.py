"""Durable store of speakers in one SQLite file that several servers may share, and speakers' bundle files.

A bundle is one safetensors file with a registered speaker, for another server of the same checkpoint.
"""

import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from firstword.app.errors import InvalidRequest, SpeakerExists, SpeakerIncompatible, UploadTooLarge
from firstword.app.speakers.interface import Quality

Tensors = Mapping[str, NDArray[np.generic]]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}
HEADER_SIZE_BYTES = 8  # little-endian length of the JSON header that follows

COLUMNS = "id, name, created_at, transcript, language, duration_s, quality, prompt_tokens, fingerprint"
READ_TIMEOUT_S = 1.0  # only while another process recovers the file is a reader kept waiting
WRITE_TIMEOUT_S = 10.0


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
    id: int = 0


@dataclass(frozen=True, slots=True)
class StoredSpeaker:
    row: SpeakerRow
    recording: bytes  # as uploaded
    features: bytes  # a safetensors file


class SpeakerStore:
    """Thread-safe. `row` and `rows` are quick lookups; all else may wait for a disk or a lock.

    A write is whole and on the disk when its method returns, and else never happened. What any process
    wrote is seen by the next call of every other. Any method raises SpeakerStoreError.
    """

    def __init__(self, path: Path) -> None:
        """Makes the file if there is none. Raises SpeakerStoreError if it is foreign, newer or damaged."""
        self._path = path
        self._reader = open_store_file(path, READ_TIMEOUT_S)
        self._writer = open_store_file(path, WRITE_TIMEOUT_S)
        self._reader_lock = threading.Lock()  # of the rows too
        self._writer_lock = threading.Lock()
        self._rows: tuple[SpeakerRow, ...] = ()
        self._rows_version: int | None = None
        self.rows()  # touches every row: damage shows now

    def close(self) -> None:
        """Waits for a write that is under way."""
        with self._writer_lock:
            self._writer.close()
        with self._reader_lock:
            self._reader.close()

    def row(self, name: str) -> SpeakerRow | None:
        with self._reader_lock, errors_named(self._path):
            found = self._reader.execute(f"SELECT {COLUMNS} FROM speakers WHERE name = ?", (name,)).fetchone()
            return None if found is None else _row(found)

    def rows(self) -> tuple[SpeakerRow, ...]:
        """Sorted by name; read again only if anything was written since, by any process."""
        with self._reader_lock, errors_named(self._path):
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._rows_version:
                found = self._reader.execute(f"SELECT {COLUMNS} FROM speakers ORDER BY name").fetchall()
                self._rows, self._rows_version = tuple(map(_row, found)), version
            return self._rows

    def read(self, id: int) -> StoredSpeaker | None:
        query = f"SELECT {COLUMNS}, recording, features FROM speakers WHERE id = ?"
        with self._writer_lock, errors_named(self._path):
            found = self._writer.execute(query, (id,)).fetchone()
            return None if found is None else StoredSpeaker(_row(found[:-2]), *found[-2:])

    def insert(self, speaker: StoredSpeaker) -> SpeakerRow:
        """Return the row with its id. Raises SpeakerExists."""
        row = speaker.row
        values = {
            "name": row.name,
            "created_at": row.created_at,
            "transcript": row.transcript,
            "language": row.language,
            "duration_s": row.duration_s,
            "quality": json.dumps(
                {
                    "snr_db": row.quality.snr_db,
                    "clipping": row.quality.clipping,
                    "speech_ratio": row.quality.speech_ratio,
                }
            ),
            "prompt_tokens": row.prompt_tokens,
            "fingerprint": row.fingerprint,
            "recording": speaker.recording,
            "features": speaker.features,
        }
        names = ", ".join(values)
        parameters = ", ".join(f":{name}" for name in values)
        stored = self._write(f"INSERT OR IGNORE INTO speakers ({names}) VALUES ({parameters})", values)
        if stored is None:
            raise SpeakerExists(f"there is a speaker {row.name!r} already; choose another name, or delete it")
        return stored

    def update(self, name: str, transcript: str | None, language: str | None) -> SpeakerRow | None:
        """Change a field unless it is None; an empty language removes it. None: no such speaker."""
        return self._write(
            """UPDATE speakers SET transcript = coalesce(:transcript, transcript),
            language = nullif(coalesce(:language, language), '') WHERE name = :name""",
            {"name": name, "transcript": transcript, "language": language},
        )

    def replace_features(self, id: int, features: bytes, prompt_tokens: int, fingerprint: str) -> None:
        """Store what was read anew of the same recording. Does nothing if the speaker is gone."""
        self._write(
            """UPDATE speakers SET features = :features, prompt_tokens = :prompt_tokens,
            fingerprint = :fingerprint WHERE id = :id""",
            {"id": id, "features": features, "prompt_tokens": prompt_tokens, "fingerprint": fingerprint},
        )

    def delete(self, name: str) -> SpeakerRow | None:
        """Return the row that was deleted, if any."""
        return self._write("DELETE FROM speakers WHERE name = :name", {"name": name})

    def _write(self, statement: str, values: Mapping[str, object]) -> SpeakerRow | None:
        """Run one transaction; return the one row it touched, as it is now, or was."""
        with self._writer_lock, errors_named(self._path), self._writer:
            found = self._writer.execute(f"{statement} RETURNING {COLUMNS}", values).fetchall()
            return _row(found[0]) if found else None


def _row(values: tuple[object, ...]) -> SpeakerRow:
    """values: in the order of COLUMNS."""
    named = dict(zip(COLUMNS.split(", "), values, strict=True))
    try:
        named["quality"] = Quality(**json.loads(str(named["quality"])))
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"the quality of speaker {named['name']!r} is malformed") from error
    return SpeakerRow(**named)  # type: ignore[arg-type]


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
            if version != SCHEMA_VERSION:
                raise SpeakerStoreError(
                    f"{path}: speakers of schema {version}, this release knows {SCHEMA_VERSION}; use the "
                    "release that wrote it"
                )
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it returns
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


FORMAT = "firstword-speaker"
VERSION = "1"
RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Bundle:
    name: str
    transcript: str
    language: str | None
    fingerprint: str  # of the checkpoint that read the recording
    recording: bytes  # as uploaded
    features: Tensors


def write_bundle(bundle: Bundle) -> bytes:
    recording = np.frombuffer(bundle.recording, np.uint8)
    return pack(
        {**bundle.features, RECORDING: recording},
        {
            "format": FORMAT,
            "version": VERSION,
            "name": bundle.name,
            "transcript": bundle.transcript,
            "language": bundle.language or "",
            "fingerprint": bundle.fingerprint,
        },
    )


def read_bundle(content: bytes, max_bytes: int, fingerprint: str) -> Bundle:
    """Check any bytes to be a bundle; whether its contents make sense is for the caller to check.

    Raises UploadTooLarge; InvalidRequest if it is none; SpeakerIncompatible if its fingerprint is another.
    """
    if len(content) > max_bytes:
        raise UploadTooLarge(f"a bundle of {len(content)} bytes; expected {max_bytes} at most")
    try:
        tensors, metadata = unpack(content)
    except ValueError as error:
        raise invalid_bundle(str(error)) from error
    if metadata.get("format") != FORMAT:
        raise invalid_bundle("a safetensors file, but not one that an export gave")
    if metadata.get("version") != VERSION:
        raise invalid_bundle(f"version {metadata.get('version')!a}; this release reads version {VERSION}")
    made_with = _entry(metadata, "fingerprint")
    if made_with != fingerprint:
        raise SpeakerIncompatible(
            f"the bundle was made with the checkpoint {made_with[:32]!a}, this server runs {fingerprint!r}; "
            "register the speaker's recording here instead"
        )
    recording = tensors.pop(RECORDING, None)
    if recording is None or recording.dtype != np.uint8 or recording.ndim != 1 or not recording.size:
        raise invalid_bundle(f"no tensor {RECORDING} of bytes in it")
    return Bundle(
        name=_entry(metadata, "name"),
        transcript=_entry(metadata, "transcript"),
        language=_entry(metadata, "language") or None,
        fingerprint=made_with,
        recording=recording.tobytes(),
        features=tensors,
    )


def invalid_bundle(reason: str) -> InvalidRequest:
    return InvalidRequest(f"not a speaker's bundle: {reason}; send what an export gave", param="bundle")


def _entry(metadata: Mapping[str, str], name: str) -> str:
    if name not in metadata:
        raise invalid_bundle(f"its metadata lacks {name}")
    return metadata[name]


def pack(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """tensors: float32, int64 or uint8, contiguous."""
    content: bytes = save(dict(tensors), dict(metadata or {}))
    return content


def unpack(content: bytes) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Return the arrays, writable and with their own memory, and the metadata.

    Raises ValueError for bytes that are no safetensors file, or hold another type than those above.
    """
    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"not a safetensors file: {error}") from error
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, entry in entries:
        dtype = DTYPES.get(str(entry["dtype"]))
        if dtype is None:
            raise ValueError(f"tensor {name!r} is of type {entry['dtype']}; expected {', '.join(DTYPES)}")
        arrays[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    length = int.from_bytes(content[:HEADER_SIZE_BYTES], "little")
    header = json.loads(content[HEADER_SIZE_BYTES : HEADER_SIZE_BYTES + length])
    return arrays, header.get("__metadata__") or {}  # `deserialize` has checked that it holds texts
