"""Speakers that are changed and deleted."""

from functools import partial

import pytest

from firstword.app.errors import InvalidRequest, SpeakerNotFound
from firstword.app.speakers.interface import SpeakerChange
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers

pytestmark = pytest.mark.anyio


async def test_an_update_changes_what_it_names_and_the_warnings_with_it(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(6.0), "Hi.", "en")
    assert "transcript is very short" in registry.get("mia").quality.warnings[0]

    info = await registry.update(
        "mia", SpeakerChange(transcript="What is said in these six seconds of sound.")
    )

    assert info == registry.get("mia")
    assert (info.prompt.language, info.quality.warnings) == ("en", ())
    assert (await registry.update("mia", SpeakerChange(language=""))).prompt.language is None
    assert (await registry.update("mia", SpeakerChange(transcript=""))).prompt.transcript == ""
    assert (await registry.prepared("mia")).transcript == ""


async def test_what_is_known_of_a_transcript_is_not_said_of_another(servers: Servers) -> None:
    servers.networks.fit = 0.1
    registry = await servers.open()
    info = await registry.enrol("mia", recording(6.0), "What is said in these six seconds of sound.")
    assert info.quality.transcript_fit == 0.1
    assert "part of the transcript" in info.quality.warnings[0]

    assert (await registry.update("mia", SpeakerChange(language="en"))).quality == info.quality
    changed = await registry.update("mia", SpeakerChange(transcript="What is said in six seconds of sound."))

    assert (changed.quality.transcript_fit, changed.quality.warnings) == (None, ())


async def test_an_update_computes_nothing(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording(), "Hello.")
    prepares = servers.networks.prepares
    await registry.update("mia", SpeakerChange(transcript="Good day."))

    assert (await registry.prepared("mia")).transcript == "Good day."
    assert servers.networks.prepares == prepares


async def test_a_deleted_speaker_is_gone_and_its_name_free(servers: Servers) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording())
    running = await registry.prepared("mia")
    change = partial(registry.update, change=SpeakerChange("Other."))

    await registry.delete("mia")

    assert running.features.prompt_tokens.any()
    for attempt in (registry.delete, registry.prepared, registry.export, change):
        with pytest.raises(SpeakerNotFound, match="'mia'"):
            await attempt("mia")
    await registry.enrol("mia", recording())


async def test_built_in_speakers_cannot_be_changed(servers: Servers) -> None:
    registry = await servers.open()

    for attempt, verb in (
        (partial(registry.update, change=SpeakerChange("Other.")), "changed"),
        (registry.delete, "deleted"),
    ):
        with pytest.raises(InvalidRequest, match=f"'ann' is a built-in speaker and cannot be {verb}"):
            await attempt("ann")
