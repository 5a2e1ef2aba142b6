"""Copies all that servers keep from one store to another: a data directory, or a PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from firstword.app.database import Database, DatabaseError, Schema, SqlDatabase
from firstword.app.postgresql import Postgres, is_postgres
from firstword.app.service import BATCH_DIRECTORY, USAGE_FILE
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.store_file import SPEAKERS, SPEAKERS_FILE
from firstword.app.surfaces.batches.store import AUDIO_PIECE_BYTES, BATCHES, BATCHES_FILE
from firstword.app.telemetry.usage import USAGE


@dataclass(frozen=True, slots=True)
class Table:
    """key: its first column that tells its rows apart, by which large ones are read one after the other."""

    name: str
    columns: str
    key: str | None = None


_SPEAKER = "id, name, created_at, transcript, language, duration_s, quality, prompt_tokens, fingerprint"
SPEAKER_TABLES: Final = (
    Table("speakers", f"{_SPEAKER}, recording, features", "id"),
    Table("digests", "id, digest"),
    Table("owners", "id, owner, access"),
    Table("lexicons", "id, lexicon"),
    Table("versions", "id, version"),
    Table("speaker_keys", "owner, key, digest, id"),
    Table("consents", "number, id, created_at, name, language, owner, recording", "number"),
    Table("consent_speakers", "id, speaker"),
)
BATCH_TABLES: Final = (
    Table("batches", "number, id, owner, created_at, is_cancelled"),
    Table("items", "batch, number, name, suffix, request, state, num_bytes, audio_s, code, message", "batch"),
    Table("batch_keys", "owner, key, digest, batch"),
)
USAGE_TABLES: Final = (
    Table("usage", "name, requests, characters, audio_s"),
    Table("server", "name, value"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """One store, with no server that uses it."""

    name: str
    speakers: SqlDatabase
    batches: SqlDatabase
    usage: SqlDatabase
    audio: Path | None  # folder of the batches; None: their audio is in the database


@dataclass(frozen=True, slots=True)
class Copied:
    speakers: int
    consents: int
    batches: int


def copy_store(source: str, target: str) -> Copied:
    """source, target: a directory, or the address of a PostgreSQL that has been migrated.

    The target must be empty. Each of speakers, batches and usage arrives whole or not at all. Raises
    DatabaseError, StoreFull and StoreUnavailable.
    """
    if not is_postgres(source) and not (Path(source) / SPEAKERS_FILE).exists():
        raise DatabaseError(f"{source}: no {SPEAKERS_FILE} is in it; give the data directory of a server")
    with _opened(source) as one, _opened(target) as other:
        for database, tables in (
            (other.speakers, SPEAKER_TABLES),
            (other.batches, BATCH_TABLES),
            (other.usage, USAGE_TABLES[:1]),
        ):
            _refuse_filled(other.name, database, tables)
        with other.speakers.writing():
            counts = [_copy_table(one.speakers, other.speakers, table) for table in SPEAKER_TABLES]
            _finish_speakers(other.speakers)
        with other.batches.writing():
            num_batches, *_ = [_copy_table(one.batches, other.batches, table) for table in BATCH_TABLES]
            other.batches.execute("UPDATE items SET state = 'queued' WHERE state = 'running'")
            _continue_numbers(other.batches, "batches", "number")
            _copy_audio(one, other)
        with other.usage.writing():
            other.usage.execute("DELETE FROM server")  # signed addresses go on by the secret that comes
            for table in USAGE_TABLES:
                _copy_table(one.usage, other.usage, table)
        return Copied(counts[0], counts[6], num_batches)


@contextmanager
def _opened(name: str) -> Iterator[Place]:
    """Raises DatabaseError, also where a server uses it."""
    with ExitStack() as stack:
        if is_postgres(name):
            postgres = Postgres(name)
            stack.callback(postgres.close)
            if postgres.num_replicas > 1:
                raise DatabaseError(
                    f"{postgres.place}: {postgres.num_replicas - 1} servers use it, or ended within the last "
                    "10 s; stop them first"
                )
            database = postgres.database
            yield Place(postgres.place, database("speakers"), database("batches"), database("usage"), None)
            return
        directory = Path(name)

        def opened(path: Path, schema: Schema) -> Database:
            database = Database(path, schema, 1.0, is_exclusive=True)
            stack.callback(database.close)
            return database

        speakers = opened(directory / SPEAKERS_FILE, SPEAKERS)
        ConsentStore.of_file(speakers)  # has tables of its own in it
        batches = opened(directory / BATCH_DIRECTORY / BATCHES_FILE, BATCHES)
        usage = opened(directory / USAGE_FILE, USAGE)
        yield Place(name, speakers, batches, usage, directory / BATCH_DIRECTORY)


def _refuse_filled(name: str, database: SqlDatabase, tables: Sequence[Table]) -> None:
    for table in tables:
        with database.reading():
            (count,) = database.execute(f"SELECT count(*) FROM {table.name}").fetchone()
        if count:
            raise DatabaseError(
                f"{name}: has {count} rows of {table.name} already, and nothing was copied; give a store "
                "that is empty"
            )


def _copy_table(source: SqlDatabase, target: SqlDatabase, table: Table) -> int:
    """Return how many rows. Within a transaction of the target."""
    places = ", ".join("?" for _ in table.columns.split(", "))
    insert = f"INSERT INTO {table.name} ({table.columns}) VALUES ({places})"
    query = f"SELECT {table.columns} FROM {table.name}"
    if table.key is None:
        with source.reading():
            rows = source.execute(query).fetchall()
        target.execute_many(insert, rows)
        return len(rows)
    with source.reading():
        keys = source.execute(f"SELECT DISTINCT {table.key} FROM {table.name} ORDER BY 1").fetchall()
    for key in keys:
        with source.reading():
            rows = source.execute(f"{query} WHERE {table.key} = ?", tuple(key)).fetchall()
        target.execute_many(insert, rows)
    return len(keys)


def _finish_speakers(target: SqlDatabase) -> None:
    if target.is_shared:
        target.execute("UPDATE changes SET number = number + 1")
        target.execute("UPDATE speakers SET changed = (SELECT number FROM changes)")
    _continue_numbers(target, "speakers", "id")
    _continue_numbers(target, "consents", "number")


def _continue_numbers(target: SqlDatabase, table: str, column: str) -> None:
    """New rows get greater numbers than those that were copied; SQLite sees to that by itself."""
    if target.is_shared:
        target.execute(
            f"""SELECT setval(pg_get_serial_sequence('{table}', '{column}'),
            (SELECT coalesce(max({column}), 0) + 1 FROM {table}), false)"""
        )


def _copy_audio(source: Place, target: Place) -> None:
    with source.batches.reading():
        done = source.batches.execute(
            """SELECT b.number, b.id, i.number, suffix FROM items i JOIN batches b ON b.number = i.batch
            WHERE state = 'done'"""
        ).fetchall()
    for batch, id, number, suffix in done:
        place = Path(id) / f"{number}.{suffix}"
        if source.audio is not None and not (source.audio / place).is_file():
            continue  # it was lost, and is told to be gone there as here
        read = _file_pieces if source.audio is not None else _stored_pieces
        pieces = read(source, batch, number, place)
        if target.audio is None:
            for piece, data in enumerate(pieces):
                target.batches.execute("INSERT INTO audio VALUES (?, ?, ?, ?)", (batch, number, piece, data))
            continue
        path = target.audio / place
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(pieces)


def _file_pieces(source: Place, batch: int, number: int, place: Path) -> Iterator[bytes]:
    assert source.audio is not None
    with (source.audio / place).open("rb") as file:
        while data := file.read(AUDIO_PIECE_BYTES):
            yield data


def _stored_pieces(source: Place, batch: int, number: int, place: Path) -> Iterator[bytes]:
    piece = 0
    while True:
        with source.batches.reading():
            found = source.batches.execute(
                "SELECT data FROM audio WHERE batch = ? AND number = ? AND piece = ?", (batch, number, piece)
            ).fetchone()
        if found is None:
            return
        yield bytes(found[0])
        piece += 1
