"""Recordings within requests: read once, kept in memory within bounds, and on no disk."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from firstword.app.clients import Client
from firstword.app.engine.stages import NetworkStages
from firstword.app.errors import BadAudio, Overloaded
from firstword.app.speakers.interface import SentRecording
from tests.speakers.fakes import STATE_BYTES
from tests.speakers.recordings import RATE_HZ, recording, voice
from tests.speakers.servers import Servers, hold_work, work_began

pytestmark = pytest.mark.anyio


def sent(seed: int = 0, transcript: str = "Hello.") -> SentRecording:
    return SentRecording(recording(seed=seed), transcript)


def changed(directory: Path) -> dict[Path, int]:
    """When each file was changed last."""
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*")}


async def test_same_recording_and_text_are_read_once(servers: Servers) -> None:
    registry = await servers.open()
    first = await registry.prepared(reference=sent())
    assert await registry.prepared(reference=sent()) is first
    assert (servers.networks.reads, servers.hits, servers.misses) == (1, 1, 1)
    other = await registry.prepared(reference=sent(transcript="Goodbye."))
    assert (first.transcript, other.transcript) == ("Hello.", "Goodbye.")
    await registry.prepared(reference=sent(seed=1))
    assert servers.networks.reads == 3
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob"]


async def test_references_share_the_memory_of_speakers(servers: Servers) -> None:
    registry = await servers.open(max_cache_bytes=4 * STATE_BYTES)  # two of them built in
    for seed in (0, 1, 2, 0):
        await registry.prepared(reference=sent(seed))
    assert servers.networks.reads == 4


async def test_recordings_that_wait_are_bounded(servers: Servers) -> None:
    registry = await servers.open(max_waiting=2)
    hold_work(servers.networks)
    waiting = [asyncio.create_task(registry.prepared(reference=sent(seed))) for seed in (1, 2)]
    await work_began(servers.networks)
    with pytest.raises(Overloaded, match="2 recordings wait"):
        await registry.prepared(reference=sent(3))
    with pytest.raises(Overloaded, match="2 recordings wait"):
        await registry.source_tokens(sent(3))
    servers.networks.gate.set()
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("read", ["conversion", "speech_tokens", "embedding"])
async def test_recordings_that_one_client_converts_leave_turns_to_others(servers: Servers, read: str) -> None:
    registry = await servers.open(max_waiting=4)
    networks: Any = servers.networks
    stages = NetworkStages("cosyvoice2", 1, *[networks, registry, networks, networks, networks])

    def ask(client: Client) -> Coroutine[Any, Any, object]:
        match read:
            case "conversion":
                return registry.source_tokens(sent(), client)
            case "speech_tokens":
                return stages.speech_tokens(voice(1.0), RATE_HZ, client)
        return stages.embedding(voice(1.0), RATE_HZ, client)

    hold_work(servers.networks)
    waiting = [asyncio.create_task(ask(Client("anna"))) for _ in range(3)]
    await work_began(servers.networks)
    with pytest.raises(Overloaded, match="3 recordings wait"):
        await ask(Client("anna"))
    other = asyncio.create_task(ask(Client("bob")))
    servers.networks.gate.set()
    await asyncio.gather(*waiting, other)


async def test_nothing_of_a_recording_is_written(servers: Servers, tmp_path: Path) -> None:
    registry = await servers.open()
    before = changed(tmp_path)
    await registry.prepared(reference=sent())
    assert await registry.source_tokens(sent())
    assert changed(tmp_path) == before


async def test_recording_that_cannot_be_read_is_read_again_next_time(servers: Servers) -> None:
    registry = await servers.open()
    for _ in range(2):
        with pytest.raises(BadAudio, match="no audio file"):
            await registry.prepared(reference=SentRecording(b"no audio"))
    assert servers.misses == 2
