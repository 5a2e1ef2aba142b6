"""Count what each client used, and keep the counts, and the server's secret, in a file or a database."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from firstword.app.database import Database, DatabaseError, Schema, SqlDatabase
from firstword.app.errors import StoreFull, StoreUnavailable
from firstword.app.options import InvalidOptions
from firstword.app.telemetry.metrics import Metrics

WRITE_INTERVAL_S: Final = 10.0  # what a killed process forgets at most
MAX_LABELS: Final = 100  # names of keys in the metrics; all others are OTHER
OTHER: Final = "(other)"

USAGE = Schema(
    "usage",
    0,
    (
        """CREATE TABLE IF NOT EXISTS usage (name TEXT PRIMARY KEY, requests INTEGER NOT NULL,
        characters INTEGER NOT NULL, audio_s REAL NOT NULL) STRICT""",
        "CREATE TABLE IF NOT EXISTS server (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT",
    ),
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


class UsageStore:
    """Usage by name of key, the time of its beginning, a secret. Several servers may share it.

    Thread-safe; every method may wait for a disk, and raises DatabaseError, StoreUnavailable and StoreFull.
    """

    def __init__(self, database: SqlDatabase) -> None:
        """database: is closed by `close`. Raises as any method does."""
        self._database = database
        began_at = datetime.now(UTC).isoformat(timespec="seconds").encode()
        try:
            with database.writing():
                for name, value in (("secret", secrets.token_bytes(32)), ("began_at", began_at)):
                    database.execute(
                        "INSERT INTO server (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value)
                    )
        except BaseException:
            database.close()
            raise

    @classmethod
    def open(cls, path: Path) -> Self:
        """Make or open a file. Raises DatabaseError."""
        return cls(Database(path, USAGE))

    def close(self) -> None:
        self._database.close()

    def is_in_place(self) -> bool:
        """Return whether what is open is still what stands under the path."""
        return self._database.is_in_place()

    def value(self, name: str) -> bytes:
        with self._database.reading():
            found = self._database.execute("SELECT value FROM server WHERE name = ?", (name,)).fetchone()
            return bytes(found[0])

    def read(self) -> dict[str, UsedByClient]:
        self._database.refuse_if_gone()
        with self._database.reading():
            rows = self._database.execute("SELECT name, requests, characters, audio_s FROM usage").fetchall()
        return {name: UsedByClient(*counts) for name, *counts in rows}

    def add(self, counts: Mapping[str, UsedByClient]) -> None:
        in_turn = sorted(counts.items(), key=lambda one: one[0])  # as every server does: no deadlock
        rows = [(name, used.requests, used.characters, used.audio_s) for name, used in in_turn]
        with self._database.writing():
            self._database.execute_many(
                """INSERT INTO usage (name, requests, characters, audio_s) VALUES (?, ?, ?, ?)
                ON CONFLICT (name) DO UPDATE SET requests = usage.requests + excluded.requests,
                characters = usage.characters + excluded.characters,
                audio_s = usage.audio_s + excluded.audio_s""",
                rows,
            )


class Usage:
    """Counts in memory, by name of key, and writes the counts together; used within one event loop.

    `async with` makes or opens the file, writes while it lives, and writes the rest at its end. Entering
    raises InvalidOptions for a file that cannot be used.
    """

    def __init__(self, store: Path | SqlDatabase, metrics: Metrics) -> None:
        """store: a file, or a database that servers share."""
        self._store = store
        self._file: UsageStore | None = None  # None: not entered
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
            self._file = file = await asyncio.to_thread(_opened, self._store)
            self.secret = file.value("secret")
            self.began_at = file.value("began_at").decode()
        except (DatabaseError, StoreFull, StoreUnavailable) as error:
            if not isinstance(self._store, Path):
                raise
            remedy = (
                "; move it away to begin a new one, which counts from 0 and makes signed addresses invalid"
            )
            raise InvalidOptions(
                f"{self._store}: the file that counts what each key used cannot be used: {error}"
                + (remedy if isinstance(error, DatabaseError) and not error.is_full else "")
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
        await asyncio.to_thread(self._opened.close)

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
        """By name, the latest included; of all servers that share the file. Raises as UsageFile does."""
        async with self._using_file:
            counts = await asyncio.to_thread(self._opened.read)
            return _sums((counts, self._unwritten))

    def is_in_place(self) -> bool:
        """Return whether what is counted reaches the file under the path; it may wait for a disk."""
        return self._file is None or self._file.is_in_place()

    @property
    def _opened(self) -> UsageStore:
        assert self._file is not None, "the usage has not been entered"
        return self._file

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
            await asyncio.to_thread(self._opened.add, counts)
        except Exception as error:  # whatever it is: the counts stay, and are written when it is over
            self._unwritten = _sums((counts, self._unwritten))
            self._has_unwritten.set()
            if not self._is_failing:
                logger.error("what the keys used cannot be written, and is kept: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def _opened(store: Path | SqlDatabase) -> UsageStore:
    return UsageStore.open(store) if isinstance(store, Path) else UsageStore(store)


def _sums(parts: Iterable[Mapping[str, UsedByClient]]) -> dict[str, UsedByClient]:
    sums: dict[str, UsedByClient] = {}
    for part in parts:
        for name, used in part.items():
            sums[name] = sums.get(name, UsedByClient()) + used
    return sums
