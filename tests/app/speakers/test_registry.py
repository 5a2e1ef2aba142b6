import asyncio
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from app.engine.interface import (
    AudioTooLong,
    BadAudio,
    InvalidRequest,
    Overloaded,
    SpeakerExists,
    SpeakerNotFound,
)
from tests.app.speakers.fakes import STATE_BYTES, FakeEnroller, builtin
from tests.app.speakers.house import House, hold_work, work_began
from tests.app.speakers.recordings import RATE_HZ, recording, voice, wav
from tests.app.speakers.test_fields import BAD_NAMES

pytestmark = pytest.mark.anyio


async def test_the_built_in_speakers_are_there_and_warm(house: House) -> None:
    registry = await house.open()

    ann, bob = registry.list()

    assert (ann.name, bob.name, ann.kind, ann.cached, ann.quality) == ("ann", "bob", "builtin", True, None)
    assert (ann.prompt_tokens, ann.duration_s, ann.transcript) == (50, 2.0, "Hello.")
    assert registry.get("bob") == bob
    assert registry.default_speaker == "ann"
    assert (await registry.prepared()).speaker is house.enroller.builtin["ann"].speaker
    assert (house.hits, house.misses) == (1, 0)


async def test_an_enrolled_speaker_is_listed_warm_and_durable(house: House) -> None:
    registry = await house.open()

    info = await registry.enrol("mia", recording(2.0), "  Grüße,\n你好 👋🏽 ", "de")

    assert (info.name, info.kind, info.cached) == ("mia", "registered", True)
    assert (info.transcript, info.language) == ("Grüße, 你好 👋🏽", "de")
    assert (info.duration_s, info.prompt_tokens) == (2.0, 50)
    assert info.quality is not None
    assert info.quality.snr_db > 30
    assert info.quality.warnings == ("short: 2.0 s; 3 to 10 s give a closer likeness",)
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob", "mia"]
    prepares = house.enroller.prepares
    assert (await registry.prepared("mia")).speaker.prompt_text == "Grüße, 你好 👋🏽"
    assert house.enroller.prepares == prepares

    later = await house.open()
    assert later.get("mia") == replace(info, cached=False)


async def test_a_stored_speaker_is_prepared_from_its_features_when_it_is_first_wanted(house: House) -> None:
    await (await house.open()).enrol("mia", recording(), "Hello.")
    enroller = FakeEnroller()
    registry = await house.open(enroller)
    house.hits = house.misses = 0

    first = await registry.prepared("mia")
    second = await registry.prepared("mia")

    assert first is second
    assert first.speaker.prompt_text == "Hello."
    assert (house.hits, house.misses) == (1, 1)
    assert enroller.reads == 0
    assert registry.get("mia").cached


async def test_a_taken_name_is_refused_before_any_work(house: House) -> None:
    registry = await house.open()
    await registry.enrol("mia", recording())
    reads = house.enroller.reads

    with pytest.raises(SpeakerExists, match="'mia' already"):
        await registry.enrol("mia", recording())
    with pytest.raises(SpeakerExists, match="'ann' is a built-in speaker"):
        await registry.enrol("ann", recording())

    assert house.enroller.reads == reads


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:12]))
async def test_name_tricks_end_at_the_door(house: House, name: str) -> None:
    registry = await house.open()

    for attempt in (partial(registry.enrol, name), partial(registry.import_bundle, name=name)):
        with pytest.raises(InvalidRequest) as caught:
            await attempt(b"anything")
        assert caught.value.param == "name"
    for lookup in (registry.update, registry.delete, registry.export, registry.prepared):
        with pytest.raises(SpeakerNotFound) as missed:
            await lookup(name)
        assert missed.value.message.isascii()
        assert len(missed.value.message) < 1000
    with pytest.raises(SpeakerNotFound):
        registry.get(name)


@pytest.mark.parametrize(
    ("field_name", "values"),
    [("transcript", {"transcript": "x" * 1001}), ("language", {"language": "klingon!"})],
)
async def test_bad_fields_are_refused_when_enrolling_and_updating(
    house: House, field_name: str, values: dict[str, str]
) -> None:
    registry = await house.open()
    await registry.enrol("mia", recording())

    for attempt in (partial(registry.enrol, "eva", recording()), partial(registry.update, "mia")):
        with pytest.raises(InvalidRequest) as caught:
            await attempt(**values)
        assert caught.value.param == field_name


@pytest.mark.parametrize(
    ("upload", "error"),
    [
        (b"", BadAudio),
        (b"not audio at all", BadAudio),
        (wav(np.zeros(2 * RATE_HZ, np.float32)), BadAudio),
        (wav(voice(31.0)), AudioTooLong),
    ],
)
async def test_a_bad_recording_leaves_nothing(house: House, upload: bytes, error: type[BadAudio]) -> None:
    registry = await house.open()

    with pytest.raises(error):
        await registry.enrol("mia", upload)

    assert len(registry.list()) == 2
    await registry.enrol("mia", recording())


async def test_a_speaker_that_cannot_be_prepared_is_not_stored(house: House) -> None:
    registry = await house.open()
    house.enroller.failure = RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        await registry.enrol("mia", recording())

    assert len(registry.list()) == 2


async def test_a_client_who_leaves_leaves_no_speaker(house: House) -> None:
    registry = await house.open()
    hold_work(house.enroller)
    leaving = asyncio.create_task(registry.enrol("mia", recording()))
    await work_began(house.enroller)
    queued = asyncio.create_task(registry.enrol("eva", recording()))
    await asyncio.wait([queued], timeout=0)

    leaving.cancel()
    queued.cancel()
    await asyncio.wait([leaving, queued])
    house.enroller.gate.set()

    await registry.enrol("kim", recording())  # runs after what was left
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob", "kim"]
    assert house.enroller.reads == 2  # eva's work never began


async def test_work_is_done_one_after_the_other(house: House) -> None:
    registry = await house.open()
    hold_work(house.enroller)
    enrolments = [asyncio.create_task(registry.enrol(f"s{n}", recording(seed=n))) for n in range(3)]
    await work_began(house.enroller)

    assert not house.enroller.began.acquire(blocking=False)

    house.enroller.gate.set()
    await asyncio.gather(*enrolments)


async def test_only_so_many_recordings_wait(house: House) -> None:
    registry = await house.open(max_waiting=2)
    hold_work(house.enroller)
    waiting = [asyncio.create_task(registry.enrol(f"s{n}", recording())) for n in range(2)]
    await work_began(house.enroller)

    with pytest.raises(Overloaded, match="2 recordings wait") as caught:
        await registry.enrol("one-more", recording())
    assert caught.value.retry_after_s >= 1

    house.enroller.gate.set()
    await asyncio.gather(*waiting)
    await registry.enrol("one-more", recording())


async def test_many_who_want_one_cold_speaker_prepare_it_once(house: House) -> None:
    await (await house.open()).enrol("mia", recording())
    enroller = FakeEnroller()
    registry = await house.open(enroller)
    prepares = enroller.prepares
    hold_work(enroller)

    waiting = [asyncio.create_task(registry.prepared("mia")) for _ in range(10)]
    await work_began(enroller)
    waiting.pop().cancel()
    enroller.gate.set()

    assert len({id(prepared) for prepared in await asyncio.gather(*waiting)}) == 1
    assert enroller.prepares == prepares + 1


async def test_memory_is_bounded_and_the_built_in_speakers_stay(house: House) -> None:
    registry = await house.open(max_cache_bytes=4 * STATE_BYTES)
    for number in range(5):
        await registry.enrol(f"s{number}", recording(seed=number))

    cached = [speaker.name for speaker in registry.list() if speaker.cached]

    assert cached == ["ann", "bob", "s3", "s4"]
    assert (await registry.prepared("s0")).speaker.prompt_tokens.any()
    assert not registry.get("s3").cached


async def test_a_memory_too_small_for_the_built_in_speakers_is_told(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    registry = await house.open(max_cache_bytes=STATE_BYTES)

    assert "too small to keep the built-in ann" in caplog.text
    assert (await registry.prepared("ann")).state_bytes == STATE_BYTES


async def test_an_update_changes_what_it_names_and_the_warnings_with_it(house: House) -> None:
    registry = await house.open()
    await registry.enrol("mia", recording(6.0), "Hi.", "en")
    assert "transcript is very short" in registry.get("mia").quality.warnings[0]

    info = await registry.update("mia", transcript="What is said in these six seconds of sound.")

    assert info == registry.get("mia")
    assert (info.language, info.quality.warnings) == ("en", ())
    assert (await registry.update("mia", language="")).language is None
    assert (await registry.update("mia", transcript="")).transcript == ""
    assert (await registry.prepared("mia")).speaker.prompt_text == ""


async def test_an_update_computes_nothing(house: House) -> None:
    registry = await house.open()
    await registry.enrol("mia", recording(), "Hello.")
    prepares = house.enroller.prepares
    await registry.update("mia", transcript="Good day.")

    assert (await registry.prepared("mia")).speaker.prompt_text == "Good day."
    assert house.enroller.prepares == prepares


async def test_a_deleted_speaker_is_gone_and_its_name_free(house: House) -> None:
    registry = await house.open()
    await registry.enrol("mia", recording())
    running = await registry.prepared("mia")

    await registry.delete("mia")

    assert running.speaker.prompt_tokens.any()
    for attempt in (registry.delete, registry.prepared, registry.export, registry.update):
        with pytest.raises(SpeakerNotFound, match="'mia'"):
            await attempt("mia")
    await registry.enrol("mia", recording())


async def test_what_is_deleted_while_it_is_prepared_does_not_stay(house: House) -> None:
    await (await house.open()).enrol("mia", recording())
    enroller = FakeEnroller()
    registry = await house.open(enroller)
    hold_work(enroller)
    waiting = asyncio.create_task(registry.prepared("mia"))
    await work_began(enroller)
    await registry.delete("mia")
    enroller.gate.set()

    assert (await waiting).speaker.prompt_tokens.any()
    assert registry._cache.num_bytes == 2 * STATE_BYTES


async def test_built_in_speakers_cannot_be_changed(house: House) -> None:
    registry = await house.open()

    for attempt, verb in (
        (registry.update, "changed"),
        (registry.delete, "deleted"),
        (registry.export, "exported"),
    ):
        with pytest.raises(InvalidRequest, match=f"'ann' is a built-in speaker and cannot be {verb}"):
            await attempt("ann")


async def test_a_checkpoint_without_speakers_has_no_default(house: House) -> None:
    registry = await house.open(FakeEnroller(builtin={}))

    assert registry.list() == []
    with pytest.raises(SpeakerNotFound, match="no default speaker"):
        await registry.prepared()


async def test_a_registered_speaker_can_be_the_default(house: House) -> None:
    registry = await house.open(default_speaker="mia")
    with pytest.raises(SpeakerNotFound, match="'mia'"):
        await registry.prepared()

    await registry.enrol("mia", recording(), "Hello.")

    assert (await registry.prepared()).speaker.prompt_text == "Hello."


async def test_a_built_in_speaker_hides_a_registered_one_of_its_name(house: House) -> None:
    await (await house.open(FakeEnroller(builtin={}))).enrol("ann", recording())

    registry = await house.open(FakeEnroller(builtin=builtin("ann")))

    assert [(speaker.name, speaker.kind) for speaker in registry.list()] == [("ann", "builtin")]
