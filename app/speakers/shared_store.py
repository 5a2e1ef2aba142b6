"""Durable store of speakers in a PostgreSQL that several servers share; who they are is held in memory."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firstword.app.database import DatabaseError
from firstword.app.errors import StoreFull, StoreUnavailable
from firstword.app.postgresql import Postgres
from firstword.app.speakers.consents import SWEEP
from firstword.app.speakers.tables import ROWS, RowCheck, SpeakerRow, SpeakerTables, allow_any, row_of

logger = logging.getLogger(__name__)


class SharedSpeakerStore(SpeakerTables):
    """What another server writes is seen when it is announced, and half a second later at the latest.

    `row` and `rows` are those of memory: without the database they are as they were.
    """

    def __init__(self, postgres: Postgres) -> None:
        """Raises DatabaseError and StoreUnavailable."""
        super().__init__(postgres.database("speakers"))
        self._known: dict[int, SpeakerRow] = {}  # replaced whole, so that it is read without the lock
        self._by_key: dict[str, SpeakerRow] = {}
        self._sorted: tuple[SpeakerRow, ...] = ()
        self._number = -1  # of the last change that was read
        self._refreshing = threading.Lock()
        self.refresh()
        self._unsubscribe = postgres.subscribe(lambda subjects: self.refresh())

    def close(self) -> None:
        self._unsubscribe()

    def row(self, key: str) -> SpeakerRow | None:
        return self._by_key.get(key)

    def rows(self) -> tuple[SpeakerRow, ...]:
        return self._sorted

    def delete(self, key: str, check: RowCheck = allow_any) -> SpeakerRow | None:
        with self._writing(erases=True):
            row = self._row(key)
            if row is not None:
                check(row)
                for table in ("speakers", "digests"):
                    self._database.execute(f"DELETE FROM {table} WHERE id = ?", (row.id,))
                self._delete_beside(row.id)
                self._database.execute(SWEEP)
        return row

    def refresh(self) -> None:
        """Read what was written since the last time. Raises as `read` does."""
        with self._refreshing:
            with self._database.reading():
                query = "SELECT number FROM changes WHERE subject = 'speakers'"
                (number,) = self._database.execute(query).fetchone()
                if number == self._number:
                    return
                found = self._database.execute(f"{ROWS} WHERE changed > ?", (self._number,)).fetchall()
                known = self._known | {row.id: row for row in map(row_of, found)}
                (count,) = self._database.execute("SELECT count(*) FROM speakers").fetchone()
                if count != len(known):
                    ids = {id for (id,) in self._database.execute("SELECT id FROM speakers").fetchall()}
                    known = {id: row for id, row in known.items() if id in ids}
            removed = self._known.keys() - known.keys()
            self._known = known
            self._by_key = {row.key: row for row in known.values()}
            self._sorted = tuple(sorted(known.values(), key=lambda row: row.position))
            self._number = number
        for id in removed:
            self.on_removed(id)

    @contextmanager
    def _writing(self, erases: bool = False) -> Iterator[None]:
        """Writers of all servers take turns: the number of a change is that of its commit."""
        with self._database.writing(erases):
            self._database.execute("UPDATE changes SET number = number + 1 WHERE subject = 'speakers'")
            yield
            self._database.announce()
        try:
            self.refresh()
        except (DatabaseError, StoreFull, StoreUnavailable) as error:  # it is written all the same
            logger.warning("the change is read later: %s", error)

    def _touch(self, id: int) -> None:
        self._database.execute(
            """UPDATE speakers SET changed = (SELECT number FROM changes WHERE subject = 'speakers')
            WHERE id = ?""",
            (id,),
        )

    def _known_rows(self) -> Iterator[SpeakerRow]:
        return iter(self._known.values())
