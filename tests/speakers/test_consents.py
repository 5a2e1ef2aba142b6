"""Consents are kept with their speakers, go with the last of them, and are bounded."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from firstword.app.errors import InvalidRequest, PathNotFound
from firstword.app.speakers import consents as module
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.store_file import open_store_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "speakers.sqlite"


@pytest.fixture
def consents(path: Path) -> Iterator[ConsentStore]:
    with closing(ConsentStore.open(path)) as store:
        yield store


def change(path: Path, statement: str) -> None:
    """Another process writes the speakers."""
    with closing(open_store_file(path, 5.0)) as connection, connection:
        connection.execute(statement)


def add_speaker(path: Path, name: str) -> None:
    change(
        path,
        f"""INSERT INTO speakers (name, created_at, transcript, duration_s, quality, prompt_tokens,
        fingerprint, recording, features) VALUES ('{name}', '', '', 1, '{{}}', 1, '', x'00', x'00')""",
    )


def kept(consents: ConsentStore) -> list[str]:
    return [consent.name for consent in consents.list(None, 100)[0]]


def test_consent_goes_with_its_last_speaker(path: Path, consents: ConsentStore) -> None:
    both, none = consents.add("both", "en-US", b"yes"), consents.add("none", "de", b"ja")
    for name in ("mia", "eva"):
        add_speaker(path, name)
        consents.attach(both.id, name)
    with pytest.raises(InvalidRequest, match="a voice was created with consent"):
        consents.delete(both.id)
    change(path, "DELETE FROM speakers WHERE name = 'mia'")
    assert kept(consents) == ["none", "both"]
    change(path, "DELETE FROM speakers WHERE name = 'eva'")
    assert kept(consents) == ["none"]
    consents.delete(none.id)
    assert kept(consents) == []


def test_consent_of_a_speaker_that_a_rebuilt_file_lost_goes_at_the_next_start(path: Path) -> None:
    with closing(ConsentStore.open(path)) as consents:
        lost = consents.add("lost", "en", b"yes")
        add_speaker(path, "mia")
        consents.attach(lost.id, "mia")
    change(path, "DROP TRIGGER consented_speaker_deleted")
    change(path, "DELETE FROM speakers")
    with closing(ConsentStore.open(path)) as consents:
        assert kept(consents) == []


def test_pages_hold_every_consent_once(consents: ConsentStore) -> None:
    for number in range(5):
        consents.add(str(number), "en", b"yes")
    found, after, has_more = [], None, True
    while has_more:
        page, has_more = consents.list(after, 2)
        found += [consent.name for consent in page]
        after = page[-1].id
    assert found == ["4", "3", "2", "1", "0"]
    assert consents.rename(after or "", "first").name == "first"
    for unknown in (
        lambda: consents.list("x", 1),
        lambda: consents.rename("x", "y"),
        lambda: consents.get("x"),
    ):
        with pytest.raises(PathNotFound, match="there is no consent 'x'"):
            unknown()


def test_consents_without_a_speaker_are_bounded(
    consents: ConsentStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNUSED_CONSENTS", 1)
    first = consents.add("one", "en", b"yes")
    with pytest.raises(InvalidRequest, match="belong to no voice"):
        consents.add("two", "en", b"yes")
    add_speaker(path, "mia")
    consents.attach(first.id, "mia")
    consents.add("two", "en", b"yes")
    with pytest.raises(InvalidRequest, match="a name of 0 characters"):
        consents.add("", "en", b"yes")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM consents").fetchone() == (2,)
