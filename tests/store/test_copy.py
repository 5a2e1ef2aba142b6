"""`firstword store copy` takes all that is kept from files to PostgreSQL and back."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from firstword.app.cli import cli
from firstword.app.clients import Client
from firstword.app.database import DatabaseError
from firstword.app.postgresql import Postgres
from firstword.app.postgresql_schema import MIGRATIONS
from firstword.app.speakers.interface import RequestKey, SpeakerChange
from firstword.app.store_copy import Copied, copy_store
from firstword.app.surfaces.batches.store import NewItem
from firstword.app.telemetry.usage import UsedByClient
from tests.store.conftest import Replica
from tests.store.values import info, speaker
from tests.support.postgres import PostgresServer

ANNA = Client("anna", frozenset({"enrol"}))
KEY = RequestKey("key", b"digest")


def fill(replica: Replica) -> None:
    speakers, consents, batches = replica.speakers(), replica.consents(), replica.batches()
    for number in range(3):
        speakers.insert(speaker(f"s{number}", recording=bytes([0, 255, number]) * 1000))
    speakers.delete("s0")
    speakers.update("s1", SpeakerChange("Changed.", lexicon={"Nguyen": "win"}))
    private = speakers.insert(speaker(owner="anna"), KEY)
    consents.attach(consents.add("Consent", "en", b"I agree.", ANNA).id, info(private))
    batch = batches.add("anna", [NewItem(str(number), "wav", "{}") for number in range(3)], KEY)
    job, _ = batches.take(), batches.take()
    assert job is not None
    job.path.write_bytes(b"RIFF" * 500_000)  # two pieces
    batches.finish(job, 2_000_000, 2.0)
    assert batches.get(batch.id).num_running == 1
    replica.usage().add({"anna": UsedByClient(1, 2, 3.0)})


def content(replica: Replica) -> list[object]:
    """All that is kept, as a server sees it."""
    speakers, consents, batches, usage = (
        replica.speakers(),
        replica.consents(),
        replica.batches(8 << 20),
        replica.usage(),
    )
    (batch,) = batches.owned_by(None, 10)
    ((number, _, path),) = batches.files(batch.id)
    with batches.audio(batch.id, number, path) as at:
        audio = at.read_bytes()
    return [
        [speakers.read(row.id) for row in speakers.rows()],
        speakers.made_with("anna", KEY),
        consents.list(None, 10, ANNA),
        (batch, batches.items(batch.id, 0, 10), audio),
        batches.add("anna", [], KEY).id,
        (usage.read(), usage.value("secret"), usage.value("began_at")),
    ]


def test_copy_there_and_back_is_all_that_was_kept(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Replica(tmp_path / "first", None)
    fill(first)
    first.close()
    with pytest.raises(DatabaseError, match=r"no speakers\.sqlite3 is in it; give the data directory"):
        copy_store(str(tmp_path / "nothing"), url)

    assert copy_store(str(tmp_path / "first"), url) == Copied(3, 1, 1)
    shared = Replica(tmp_path / "shared", Postgres(url))
    there = content(shared)
    with pytest.raises(DatabaseError, match="1 servers use it"):
        copy_store(url, str(tmp_path / "second"))
    assert shared.speakers().insert(speaker("new")).id > 4
    shared.speakers().delete("new")
    shared.close()
    with pytest.raises(DatabaseError, match=r"has 3 rows of speakers already, and nothing was copied"):
        copy_store(str(tmp_path / "first"), url)

    monkeypatch.setenv("FIRSTWORD_STORE", url)  # with its password not on the command line
    told = CliRunner().invoke(cli, ["store", "copy", "FIRSTWORD_STORE", str(tmp_path / "second")])
    assert "copied 3 speakers, 1 consents and 1 batches" in told.output
    second = Replica(tmp_path / "second", None)
    assert content(second) == there
    second.close()
    again = Replica(tmp_path / "first", None)
    assert content(again) == there
    again.close()


def test_audio_that_was_lost_keeps_nothing_else_back(tmp_path: Path) -> None:
    first = Replica(tmp_path / "first", None)
    fill(first)
    first.close()
    (path,) = (tmp_path / "first").rglob("*.wav")
    path.unlink()
    assert copy_store(str(tmp_path / "first"), str(tmp_path / "second")) == Copied(3, 1, 1)
    second = Replica(tmp_path / "second", None)
    batches = second.batches(8 << 20)
    (batch,) = batches.owned_by(None, 10)
    ((number, _, path),) = batches.files(batch.id)
    with pytest.raises(FileNotFoundError), batches.audio(batch.id, number, path):
        pass
    second.close()


def test_migrate_makes_the_tables_once(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.new_database()
    with pytest.raises(DatabaseError, match=r"has migration 0 of the tables.*run `firstword store migrate`"):
        Postgres(url)
    monkeypatch.setenv("FIRSTWORD_STORE", url)
    told = [CliRunner().invoke(cli, ["store", "migrate"]) for _ in range(2)]
    assert [one.exit_code for one in told] == [0, 0]
    assert f"migrated from 0 to {len(MIGRATIONS)}" in told[0].output
    assert "has all migrations" in told[1].output
    Postgres(url).close()
