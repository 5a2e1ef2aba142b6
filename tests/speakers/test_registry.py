"""Who can speak: the built-in speakers and those who are registered."""

import asyncio
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from firstword.app.clients import ANYBODY
from firstword.app.errors import AudioTooLong, BadAudio, InvalidRequest, SpeakerExists, SpeakerNotFound
from firstword.app.speakers.interface import SpeakerChange
from tests.speakers.fakes import FakeNetworks, builtin
from tests.speakers.recordings import RATE_HZ, recording, voice, wav
from tests.speakers.servers import Servers, at_once
from tests.support.bad_names import BAD_NAMES

pytestmark = pytest.mark.anyio


async def test_the_built_in_speakers_are_there_and_warm(servers: Servers) -> None:
    registry = await servers.open()

    ann, bob = registry.list()

    assert (ann.name, bob.name, ann.kind, ann.cached, ann.quality) == ("ann", "bob", "builtin", True, None)
    assert (ann.prompt.num_tokens, ann.prompt.duration_s, ann.prompt.transcript) == (50, 2.0, "Hello.")
    assert registry.get("bob") == bob
    assert registry.default_speaker == "ann"
    assert (await registry.prepared()).features is servers.networks.builtin["ann"].features
    assert (servers.hits, servers.misses) == (1, 0)


async def test_the_start_waits_for_the_default_speaker_alone(servers: Servers) -> None:
    registry = await servers.open(FakeNetworks(builtin=builtin("ann", "bob", "cid")), prepares=False)
    assert [speaker.cached for speaker in registry.list()] == [True, False, False]

    await registry.prepare_builtin(at_once)

    assert [speaker.cached for speaker in registry.list()] == [True, True, True]
    assert (servers.hits, servers.misses) == (0, 0)


async def test_a_built_in_speaker_that_cannot_be_prepared_is_logged_and_tried_again(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    registry = await servers.open(prepares=False)
    servers.networks.failure = RuntimeError("no memory is left")

    await registry.prepare_builtin(at_once)

    assert "no memory is left" in caplog.text
    assert (await registry.prepared("bob")).features is servers.networks.builtin["bob"].features


async def test_the_first_speaker_is_the_default_and_all_are_listed_by_name(
    servers: Servers,
) -> None:
    registry = await servers.open(FakeNetworks(builtin=builtin("bob", "ann")))

    assert registry.default_speaker == "bob"
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob"]


async def test_a_former_name_of_a_built_in_speaker_is_understood_and_taken(servers: Servers) -> None:
    registry = await servers.open(FakeNetworks(former={"old-bob": "bob"}))

    assert [speaker.name for speaker in registry.list()] == ["ann", "bob"]
    assert registry.count() == 2
    assert registry.get("old-bob") == registry.get("bob")
    assert await registry.prepared("old-bob") is await registry.prepared("bob")
    assert await registry.identity("old-bob", ANYBODY) == await registry.identity("bob", ANYBODY)
    with pytest.raises(SpeakerExists, match="'old-bob' is a built-in speaker"):
        await registry.enrol("old-bob", recording(2.0))
    with pytest.raises(InvalidRequest, match="'old-bob' is a built-in speaker and cannot be deleted"):
        await registry.delete("old-bob")


async def test_an_enrolled_speaker_is_listed_warm_and_durable(servers: Servers) -> None:
    registry = await servers.open()

    info = await registry.enrol("mia", recording(2.0), "  Grüße,\n你好 👋🏽 ", "de")

    assert (info.name, info.kind, info.cached) == ("mia", "registered", True)
    assert (info.prompt.transcript, info.prompt.language) == ("Grüße, 你好 👋🏽", "de")
    assert (info.prompt.duration_s, info.prompt.num_tokens) == (2.0, 50)
    assert info.quality is not None
    assert info.quality.snr_db > 30
    assert info.quality.warnings == ("short: 2.0 s; 3 to 10 s give a closer likeness",)
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob", "mia"]
    prepares = servers.networks.prepares
    assert (await registry.prepared("mia")).transcript == "Grüße, 你好 👋🏽"
    assert servers.networks.prepares == prepares

    later = await servers.open()
    assert later.get("mia") == replace(info, cached=False)


async def test_a_stored_speaker_is_prepared_from_its_features_when_first_wanted(
    servers: Servers,
) -> None:
    await (await servers.open()).enrol("mia", recording(), "Hello.")
    networks = FakeNetworks()
    registry = await servers.open(networks)
    servers.hits = servers.misses = 0

    first = await registry.prepared("mia")
    second = await registry.prepared("mia")

    assert first is second
    assert first.transcript == "Hello."
    assert (servers.hits, servers.misses) == (1, 1)
    assert networks.reads == 0
    assert registry.get("mia").cached


async def test_a_taken_name_is_refused_before_any_work(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording())
    reads = servers.networks.reads

    with pytest.raises(SpeakerExists, match="'mia' already"):
        await registry.enrol("mia", recording())
    with pytest.raises(SpeakerExists, match="'ann' is a built-in speaker"):
        await registry.enrol("ann", recording())

    assert servers.networks.reads == reads


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:12]))
async def test_name_tricks_end_at_the_door(servers: Servers, name: str) -> None:
    registry = await servers.open()

    for attempt in (partial(registry.enrol, name), partial(registry.import_bundle, name=name)):
        with pytest.raises(InvalidRequest) as caught:
            await attempt(b"anything")
        assert caught.value.param == "name"
    change = partial(registry.update, change=SpeakerChange())
    for lookup in (change, registry.delete, registry.export, registry.prepared):
        with pytest.raises(SpeakerNotFound) as missed:
            await lookup(name)
        assert missed.value.message.isprintable()
        assert len(missed.value.message) < 1000
    with pytest.raises(SpeakerNotFound):
        registry.get(name)


@pytest.mark.parametrize(
    ("field_name", "values"),
    [("transcript", {"transcript": "x" * 1001}), ("language", {"language": "klingon!"})],
)
async def test_bad_fields_are_refused_when_enrolling_and_updating(
    servers: Servers, field_name: str, values: dict[str, str]
) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording())

    for attempt in (
        registry.enrol("eva", recording(), **values),
        registry.update("mia", SpeakerChange(**values)),
    ):
        with pytest.raises(InvalidRequest) as caught:
            await attempt
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
async def test_a_bad_recording_leaves_nothing(servers: Servers, upload: bytes, error: type[BadAudio]) -> None:
    registry = await servers.open()

    with pytest.raises(error):
        await registry.enrol("mia", upload)

    assert len(registry.list()) == 2
    await registry.enrol("mia", recording())


async def test_a_speaker_that_cannot_be_prepared_is_not_stored(servers: Servers) -> None:
    registry = await servers.open()
    servers.networks.failure = RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        await registry.enrol("mia", recording())

    assert len(registry.list()) == 2


async def test_a_checkpoint_without_speakers_has_no_default(servers: Servers) -> None:
    registry = await servers.open(FakeNetworks(builtin={}))

    assert registry.list() == []
    with pytest.raises(SpeakerNotFound, match="no default speaker"):
        await registry.prepared()


async def test_a_registered_speaker_can_be_the_default(servers: Servers) -> None:
    registry = await servers.open(default_speaker="mia")
    with pytest.raises(SpeakerNotFound, match="'mia'"):
        await registry.prepared()

    await registry.enrol("mia", recording(), "Hello.")

    assert (await registry.prepared()).transcript == "Hello."


async def test_a_built_in_speaker_hides_a_registered_one_of_its_name(servers: Servers) -> None:
    await (await servers.open(FakeNetworks(builtin={}))).enrol("ann", recording())

    registry = await servers.open(FakeNetworks(builtin=builtin("ann")))

    assert [(speaker.name, speaker.kind) for speaker in registry.list()] == [("ann", "builtin")]


async def test_as_many_are_counted_as_are_listed(servers: Servers) -> None:
    await (await servers.open(FakeNetworks(builtin={}))).enrol("ann", recording())
    registry = await servers.open(FakeNetworks(builtin=builtin("ann", "bob")))
    await registry.enrol("mia", recording())

    assert registry.count() == len(registry.list()) == 3
    assert await asyncio.to_thread(registry.count) == 3
