"""PostgreSQL as the store that several servers share: its connections, and who hears of a change.

psycopg is the extra `postgresql`.
"""

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from firstword.app.database import RETRY_AFTER_S, UNSTORABLE, DatabaseError, Rows, unstorable
from firstword.app.errors import StoreFull, StoreUnavailable
from firstword.app.postgresql_schema import MIGRATIONS

POLL_S: Final = 0.5  # after which a change is looked for that was not announced
BEAT_S: Final = 2.0  # how often a server says that it lives
DEAD_AFTER_S: Final = 10.0  # without a word from it
SILENCE_S: Final = 5.0  # of a database that is asked something
MIGRATION_S: Final = 3600.0  # of one whose tables change, or that waits for another server's change
MAX_CONNECTIONS: Final = 4  # of one server, beside the one that listens
CHANNEL: Final = "firstword"
MIN_VERSION: Final = 14
MIGRATING: Final = 0x46575350  # an advisory lock
UNVERIFIED: Final = "certificate verify failed"  # all that OpenSSL says, of one that has expired too

logger = logging.getLogger(__name__)

Hear = Callable[[frozenset[str]], None]
"""Called with the subjects that were announced: all of them where some may have been missed."""


def is_postgres(store: str) -> bool:
    return store.startswith(("postgresql://", "postgres://"))


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up on a database that says nothing for so long: one that is stopped keeps its sockets open."""

    patience_s: float | None = None  # None: SILENCE_S

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
        return super().wait(_impatient(gen, self.patience_s or SILENCE_S), *given, **named)


def _impatient(answers: Generator[Any, Any, Any], patience_s: float) -> Generator[Any, Any, Any]:
    heard_at = time.monotonic()
    try:
        wanted = next(answers)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                heard_at = now
            elif now - heard_at > patience_s:
                answers.close()
                raise psycopg.OperationalError(f"no answer within {patience_s:g} s")
            wanted = answers.send(ready)
    except StopIteration as end:
        return end.value


class Postgres:
    """One database for several servers, each of which has a name in it while it lives. Thread-safe.

    While the database cannot be reached every read and write raises StoreUnavailable, at once where that is
    known; it is looked for twice a second.
    """

    def __init__(self, url: str) -> None:
        """Raises DatabaseError where it cannot be reached, is older than PostgreSQL 14, or has not the tables
        of this release."""
        self.place = place_of(url)
        self.replica = f"{re.sub(r'[^a-zA-Z0-9.-]', '-', socket.gethostname())}-{uuid4().hex[:8]}"
        self.num_replicas = 1  # that live, this one included
        self.is_up = True
        self._url = url
        self._hearing: list[Hear] = []
        self._is_closing = threading.Event()
        with _named_errors(self.place), opened(url) as connection:
            _refuse_unfit(connection, self.place)
            self._beat(connection)
        self._idle: list[Connection] = []  # the last one used at the end
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        self._listener = threading.Thread(target=self._listen, name="postgresql", daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._is_closing.set()
        if self.is_up:
            with suppress(psycopg.Error), opened(self._url) as connection:
                connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))  # the listener looks up
                self._listener.join(2 * POLL_S)
                connection.execute("DELETE FROM replicas WHERE name = %s", (self.replica,))
        self._close_idle()

    def database(self, subject: str) -> "PostgresDatabase":
        """subject: what it holds, in messages, such as "speakers"."""
        return PostgresDatabase(self, subject)

    def subscribe(self, hear: Hear) -> Callable[[], None]:
        """Call `hear` in a thread at each announcement, and every POLL_S. Return what ends that."""
        self._hearing.append(hear)

        def end() -> None:
            with suppress(ValueError):  # where it has ended before
                self._hearing.remove(hear)

        return end

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Lend a connection that answers. Raises psycopg's errors.

        psycopg's own pool waits longer from try to try, while the database may be back in a second.
        """
        if not self._free.acquire(timeout=SILENCE_S):
            raise psycopg.OperationalError(f"{MAX_CONNECTIONS} connections are in use")
        try:
            connection = self._answering() or Connection.connect(self._url, **_options())
            try:
                yield connection
            finally:
                if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.close()
                else:
                    self._idle.append(connection)
        finally:
            self._free.release()

    def _answering(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            try:
                connection.execute("")
            except psycopg.Error:  # of before the database went
                connection.close()
            else:
                return connection
        return None

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _listen(self) -> None:
        while not self._is_closing.is_set():
            try:
                with opened(self._url) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._came_back()
                    self._hear_on(connection)
            except (psycopg.Error, OSError) as error:
                if self.is_up and not self._is_closing.is_set():
                    logger.error("%s cannot be used: %s", self.place, _line(error))
                self.is_up = False
            self._is_closing.wait(POLL_S)

    def _came_back(self) -> None:
        if not self.is_up:
            logger.info("%s can be used again", self.place)
        self.is_up = True
        self._tell(frozenset({"speakers", "batches"}))

    def _hear_on(self, connection: Connection) -> None:
        beat_at = 0.0
        while not self._is_closing.is_set():
            if time.monotonic() - beat_at > BEAT_S:
                self._beat(connection)
                beat_at = time.monotonic()
            heard = connection.notifies(timeout=POLL_S, stop_after=1)
            self._tell(frozenset(notice.payload for notice in heard))

    def _tell(self, subjects: frozenset[str]) -> None:
        for hear in list(self._hearing):
            try:
                hear(subjects)
            except (DatabaseError, StoreFull, StoreUnavailable) as error:
                logger.warning("a change could not be read: %s", error)

    def _beat(self, connection: Connection) -> None:
        connection.execute(
            """INSERT INTO replicas VALUES (%s, clock_timestamp())
            ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at""",
            (self.replica,),
        )
        connection.execute(
            "DELETE FROM replicas WHERE seen_at < clock_timestamp() - make_interval(secs => %s)",
            (DEAD_AFTER_S,),
        )
        found = connection.execute("SELECT count(*) FROM replicas").fetchone()
        self.num_replicas = max(1, found[0] if found else 1)


class PostgresDatabase:
    """What of the database one store uses, as `Database` is of a file. Thread-safe.

    A write is whole and on the database's disk when `writing` ends, and else never happened; where the
    database is lost while it commits, only looking tells.
    """

    is_shared: Final = True
    skip_locked: Final = "FOR UPDATE SKIP LOCKED"

    def __init__(self, postgres: Postgres, subject: str) -> None:
        self.postgres = postgres
        self._subject = subject
        self._used = threading.local()

    def close(self) -> None:
        """The connections outlive the stores."""

    def is_in_place(self) -> bool:
        """Without the database the server still speaks: it is no reason to send nobody to it."""
        return True

    def refuse_if_gone(self) -> None:
        """There is no file that could be."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises StoreFull, StoreUnavailable, and DatabaseError for what is our own fault."""
        with self._connected("read"):
            yield

    @contextmanager
    def writing(self, erases: bool = False) -> Iterator[None]:
        """One transaction. erases: has no meaning here, where VACUUM and the log's recycling erase."""
        with self._connected("written and nothing was saved") as connection:
            connection.execute("BEGIN")
            try:
                yield
                connection.execute("COMMIT")
            except psycopg.OperationalError:
                connection.close()  # whatever state it is in
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> Rows:
        """Within `reading` or `writing`. statement: with SQLite's placeholders, `?` and `:name`."""
        connection: Connection = self._used.connection
        return connection.execute(_translated(statement), values or None)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Within `writing`."""
        connection: Connection = self._used.connection
        connection.cursor().executemany(_translated(statement), rows)

    def announce(self) -> None:
        """Within `writing`: let every server hear of the change as soon as it is committed."""
        self.execute("SELECT pg_notify(?, ?)", (CHANNEL, self._subject))

    @contextmanager
    def _connected(self, verb: str) -> Iterator[Connection]:
        subject, place = self._subject, self.postgres.place
        unavailable = StoreUnavailable(
            f"the server's database of {subject} cannot be {verb}; the server's log has the reason",
            RETRY_AFTER_S if self.postgres.is_up else 1,
        )
        if not self.postgres.is_up:
            raise unavailable
        try:
            with self.postgres.connected() as connection:
                self._used.connection = connection
                try:
                    yield connection
                finally:
                    del self._used.connection
        except psycopg.errors.DiskFull as error:
            logger.error("%s: %s", place, _line(error))
            raise StoreFull(
                f"the disk of the server's database of {subject} is full and nothing was saved; free space "
                "on it and try again"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
            logger.error("%s: the %s cannot be %s: %s", place, subject, verb, _line(error))
            raise unavailable from error
        except (psycopg.DataError, *UNSTORABLE) as error:  # it holds no NUL either
            raise unstorable(error) from error
        except psycopg.Error as error:
            raise DatabaseError(f"{place}: the {subject} cannot be {verb}: {_line(error)}") from error


def migrate(url: str) -> tuple[int, int]:
    """Bring the tables to this release's, of several who ask at once by one alone, each step whole.

    Return the numbers of the last migration before and after. Raises DatabaseError.
    """
    with _named_errors(place_of(url)), opened(url) as connection:
        connection.patience_s = MIGRATION_S
        connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATING,))
        connection.execute("CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY)")
        before = _migrated(connection)
        for number, statements in enumerate(MIGRATIONS, start=1):
            if number > before:
                with connection.transaction():
                    connection.execute(statements)
                    connection.execute("INSERT INTO migrations VALUES (%s)", (number,))
        return before, max(before, len(MIGRATIONS))


@contextmanager
def opened(url: str) -> Iterator[Connection]:
    """One connection, closed at the end."""
    connection = Connection.connect(url, **_options())
    try:
        yield connection
    finally:
        connection.close()


def place_of(url: str) -> str:
    """Return how messages name it: without its password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise DatabaseError(f"FIRSTWORD_STORE is no address of PostgreSQL: {_line(error)}") from None
    return f"PostgreSQL {given.get('host', '')}:{given.get('port', 5432)}/{given.get('dbname', '')}"


def _options() -> dict[str, Any]:
    # Nothing is prepared, so that a pooler between may change the connection with each transaction.
    return {"autocommit": True, "prepare_threshold": None, "connect_timeout": 3, "tcp_user_timeout": 5000}


def _refuse_unfit(connection: Connection, place: str) -> None:
    if connection.info.server_version < MIN_VERSION * 10_000:
        raise DatabaseError(f"{place} is older than PostgreSQL {MIN_VERSION}; use a newer one")
    found = connection.execute("SELECT current_setting('synchronous_commit')").fetchone()
    if found == ("off",):
        raise DatabaseError(
            f"{place} answers before a change is on its disk (synchronous_commit is off), and could lose "
            "what was acknowledged; set it to on for this database"
        )
    number = _migrated(connection)
    if number < len(MIGRATIONS):
        raise DatabaseError(
            f"{place} has migration {number} of the tables, this release needs {len(MIGRATIONS)}; run "
            "`firstword store migrate`"
        )


def _migrated(connection: Connection) -> int:
    try:
        found = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(found[0]) if found else 0


@contextmanager
def _named_errors(place: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        said = _line(error)
        if UNVERIFIED in said:
            said += (
                "; the file that sslrootcert names must have the certificate of the authority that signed "
                "the database's (unnamed: PGSSLROOTCERT, or ~/.postgresql/root.crt), and none of them may "
                "have expired"
            )
        raise DatabaseError(f"{place} cannot be used: {said}") from error


@cache
def _translated(statement: str) -> str:
    """SQLite's placeholders to psycopg's. Our statements have neither in text, nor a cast."""
    return re.sub(r":(\w+)", r"%(\1)s", statement).replace("?", "%s")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
