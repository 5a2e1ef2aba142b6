"""What the stores promise, in SQLite and in PostgreSQL alike."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from firstword.app.clients import ANYBODY, Client
from firstword.app.errors import (
    InvalidRequest,
    PathNotFound,
    SpeakerChanged,
    SpeakerExists,
    SpeakerNotYours,
    StoreFull,
)
from firstword.app.speakers.interface import RequestKey, SpeakerChange
from firstword.app.speakers.tables import SpeakerRow, StoredSpeaker
from firstword.app.surfaces.batches.store import NewItem
from firstword.app.telemetry.usage import UsedByClient
from tests.store.conftest import Replicas
from tests.store.values import info, seconds_until, speaker

ANNA, BEN = Client("anna", frozenset({"enrol"})), Client("ben", frozenset({"enrol"}))
FIRST, SECOND = RequestKey("key", b"first"), RequestKey("key", b"second")


def test_speaker_outlives_its_server(replicas: Replicas) -> None:
    one = replicas.open()
    row = one.speakers().insert(speaker())
    one.close()

    again = replicas.open().speakers()

    assert row == replace(speaker().row, id=row.id)
    assert again.rows() == (row,)
    assert again.row("mia") == row
    assert again.read(row.id) == replace(speaker(), row=row)


def test_other_server_sees_every_change_within_a_second(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()

    row = one.insert(speaker())
    assert seconds_until(lambda: other.row("mia") == row) < 1

    changed = other.update("mia", SpeakerChange("Good day.", lexicon={"a": "b"}))
    assert changed is not None
    now = changed.prompt.transcript, changed.version, changed.quality.transcript_fit
    assert now == ("Good day.", 2, None)
    assert seconds_until(lambda: one.row("mia") == changed) < 1

    other.delete("mia")
    assert seconds_until(lambda: one.rows() == ()) < 1
    assert one.read(row.id) is None


def test_name_is_taken_once_and_an_id_never_again(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    first = one.insert(speaker(recording=b"first"))
    with pytest.raises(SpeakerExists, match="'mia' already"):
        other.insert(speaker(recording=b"second"))
    found = other.read(first.id)
    assert found is not None
    assert found.recording == b"first"
    assert other.delete("mia") == first
    assert other.insert(speaker()).id > first.id


def test_of_many_who_want_one_name_one_gets_it(replicas: Replicas) -> None:
    stores = [replicas.open().speakers() for _ in range(3)]

    def register(number: int) -> bool:
        try:
            stores[number % 3].insert(speaker(recording=b"%d" % number))
        except SpeakerExists:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(register, range(6))) == 1


def test_change_of_a_version_that_is_past_is_refused(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    one.insert(speaker())
    assert one.update("mia", SpeakerChange("One.", version=1)) is not None
    with pytest.raises(SpeakerChanged, match="has version 2, and the change is one of version 1"):
        other.update("mia", SpeakerChange("Other.", version=1))
    changed = other.update("mia", SpeakerChange(language="", version=2))
    assert changed is not None
    assert (changed.prompt.transcript, changed.prompt.language, changed.version) == ("One.", None, 3)
    assert other.update("nobody", SpeakerChange("x")) is None


def test_access_moves_a_speaker_and_meets_a_name_that_is_taken(replicas: Replicas) -> None:
    store = replicas.open().speakers()
    store.insert(speaker())
    private = store.insert(speaker(owner="anna"))
    assert private.key == "anna/mia"
    with pytest.raises(SpeakerExists):
        store.update("anna/mia", SpeakerChange(access="shared"))
    store.delete("mia")
    moved = store.update("anna/mia", SpeakerChange(access="read-only"))
    assert moved is not None
    assert (store.row("mia"), store.row("anna/mia")) == (moved, None)


def test_renamed_speaker_is_seen_by_the_other_server(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    row = one.insert(speaker())
    seconds_until(lambda: other.row("mia") == row)
    renamed = one.update("mia", SpeakerChange(name="eva"))
    assert renamed == replace(row, name="eva", version=2)
    assert seconds_until(lambda: other.row("eva") == renamed) < 1
    assert (other.row("mia"), other.rows()) == (None, (renamed,))
    found = other.read(row.id)
    assert found is not None
    assert found.row == renamed
    assert other.insert(speaker()).id != row.id


def test_renamed_to_a_name_that_is_taken_a_speaker_keeps_its_own(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    rows = {one.insert(speaker(name)) for name in ("mia", "eva")}
    with pytest.raises(SpeakerExists, match="'eva' already"):
        other.update("mia", SpeakerChange("Lost.", name="eva"))
    assert set(one.rows()) == rows
    private = one.insert(speaker(owner="anna"))
    renamed = one.update("anna/mia", SpeakerChange(name="eva"))
    assert renamed is not None
    assert (renamed.key, renamed.id) == ("anna/eva", private.id)


def test_of_many_that_are_renamed_to_one_name_one_is(replicas: Replicas) -> None:
    stores = [replicas.open().speakers() for _ in range(3)]
    for number in range(6):
        stores[number % 3].insert(speaker(f"s{number}"))

    def rename(number: int) -> bool:
        try:
            return stores[number % 3].update(f"s{number}", SpeakerChange(name="same")) is not None
        except SpeakerExists:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(rename, range(6))) == 1
    seconds_until(lambda: stores[0].row("same") is not None)
    assert len(stores[0].rows()) == 6


def test_what_a_check_refuses_is_neither_changed_nor_deleted(replicas: Replicas) -> None:
    store = replicas.open().speakers()
    row = store.insert(speaker())

    def refuse(found: SpeakerRow) -> None:
        assert found == row
        raise SpeakerNotYours("it is not yours")

    for attempt in (
        lambda: store.update("mia", SpeakerChange("Other."), refuse),
        lambda: store.delete("mia", refuse),
    ):
        with pytest.raises(SpeakerNotYours):
            attempt()
    assert store.rows() == (row,)
    assert store.read(row.id) == replace(speaker(), row=row)


def test_features_of_another_checkpoint_replace_what_was_read(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    row = one.insert(speaker())
    newer = replace(row, prompt=replace(row.prompt, num_tokens=63), fingerprint="checkpoint-2")
    one.replace_features(StoredSpeaker(newer, b"sound", b"new"))
    seconds_until(lambda: other.row("mia") == newer)
    found = other.read(row.id)
    assert found == StoredSpeaker(newer, b"sound", b"new")
    one.delete("mia")
    one.replace_features(StoredSpeaker(newer, b"sound", b"newer"))
    assert one.rows() == ()


def test_request_that_is_repeated_makes_one_speaker(replicas: Replicas) -> None:
    one, other = replicas.open().speakers(), replicas.open().speakers()
    row = one.insert(speaker(owner="anna"), FIRST)
    assert other.insert(speaker(owner="anna"), FIRST) == row
    assert other.made_with("anna", FIRST) == row
    assert other.made_with("ben", FIRST) is None
    with pytest.raises(InvalidRequest, match="'key' came with another request before"):
        other.insert(speaker("eva", owner="anna"), SECOND)
    other.delete("anna/mia")
    assert one.made_with("anna", FIRST) is None


def test_consent_is_its_owners_and_goes_with_its_last_speaker(replicas: Replicas) -> None:
    one, other = replicas.open(), replicas.open()
    speakers, consents = one.speakers(), other.consents()
    made = [consents.add(f"Consent {number}", "en", b"I agree.", ANNA) for number in range(3)]
    assert consents.list(None, 2, ANNA) == ([made[2], made[1]], True)
    assert consents.list(made[1].id, 2, ANNA) == ([made[0]], False)
    assert consents.list(None, 10, BEN) == ([], False)
    assert len(consents.list(None, 10, ANYBODY)[0]) == 3
    with pytest.raises(PathNotFound):
        consents.get(made[0].id, BEN)
    assert consents.rename(made[0].id, "Other", ANNA).name == "Other"

    for name in ("mia", "eva"):
        consents.attach(made[0].id, info(speakers.insert(speaker(name))))
    with pytest.raises(InvalidRequest, match="delete the voice"):
        consents.delete(made[0].id, ANNA)
    speakers.delete("mia")
    assert consents.get(made[0].id, ANNA)
    speakers.delete("eva")
    with pytest.raises(PathNotFound):
        consents.get(made[0].id, ANNA)
    consents.delete(made[1].id, ANNA)
    assert consents.list(None, 10, ANNA)[0] == [made[2]]


def test_batches_take_turns_and_their_audio_is_kept(replicas: Replicas) -> None:
    store = replicas.open().batches()
    book = store.add("anna", [NewItem(str(n), "wav", "{}") for n in range(3)])
    short = store.add("ben", [NewItem("1", "flac", "{}")])
    jobs = [store.take() for _ in range(5)]
    assert [job and (job.batch, job.number) for job in jobs] == [
        (book.id, 1),
        (short.id, 1),
        (book.id, 2),
        (book.id, 3),
        None,
    ]
    first, only, second, third = (job for job in jobs if job is not None)
    first.path.write_bytes(b"RIFF" * 1000)
    assert store.finish(first, 4000, 1.5)
    store.fail(only, "code", "message")
    assert store.release(second)
    store.cancel(book.id)
    assert not store.finish(third, 10, 1.0)

    found = store.get(book.id)
    assert (found.progress, found.num_done, found.num_bytes, found.audio_s) == ("cancelled", 1, 4000, 1.5)
    assert [item.state for item in store.items(book.id, 0, 10)] == ["done", "cancelled", "cancelled"]
    assert [item.message for item in store.items(short.id, 0, 10)] == ["message"]
    assert [batch.id for batch in store.owned_by(None, 10)] == [short.id, book.id]
    assert [batch.id for batch in store.owned_by("anna", 10)] == [book.id]
    ((number, name, path),) = store.files(book.id)
    assert (number, name) == (1, "0.wav")
    with store.audio(book.id, number, path) as at:
        assert at.read_bytes() == b"RIFF" * 1000
    store.delete(book.id)
    store.remove_files(book.id)
    with pytest.raises(PathNotFound):
        store.get(book.id)


def test_a_batch_that_one_server_cancels_or_deletes_is_unwanted_at_the_other(shared: Replicas) -> None:
    one, other = shared.open(), shared.open()
    mine, theirs = one.batches(), other.batches()
    heard = threading.Event()
    assert one.postgres is not None
    one.postgres.subscribe(lambda subjects: heard.set() if "batches" in subjects else None)
    batches = [mine.add("anna", [NewItem(str(n), "wav", "{}") for n in range(45)]) for _ in range(2)]
    jobs = [mine.take(), mine.take()]
    spoken = [(job.batch, job.number) for job in jobs if job is not None]
    assert mine.unwanted(spoken) == []
    heard.clear()
    theirs.cancel(batches[0].id)
    assert heard.wait(5)
    assert mine.unwanted(spoken) == [(batches[0].id, 1)]
    theirs.delete(batches[1].id)  # in slices
    assert mine.unwanted(spoken) == spoken
    assert [batch.id for batch in mine.owned_by(None, 10)] == [batches[0].id]


def test_batch_has_its_room_and_a_repeated_request_makes_one(replicas: Replicas) -> None:
    store = replicas.open().batches(max_bytes=1000)
    item = NewItem("1", "wav", "x" * 500)
    made = store.add("anna", [item], FIRST)
    assert store.add("anna", [item], FIRST).id == made.id
    with pytest.raises(InvalidRequest, match="another request before"):
        store.add("anna", [item], SECOND)
    with pytest.raises(StoreFull, match="download and delete finished ones"):
        store.add("ben", [NewItem("1", "wav", "x" * 501)], FIRST)
    store.delete(made.id)
    assert store.add("anna", [item], SECOND).id != made.id


def test_a_client_with_its_part_of_the_disk_leaves_the_rest_to_others(replicas: Replicas) -> None:
    store = replicas.open().batches(max_bytes=1000)
    item = NewItem("1", "wav", "{}")
    with pytest.raises(StoreFull, match="batches of this key take 0 MB"):
        store.add("anna", [NewItem("1", "wav", "x" * 501)])
    first = store.add("anna", [item])
    store.add("anna", [item])
    job = store.take()
    assert job is not None
    store.finish(job, 600, 1.0)
    with pytest.raises(StoreFull, match="download and delete finished ones"):
        store.add("anna", [item])
    store.add("ben", [item])
    job = store.take()
    assert job is not None
    assert job.owner == "ben"  # before what anna has waiting
    with pytest.raises(StoreFull):
        store.take()
    store.delete(first.id)
    job = store.take()
    assert job is not None
    assert job.owner == "anna"


def test_an_item_that_lacks_room_lets_those_of_others_be_spoken(replicas: Replicas) -> None:
    store = replicas.open().batches(max_bytes=1000)
    store.add("anna", [NewItem("1", "wav", "{}"), NewItem("2", "wav", "{}")])
    store.add("ben", [NewItem("1", "wav", "{}"), NewItem("2", "wav", "{}")])
    for num_bytes in (490, 10):
        job = store.take()
        assert job is not None
        store.finish(job, num_bytes, 1.0)
    large = store.take()
    assert large is not None
    assert large.owner == "anna"
    with pytest.raises(StoreFull):
        store.wrote(large, 505)
    store.stopped_writing(large)
    store.release(large)
    job = store.take()
    assert job is not None
    assert job.owner == "ben"
    store.finish(job, 10, 1.0)
    with pytest.raises(StoreFull):
        store.take()


def test_who_has_the_only_key_may_have_all_of_the_disk(replicas: Replicas) -> None:
    store = replicas.open().batches(max_bytes=1000)
    store.has_several_owners = lambda: False
    for _ in range(2):
        store.add("anna", [NewItem("1", "wav", "{}")])
        job = store.take()
        assert job is not None
        store.finish(job, 400, 1.0)
    assert store.add("anna", [NewItem("1", "wav", "{}")]).num_queued == 1
    assert store.take() is not None


def test_usage_of_all_servers_is_one_sum_and_the_secret_is_shared(replicas: Replicas) -> None:
    one, other = replicas.open().usage(), replicas.open().usage()
    one.add({"anna": UsedByClient(1, 10, 1.5)})
    other.add({"anna": UsedByClient(2, 5, 0.5), "ben": UsedByClient(1, 1, 1.0)})
    assert one.read() == {"anna": UsedByClient(3, 15, 2.0), "ben": UsedByClient(1, 1, 1.0)}
    assert one.value("secret") == other.value("secret")
    assert len(one.value("secret")) == 32
    assert one.value("began_at") == other.value("began_at")
