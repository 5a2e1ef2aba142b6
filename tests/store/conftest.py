"""One PostgreSQL for all tests here, and the stores as each server opens them, in either database."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from firstword.app.postgresql import Postgres, migrate
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.shared_store import SharedSpeakerStore
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.tables import SpeakerTables
from firstword.app.surfaces.batches.store import BatchStore
from firstword.app.telemetry.usage import UsageStore
from tests.support.postgres import PostgresServer, postgres_server

MB = 1 << 20


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def template(server: PostgresServer) -> str:
    """The name of a database with the tables and nothing in them."""
    url = server.new_database()
    migrate(url)
    return url.rpartition("/")[2]


@pytest.fixture
def url(server: PostgresServer, template: str) -> str:
    """The address of a database with the tables and nothing in them."""
    return server.new_database(template)


@dataclass
class Replica:
    """The stores of one server."""

    directory: Path
    postgres: Postgres | None  # None: files
    stack: ExitStack = field(default_factory=ExitStack)

    def speakers(self) -> SpeakerTables:
        store = (
            SpeakerStore(self.directory / "speakers.sqlite3")
            if self.postgres is None
            else SharedSpeakerStore(self.postgres)
        )
        self.stack.callback(store.close)
        return store

    def consents(self) -> ConsentStore:
        store = (
            ConsentStore.open(self.directory / "speakers.sqlite3")
            if self.postgres is None
            else ConsentStore(self.postgres.database("consents"))
        )
        self.stack.callback(store.close)
        return store

    def batches(self, max_bytes: int = MB) -> BatchStore:
        store = (
            BatchStore(self.directory / "batches", max_bytes)
            if self.postgres is None
            else BatchStore(
                self.directory / "batches",
                max_bytes,
                self.postgres.database("batches"),
                self.postgres.replica,
            )
        )
        self.stack.callback(store.close)
        return store

    def usage(self) -> UsageStore:
        store = (
            UsageStore.open(self.directory / "usage.sqlite3")
            if self.postgres is None
            else UsageStore(self.postgres.database("usage"))
        )
        self.stack.callback(store.close)
        return store

    def close(self) -> None:
        self.stack.close()
        if self.postgres is not None:
            self.postgres.close()


@dataclass
class Replicas:
    """Opens servers of one store."""

    directory: Path
    url: str | None
    opened: list[Replica] = field(default_factory=list)

    def open(self) -> Replica:
        postgres = None if self.url is None else Postgres(self.url)
        self.opened.append(Replica(self.directory, postgres))
        return self.opened[-1]

    def close(self) -> None:
        for replica in self.opened:
            replica.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Replicas]:
    url = request.getfixturevalue("url") if request.param == "postgresql" else None
    replicas = Replicas(tmp_path, url)
    yield replicas
    replicas.close()


@pytest.fixture
def shared(url: str, tmp_path: Path) -> Iterator[Replicas]:
    """Those of a PostgreSQL."""
    replicas = Replicas(tmp_path, url)
    yield replicas
    replicas.close()
