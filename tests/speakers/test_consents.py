"""Consents are kept with their speakers, go with the last of them, and are bounded."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from firstword.app.clients import ANYBODY, Client
from firstword.app.database import Database
from firstword.app.errors import InvalidRequest, PathNotFound
from firstword.app.speakers import consents as module
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.interface import KnownSpeaker, PromptInfo
from firstword.app.speakers.store_file import SPEAKERS

ANNA, BOB = Client("anna", frozenset({"enrol"})), Client("bob", frozenset({"enrol"}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "speakers.sqlite"


@pytest.fixture
def consents(path: Path) -> Iterator[ConsentStore]:
    with closing(ConsentStore.open(path)) as store:
        yield store


def change(path: Path, statement: str) -> None:
    """Another process writes the speakers."""
    with closing(Database(path, SPEAKERS)) as database, database.writing():
        database.execute(statement)


def add_speaker(path: Path, name: str) -> KnownSpeaker:
    """Register a speaker, private to who stands before a slash."""
    change(
        path,
        f"""INSERT INTO speakers (name, created_at, transcript, duration_s, quality, prompt_tokens,
        fingerprint, recording, features) VALUES ('{name}', '', '', 1, '{{}}', 1, '', x'00', x'00')""",
    )
    owner, is_private, name = name.rpartition("/")
    return KnownSpeaker(
        name,
        "registered",
        "",
        PromptInfo(1.0, "", None, 1),
        None,
        cached=False,
        owner=owner or None,
        access="private" if is_private else "shared",
    )


def kept(consents: ConsentStore, client: Client = ANYBODY) -> list[str]:
    return [consent.name for consent in consents.list(None, 100, client)[0]]


def test_consent_goes_with_its_last_speaker(path: Path, consents: ConsentStore) -> None:
    both, none = consents.add("both", "en-US", b"yes", ANYBODY), consents.add("none", "de", b"ja", ANYBODY)
    for name in ("mia", "eva"):
        consents.attach(both.id, add_speaker(path, name))
    with pytest.raises(InvalidRequest, match="a voice was created with consent"):
        consents.delete(both.id, ANYBODY)
    change(path, "DELETE FROM speakers WHERE name = 'mia'")
    assert kept(consents) == ["none", "both"]
    change(path, "DELETE FROM speakers WHERE name = 'eva'")
    assert kept(consents) == ["none"]
    consents.delete(none.id, ANYBODY)
    assert kept(consents) == []


def test_consent_of_a_speaker_that_a_rebuilt_file_lost_goes_at_the_next_start(path: Path) -> None:
    with closing(ConsentStore.open(path)) as consents:
        lost = consents.add("lost", "en", b"yes", ANYBODY)
        consents.attach(lost.id, add_speaker(path, "mia"))
    change(path, "DROP TRIGGER consented_speaker_deleted")
    change(path, "DELETE FROM speakers")
    with closing(ConsentStore.open(path)) as consents:
        assert kept(consents) == []


def test_pages_hold_every_consent_once(consents: ConsentStore) -> None:
    for number in range(5):
        consents.add(str(number), "en", b"yes", ANYBODY)
    found, after, has_more = [], None, True
    while has_more:
        page, has_more = consents.list(after, 2, ANYBODY)
        found += [consent.name for consent in page]
        after = page[-1].id
    assert found == ["4", "3", "2", "1", "0"]
    assert consents.rename(after or "", "first", ANYBODY).name == "first"
    for unknown in (
        lambda: consents.list("x", 1, ANYBODY),
        lambda: consents.rename("x", "y", ANYBODY),
        lambda: consents.get("x", ANYBODY),
    ):
        with pytest.raises(PathNotFound, match="there is no consent 'x'"):
            unknown()


def test_consents_without_a_speaker_are_bounded(
    consents: ConsentStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNUSED_CONSENTS", 1)
    first = consents.add("one", "en", b"yes", ANYBODY)
    with pytest.raises(InvalidRequest, match="belong to no voice"):
        consents.add("two", "en", b"yes", ANYBODY)
    consents.attach(first.id, add_speaker(path, "mia"))
    consents.add("two", "en", b"yes", ANYBODY)
    with pytest.raises(InvalidRequest, match="a name of 0 characters"):
        consents.add("", "en", b"yes", ANYBODY)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM consents").fetchone() == (2,)


def test_consent_is_its_owners_and_administrators_alone(
    path: Path, consents: ConsentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers = consents.add("hers", "en", b"yes", ANNA)
    nobodys = consents.add("nobody's", "en", b"yes", Client())
    assert (kept(consents, ANNA), kept(consents, BOB), kept(consents)) == (
        ["hers"],
        [],
        ["nobody's", "hers"],
    )
    for client, id in ((BOB, hers.id), (ANNA, nobodys.id), (Client(), nobodys.id)):
        for attempt in (
            lambda client=client, id=id: consents.get(id, client),
            lambda client=client, id=id: consents.list(id, 1, client),
            lambda client=client, id=id: consents.rename(id, "other", client),
            lambda client=client, id=id: consents.delete(id, client),
        ):
            with pytest.raises(PathNotFound):
                attempt()
    monkeypatch.setattr(module, "MAX_UNUSED_CONSENTS", 1)
    consents.add("his", "en", b"yes", BOB)  # her one does not stop him
    with pytest.raises(InvalidRequest, match="1 consent recordings belong to no voice"):
        consents.add("hers", "en", b"yes", ANNA)
    assert consents.rename(hers.id, "new", ANNA).owner == "anna"


def test_consent_goes_with_the_very_speaker_it_was_given_for(path: Path, consents: ConsentStore) -> None:
    """A name is no pattern, and another owner's private speaker has the same one."""
    consent = consents.add("hers", "en", b"yes", ANNA)
    given = add_speaker(path, "anna/m_a")
    add_speaker(path, "bob/m_a")
    add_speaker(path, "bob/mia")
    consents.attach(consent.id, given)
    change(path, "DELETE FROM speakers WHERE name LIKE 'bob/%'")
    assert kept(consents) == ["hers"]
    change(path, "DELETE FROM speakers WHERE name = 'anna/m_a'")
    assert kept(consents) == []


def test_consents_of_a_release_without_owners_are_administrators_alone(path: Path) -> None:
    with closing(ConsentStore.open(path)) as consents:
        consents.add("old", "en", b"yes", ANNA)
    with closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE consents DROP COLUMN owner")
        old.commit()
    with closing(ConsentStore.open(path)) as consents:
        assert (kept(consents), kept(consents, ANNA)) == (["old"], [])
        consents.add("new", "en", b"yes", ANNA)
        assert kept(consents, ANNA) == ["new"]
