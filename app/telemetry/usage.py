"""Count what each client used, and keep the counts, and the server's secret, in one small SQLite file."""

import asyncio
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from firstword.app.options import InvalidOptions
from firstword.app.telemetry.metrics import Metrics

WRITE_INTERVAL_S: Final = 10.0  # what a killed process forgets at most
LOCK_TIMEOUT_S: Final = 10.0
MAX_LABELS: Final = 100  # names of keys in the metrics; all others are OTHER
OTHER: Final = "(other)"

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS usage (name TEXT PRIMARY KEY, requests INTEGER NOT NULL, "
    "characters INTEGER NOT NULL, audio_s REAL NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS server (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT",
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UsedByClient:
    requests: int = 0  # that were spoken, or begun to be; each context of a WebSocket is one
    characters: int = 0  # of their texts, as given
    audio_s: float = 0.0  # handed to the client

    def __add__(self, other: "UsedByClient") -> "UsedByClient":
        return UsedByClient(
            self.requests + other.requests,
            self.characters + other.characters,
            self.audio_s + other.audio_s,
        )


class UsageFile:
    """The file: usage by name of key, the time of its beginning, a secret. Several servers may share it.

    Every method opens the file anew, and raises sqlite3.Error or OSError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """Does nothing where it has been made. Only its owner may read it: it holds a secret."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o600))
        began_at = datetime.now(UTC).isoformat(timespec="seconds").encode()
        with self._connection() as connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            for name, value in (("secret", secrets.token_bytes(32)), ("began_at", began_at)):
                connection.execute("INSERT OR IGNORE INTO server VALUES (?, ?)", (name, value))

    def value(self, name: str) -> bytes:
        with self._connection() as connection:
            (value,) = connection.execute("SELECT value FROM server WHERE name = ?", (name,)).fetchone()
            return bytes(value)

    def read(self) -> dict[str, UsedByClient]:
        with self._connection() as connection:
            rows = connection.execute("SELECT name, requests, characters, audio_s FROM usage").fetchall()
        return {name: UsedByClient(*counts) for name, *counts in rows}

    def add(self, counts: Mapping[str, UsedByClient]) -> None:
        rows = [(name, used.requests, used.characters, used.audio_s) for name, used in counts.items()]
        with self._connection() as connection:
            connection.executemany(
                """INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
                requests = requests + excluded.requests, characters = characters + excluded.characters,
                audio_s = audio_s + excluded.audio_s""",
                rows,
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        uri = f"{self._path.absolute().as_uri()}?mode=rw"  # one that was removed is not made again, empty
        with closing(sqlite3.connect(uri, LOCK_TIMEOUT_S, uri=True)) as connection, connection:
            yield connection


class Usage:
    """Counts in memory, by name of key, and writes the counts together; used within one event loop.

    `async with` makes or opens the file, writes while it lives, and writes the rest at its end. Entering
    raises InvalidOptions for a file that cannot be used.
    """

    def __init__(self, path: Path, metrics: Metrics) -> None:
        self._path = path
        self._file = UsageFile(path)
        self.metrics = metrics
        self._labels: set[str] = set()
        self._unwritten: dict[str, UsedByClient] = {}
        self._has_unwritten = asyncio.Event()
        self._is_closing = asyncio.Event()
        self._using_file = asyncio.Lock()
        self._is_failing = False
        self._writing: asyncio.Task[None] | None = None  # None: not entered
        self.secret = b""  # set on entering
        self.began_at = ""  # ISO 8601, UTC; set on entering

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._file.make)
            self.secret = await asyncio.to_thread(self._file.value, "secret")
            self.began_at = (await asyncio.to_thread(self._file.value, "began_at")).decode()
        except (sqlite3.Error, OSError) as error:
            raise InvalidOptions(
                f"{self._path}: the file that counts what each key used cannot be used: {error}; move it "
                "away to begin a new one, which counts from 0 and makes signed addresses invalid"
            ) from error
        self._writing = asyncio.create_task(self._write_batches())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writing is not None, "the usage has not been entered"
        self._is_closing.set()
        self._has_unwritten.set()
        await self._writing
        await self._write()

    def count(self, name: str, characters: int, audio_s: float) -> None:
        """Count one request. name: of the key; "" without keys."""
        used = UsedByClient(1, characters, audio_s)
        self._unwritten[name] = self._unwritten.get(name, UsedByClient()) + used
        self._has_unwritten.set()
        if name:
            label = self._label_of(name)
            self.metrics.key_requests.labels(label).inc()
            self.metrics.key_characters.labels(label).inc(characters)
            self.metrics.key_audio_seconds.labels(label).inc(audio_s)

    async def read(self) -> dict[str, UsedByClient]:
        """By name, the latest included; of all servers that share the file. Raises sqlite3.Error, OSError."""
        async with self._using_file:
            counts = await asyncio.to_thread(self._file.read)
            return _sums((counts, self._unwritten))

    def _label_of(self, name: str) -> str:
        if len(self._labels) < MAX_LABELS:
            self._labels.add(name)
        return name if name in self._labels else OTHER

    async def _write_batches(self) -> None:
        while not self._is_closing.is_set():
            await self._has_unwritten.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_INTERVAL_S):  # for others to be written with them
                    await self._is_closing.wait()
            async with self._using_file:
                await self._write()

    async def _write(self) -> None:
        """What cannot be written is kept for the next time."""
        counts, self._unwritten = self._unwritten, {}
        self._has_unwritten.clear()
        if not counts:
            return
        try:
            await asyncio.to_thread(self._file.add, counts)
        except (sqlite3.Error, OSError) as error:
            self._unwritten = _sums((counts, self._unwritten))
            self._has_unwritten.set()
            if not self._is_failing:
                logger.error("%s: what the keys used cannot be written, and is kept: %s", self._path, error)
            self._is_failing = True
        else:
            self._is_failing = False


def _sums(parts: Iterable[Mapping[str, UsedByClient]]) -> dict[str, UsedByClient]:
    sums: dict[str, UsedByClient] = {}
    for part in parts:
        for name, used in part.items():
            sums[name] = sums.get(name, UsedByClient()) + used
    return sums
