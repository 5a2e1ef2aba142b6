"""What servers that share a PostgreSQL do while it, or one of them, is dead, silent or unfit."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from firstword.app import postgresql as module
from firstword.app.database import DatabaseError
from firstword.app.errors import StoreUnavailable
from firstword.app.postgresql import Postgres, migrate
from firstword.app.surfaces.batches.store import NewItem
from tests.store.conftest import Replicas
from tests.store.values import seconds_until, speaker
from tests.support.postgres import PostgresServer, postgres_server

ITEM = NewItem("1", "wav", "{}")


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that tests kill."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def killed(own_server: PostgresServer, tmp_path: Path) -> Iterator[Replicas]:
    url = own_server.new_database()
    migrate(url)
    replicas = Replicas(tmp_path, url)
    yield replicas
    replicas.close()


def test_without_the_database_the_known_are_known_and_writes_are_refused(
    killed: Replicas, own_server: PostgresServer
) -> None:
    replica = killed.open()
    speakers, batches = replica.speakers(), replica.batches()
    row = speakers.insert(speaker())
    own_server.kill()
    for write in (
        lambda: speakers.insert(speaker("eva")),
        lambda: speakers.delete("mia"),
        lambda: speakers.read(row.id),
        lambda: batches.add("", [ITEM]),
    ):
        began_at = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"the server's database of .* cannot be"):
            write()
        assert time.monotonic() - began_at < 1
    assert (speakers.row("mia"), speakers.rows()) == (row, (row,))
    assert speakers.is_in_place()
    assert batches.is_in_place()
    own_server.start()
    assert seconds_until(lambda: replica.postgres is not None and replica.postgres.is_up) < 5
    assert speakers.insert(speaker("eva")).id > row.id
    assert batches.add("", [ITEM]).num_items == 1


def test_database_that_is_silent_is_given_up_and_taken_again(
    killed: Replicas, own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENCE_S", 0.7)
    replica = killed.open()
    speakers = replica.speakers()
    own_server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            speakers.insert(speaker())
        seconds_until(lambda: replica.postgres is not None and not replica.postgres.is_up)
    finally:
        own_server.signal(signal.SIGCONT)
    seconds_until(lambda: replica.postgres is not None and replica.postgres.is_up)
    speakers.insert(speaker("eva"))
    assert speakers.row("eva") is not None


def test_what_was_acknowledged_outlives_the_database_and_nothing_is_half(
    killed: Replicas, own_server: PostgresServer
) -> None:
    acknowledged: dict[str, bytes] = {}
    store = killed.open().speakers()
    is_over = threading.Event()

    def register(thread: int) -> None:
        number = 0
        while not is_over.is_set():
            name, recording = f"s{thread}-{number}", bytes([thread, number % 256]) * 20_000
            number += 1
            try:
                store.insert(speaker(name, recording))
            except StoreUnavailable:
                time.sleep(0.01)
                continue
            acknowledged[name] = recording

    with ThreadPoolExecutor(3) as pool:
        for thread in range(3):
            pool.submit(register, thread)
        try:
            for _ in range(3):
                enough = len(acknowledged) + 5
                seconds_until(lambda enough=enough: len(acknowledged) >= enough)  # type: ignore[misc]
                own_server.kill()
                own_server.start()
        finally:
            is_over.set()
    found = killed.open().speakers()
    for row in found.rows():
        stored = found.read(row.id)
        assert stored is not None
        assert stored.recording == acknowledged.get(row.name, stored.recording)
    assert {row.name for row in found.rows()} >= acknowledged.keys()


WRITER = """
import sys
from firstword.app.postgresql import Postgres
from firstword.app.speakers.shared_store import SharedSpeakerStore
from tests.store.values import speaker
store = SharedSpeakerStore(Postgres(sys.argv[1]))
for number in range(100_000):
    store.insert(speaker(f"s{number}", b"%d" % number * 5000))
    print(f"s{number}", flush=True)
"""


def test_what_was_acknowledged_outlives_the_server(shared: Replicas) -> None:
    assert shared.url is not None
    command = [sys.executable, "-c", WRITER, shared.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(20)]
        process.kill()
        told += process.stdout.read().split("\n")[:-1]
    store = shared.open().speakers()
    assert {row.name for row in store.rows()} >= set(told)
    assert all(store.read(row.id) is not None for row in store.rows())


def test_items_are_claimed_once_and_those_of_a_dead_server_return(
    shared: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 60.0)  # none of them says again that it lives
    one, other = shared.open(), shared.open()
    first, second = one.batches(), other.batches()
    made = first.add("", [NewItem(str(number), "wav", "{}") for number in range(30)])
    with ThreadPoolExecutor(6) as pool:
        jobs = list(pool.map(lambda number: (first, second)[number % 2].take(), range(30)))
    assert sorted(job.number for job in jobs if job) == list(range(1, 31))
    assert second.take() is None

    assert other.postgres is not None
    job = next(job for number, job in enumerate(jobs) if job and number % 2)
    with psycopg.connect(shared.url or "", autocommit=True) as connection:
        connection.execute("DELETE FROM replicas WHERE name = %s", (other.postgres.replica,))
    returned = first.take()
    assert returned is not None
    assert returned.number in {job.number for number, job in enumerate(jobs) if job and number % 2}
    job.path.write_bytes(b"late")
    assert not second.finish(job, 4, 1.0)
    returned.path.write_bytes(b"right")
    assert first.finish(returned, 5, 1.0)
    ((number, _, path),) = first.files(made.id)
    for store in (first, second):
        with store.audio(made.id, number, path) as at:
            assert at.read_bytes() == b"right"


def test_server_that_says_nothing_is_forgotten(shared: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.05)
    monkeypatch.setattr(module, "DEAD_AFTER_S", 2.0)
    one = shared.open().postgres
    assert one is not None
    with psycopg.connect(shared.url or "", autocommit=True) as connection:
        connection.execute("INSERT INTO replicas VALUES ('other', clock_timestamp())")
        seconds_until(lambda: one.num_replicas == 2)
        seconds_until(lambda: one.num_replicas == 1)


def test_deletion_is_heard_of_where_the_speaker_is_in_memory(shared: Replicas) -> None:
    one, other = shared.open().speakers(), shared.open().speakers()
    removed: list[int] = []
    other.on_removed = removed.append
    row = one.insert(speaker())
    seconds_until(lambda: other.row("mia") == row)
    one.delete("mia")
    assert seconds_until(lambda: removed == [row.id]) < 1


def test_changes_are_seen_without_notices(shared: Replicas) -> None:
    """As where a pooler between lets none through."""
    other = shared.open().speakers()
    assert shared.url is not None
    with psycopg.connect(shared.url, autocommit=True) as connection:
        connection.execute(
            """INSERT INTO speakers (name, created_at, transcript, duration_s, quality, prompt_tokens,
            fingerprint, recording, features, changed) VALUES ('mia', '', '', 1, '{"snr_db": 1, "clipping": 0,
            "speech_ratio": 1}', 1, '', '', '', 2)"""
        )
        connection.execute("UPDATE changes SET number = 2")
    assert seconds_until(lambda: other.row("mia") is not None) < 1


def test_database_that_would_lose_what_was_acknowledged_is_refused(server: PostgresServer, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    with pytest.raises(DatabaseError, match="synchronous_commit is off"):
        Postgres(url)


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("postgresql://firstword:hidden@127.0.0.1:1/firstword", r"127\.0\.0\.1:1/firstword cannot be used: "),
        ("postgresql://firstword:hidden@127.0.0.1/x?nonsense=1", "is no address of PostgreSQL: "),
    ],
)
def test_address_without_a_database_is_said_without_its_password(store: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as raised:
        Postgres(store)
    assert "hidden" not in str(raised.value)
