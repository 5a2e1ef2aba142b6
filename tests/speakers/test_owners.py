"""Whose a speaker is: who sees, speaks with, changes and takes away the speakers of others."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from firstword.app.clients import ANYBODY, STRANGER, Client
from firstword.app.database import DatabaseError
from firstword.app.errors import InvalidRequest, SpeakerExists, SpeakerNotFound, SpeakerNotYours
from firstword.app.speakers.interface import SpeakerChange
from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers

pytestmark = pytest.mark.anyio

ANNA = Client("anna", frozenset({"speak", "enrol"}), "private")
BOB = Client("bob", frozenset({"speak", "enrol"}))
ADMIN = Client("root", frozenset({"admin"}))

Use = Callable[[SpeakerRegistry, Client], Awaitable[Any]]
CHANGES: dict[str, Use] = {
    "update": lambda registry, client: registry.update("mia", SpeakerChange("Other."), client=client),
    "delete": lambda registry, client: registry.delete("mia", client=client),
    "export": lambda registry, client: registry.export("mia", client=client),
}


async def see(registry: SpeakerRegistry, client: Client) -> object:
    return registry.get("mia", client)


async def speak(registry: SpeakerRegistry, client: Client) -> object:
    return await registry.prepared("mia", client)


def names(registry: SpeakerRegistry, client: Client) -> list[str]:
    return [speaker.name for speaker in registry.list(client) if speaker.kind == "registered"]


async def test_private_speaker_is_there_for_its_owner_and_administrators_alone(servers: Servers) -> None:
    registry = await servers.open()
    info = await registry.enrol("mia", recording(), client=ANNA)
    assert (info.name, info.owner, info.access) == ("mia", "anna", "private")

    for client in (BOB, STRANGER):
        for use in (see, speak, *CHANGES.values()):
            with pytest.raises(SpeakerNotFound) as caught:
                await use(registry, client)
            assert caught.value.message == "no speaker is called 'mia'; list the speakers to see their names"
        assert names(registry, client) == []
    for client in (ANNA, ADMIN, ANYBODY):
        for use in (see, speak, CHANGES["export"]):
            await use(registry, client)
        assert names(registry, client) == ["mia"]

    await (await servers.open()).delete("mia", client=ANNA)
    assert names(registry, ANYBODY) == []


@pytest.mark.parametrize("change", CHANGES)
async def test_read_only_speaker_is_spoken_with_by_all_and_changed_by_its_owner(
    servers: Servers, change: str
) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), client=ANNA, access="read-only")
    await see(registry, BOB)
    await speak(registry, BOB)
    assert names(registry, STRANGER) == ["mia"]
    assert [[s.owner for s in registry.list(one) if s.name == "mia"] for one in (BOB, STRANGER)] == [
        ["anna"],
        [None],
    ]
    with pytest.raises(SpeakerNotYours, match="by its owner alone"):
        await CHANGES[change](registry, BOB)
    await CHANGES[change](registry, ANNA)


@pytest.mark.parametrize("change", CHANGES)
async def test_shared_speaker_is_everybodys(servers: Servers, change: str) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), client=BOB)
    await CHANGES[change](registry, ANNA)


async def test_each_owner_has_names_of_its_own(servers: Servers) -> None:
    registry = await servers.open()
    for client, words in ((ANNA, "Mine."), (BOB, "His.")):
        await registry.enrol("mia", recording(), words, client=client, access="private")
    await registry.enrol("mia", recording(), "Everybody's.", client=ADMIN)  # one name says nothing of another

    def transcript(client: Client) -> str:
        return registry.get("mia", client).prompt.transcript

    assert [transcript(client) for client in (ANNA, BOB, STRANGER)] == ["Mine.", "His.", "Everybody's."]
    assert (await registry.prepared("mia", BOB)).transcript == "His."
    with pytest.raises(SpeakerExists):
        await registry.enrol("mia", recording(), client=ANNA)
    with pytest.raises(SpeakerExists):
        await registry.enrol("mia", recording(), client=STRANGER)
    assert sorted(speaker.prompt.transcript for speaker in registry.list(ADMIN))[:3] == [
        "Everybody's.",
        "Hello.",
        "Hello.",
    ]
    await registry.delete("mia", client=ANNA)
    assert [transcript(client) for client in (ANNA, BOB)] == ["Everybody's.", "His."]


@pytest.mark.parametrize("use", [see, speak, *CHANGES.values()])
async def test_administrator_has_to_say_which_of_two_private_speakers(servers: Servers, use: Use) -> None:
    registry = await servers.open()
    for client in (ANNA, BOB):
        await registry.enrol("mia", recording(), client=client, access="private")
    with pytest.raises(InvalidRequest, match="private speaker 'mia': anna, bob; say whose with `owner`"):
        await use(registry, ADMIN)
    await registry.delete("mia", client=BOB)
    await use(registry, ADMIN)


async def test_bundle_goes_beside_a_private_speaker_of_the_same_name(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), "Mine.", client=ANNA)
    bundle = await registry.export("mia", client=ANNA)
    imported = await registry.import_bundle(bundle, client=BOB)
    assert (imported.owner, imported.access, imported.prompt.transcript) == ("bob", "shared", "Mine.")
    await registry.update("mia", SpeakerChange("His."), client=BOB)
    assert registry.get("mia", ANNA).prompt.transcript == "Mine."


@pytest.mark.parametrize("change", ["update", "delete"])
@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ([("mia", SpeakerChange(name="kim")), ("own", SpeakerChange(name="mia"))], SpeakerNotFound),
        ([("mia", SpeakerChange(access="read-only"))], SpeakerNotYours),
    ],
)
async def test_change_meets_only_the_speaker_that_was_looked_at_as_it_is_now(
    servers: Servers,
    change: str,
    meanwhile: list[tuple[str, SpeakerChange]],
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), "Hello.", client=ANNA, access="shared")
    await registry.enrol("own", recording(), "Hello.", client=ADMIN, access="read-only")
    other = SpeakerStore(servers.path)
    write = getattr(registry._store, change)

    def write_late(*given: Any) -> Any:
        for name, one in meanwhile:
            other.update(name, one)
        return write(*given)

    monkeypatch.setattr(registry._store, change, write_late)
    with pytest.raises(error, match="'mia'"):
        await CHANGES[change](registry, BOB)

    assert [row.prompt.transcript for row in other.rows()] == ["Hello.", "Hello."]
    other.close()


async def test_owner_says_who_else_uses_a_speaker(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), client=BOB)
    for client in (ANNA, STRANGER):
        for change in (SpeakerChange(access="private"), SpeakerChange(name="eva")):
            with pytest.raises(SpeakerNotYours, match="said by its owner"):
                await registry.update("mia", change, client=client)
    await registry.update("mia", SpeakerChange(name="mia"), client=ANNA)
    prepared = await registry.prepared("mia", BOB)
    hidden = await registry.update("mia", SpeakerChange("Hidden.", access="private"), client=BOB)
    assert (hidden.access, hidden.prompt.transcript, hidden.cached) == ("private", "Hidden.", True)
    assert (await registry.prepared("mia", BOB)).features is prepared.features
    assert names(registry, ANNA) == []

    await registry.enrol("mia", recording(), client=ANNA, access="shared")
    with pytest.raises(SpeakerExists, match="'mia' already"):
        await registry.update("mia", SpeakerChange(access="shared"), client=BOB)
    assert registry.get("mia", BOB).access == "private"
    await registry.delete("mia", client=ANNA)  # the shared one: nobody else sees Bob's
    assert (await registry.update("mia", SpeakerChange(access="read-only"), client=BOB)).access == "read-only"
    assert registry.get("mia", ANNA).owner == "bob"


async def test_speaker_without_an_owner_is_shared_by_an_administrator_alone(servers: Servers) -> None:
    registry = await servers.open()
    info = await registry.enrol("mia", recording(), client=ANYBODY)
    assert (info.owner, info.access) == (None, "shared")
    with pytest.raises(SpeakerNotYours):
        await registry.update("mia", SpeakerChange(access="private"), client=STRANGER)
    await registry.update("mia", SpeakerChange(access="private"), client=ADMIN)
    assert names(registry, STRANGER) == []
    with pytest.raises(SpeakerNotFound):
        registry.get("mia", STRANGER)


async def test_default_speaker_is_spoken_with_whoever_owns_it(servers: Servers) -> None:
    first = await servers.open()
    await first.enrol("mia", recording(), "Mine.", client=ANNA)
    registry = await servers.open(default_speaker="mia")
    assert (await registry.prepared(None, BOB)).transcript == "Mine."


async def test_private_name_is_not_told_by_the_probe(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), client=ANNA)
    await registry.enrol("eva", recording(), client=BOB)
    monkeypatch.setattr(SpeakerStore, "damaged", frozenset({1, 2}))
    assert registry.health().damaged == ("eva",)


async def test_store_of_the_release_before_opens_and_its_speakers_are_shared(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording(), "Hello.")
    await servers.stack.aclose()
    with closing(sqlite3.connect(servers.path)) as connection, connection:
        connection.execute("DROP TABLE owners")  # which is all that has come since
        connection.execute("PRAGMA user_version = 1")

    registry = await servers.open()

    assert (registry.get("mia", BOB).owner, registry.get("mia", BOB).access) == (None, "shared")
    await registry.enrol("eva", recording(), client=ANNA)
    with closing(sqlite3.connect(servers.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_store_of_a_later_release_stays_closed(tmp_path: Path) -> None:
    """As a release without owners does to this one's, where it would show private speakers to all."""
    path = tmp_path / "speakers.sqlite"
    SpeakerStore(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(DatabaseError, match="schema 3, this release knows 2"):
        SpeakerStore(path)
