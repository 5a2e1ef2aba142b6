"""What many who come at once get of few threads and of bounded memory."""

import asyncio
from functools import partial
from typing import Any

import pytest

from firstword.app.clients import ANYBODY, Client
from firstword.app.engine.stages import NetworkStages
from firstword.app.errors import Overloaded, SpeakerExists
from firstword.app.speakers.interface import KnownSpeaker, RequestKey
from firstword.app.speakers.registry import RegistryHooks
from tests.speakers.fakes import STATE_BYTES, FakeNetworks
from tests.speakers.recordings import RATE_HZ, recording, voice
from tests.speakers.servers import Servers, hold_work, work_began

pytestmark = pytest.mark.anyio


async def test_a_client_who_leaves_leaves_no_speaker(servers: Servers) -> None:
    registry = await servers.open()
    hold_work(servers.networks)
    leaving = asyncio.create_task(registry.enrol("mia", recording()))
    await work_began(servers.networks)
    queued = asyncio.create_task(registry.enrol("eva", recording()))
    await asyncio.wait([queued], timeout=0)

    leaving.cancel()
    queued.cancel()
    await asyncio.wait([leaving, queued])
    servers.networks.gate.set()

    await registry.enrol("kim", recording())  # runs after what was left
    assert [speaker.name for speaker in registry.list()] == ["ann", "bob", "kim"]
    assert servers.networks.reads == 2  # eva's work never began


async def test_recordings_of_one_key_leave_places_to_others(servers: Servers) -> None:
    registry = await servers.open(max_waiting=4)
    hold_work(servers.networks)
    ann, bob = Client("ann"), Client("bob")
    waiting = [asyncio.create_task(registry.enrol(f"a{one}", recording(), client=ann)) for one in range(3)]
    await asyncio.wait(waiting, timeout=0)
    with pytest.raises(Overloaded, match="3 recordings wait"):
        await registry.enrol("a4", recording(), client=ann)
    waiting.append(asyncio.create_task(registry.enrol("b", recording(), client=bob)))
    await asyncio.wait(waiting, timeout=0)
    with pytest.raises(Overloaded, match="4 recordings wait"):
        await registry.enrol("c", recording(), client=Client("cid"))
    servers.networks.gate.set()
    assert [info.name for info in await asyncio.gather(*waiting)] == ["a0", "a1", "a2", "b"]


async def test_a_request_repeated_before_it_is_answered_gets_the_speaker_of_the_first(
    servers: Servers,
) -> None:
    registry = await servers.open()
    key, client = RequestKey("key", b"digest"), Client("anna")
    enrol = partial(registry.enrol, "mia", recording(), client=client)
    hold_work(servers.networks)
    first = asyncio.create_task(registry.once(key, client, enrol))
    await work_began(servers.networks)
    has_looked = asyncio.Event()

    async def enrol_behind_the_first() -> KnownSpeaker:
        has_looked.set()
        await asyncio.wait([first])
        return await enrol()

    second = asyncio.create_task(registry.once(key, client, enrol_behind_the_first))
    await has_looked.wait()
    servers.networks.gate.set()
    assert await first == await second
    with pytest.raises(SpeakerExists):
        await registry.once(RequestKey("other", b"digest"), client, enrol)


async def test_work_is_done_one_after_the_other(servers: Servers) -> None:
    registry = await servers.open()
    hold_work(servers.networks)
    enrolments = [asyncio.create_task(registry.enrol(f"s{n}", recording(seed=n))) for n in range(3)]
    await work_began(servers.networks)

    assert not servers.networks.began.acquire(blocking=False)

    servers.networks.gate.set()
    await asyncio.gather(*enrolments)


async def test_recordings_are_read_side_by_side(servers: Servers) -> None:
    """As those of a batch that tritonserver hands on at once."""
    registry = await servers.open(hooks=RegistryHooks(num_readers=3))
    hold_work(servers.networks)
    samples, rate_hz = voice(1.0), RATE_HZ
    networks: Any = servers.networks
    nothing: Any = None
    stages = NetworkStages("cosyvoice2", 1, nothing, registry, networks, nothing, nothing)
    asked = [
        asyncio.create_task(stages.speech_tokens(samples * level, rate_hz, ANYBODY))
        for level in (1.0, 0.5, 0.2)
    ]
    asked += [asyncio.create_task(registry.enrol("mia", recording()))]
    for _ in range(3):
        await work_began(servers.networks)

    assert not servers.networks.began.acquire(blocking=False)  # the fourth waits

    servers.networks.gate.set()
    *tokens, mia = await asyncio.gather(*asked)
    alone = FakeNetworks()
    assert tokens == [alone.read_source_tokens(samples * level, rate_hz) for level in (1.0, 0.5, 0.2)]
    assert mia.prompt.num_tokens


async def test_each_thread_adds_to_the_recordings_that_may_wait(servers: Servers) -> None:
    registry = await servers.open(hooks=RegistryHooks(num_readers=2))
    hold_work(servers.networks)
    waiting = [asyncio.create_task(registry.enrol(f"s{n}", recording())) for n in range(16)]
    await work_began(servers.networks)

    with pytest.raises(Overloaded, match="16 recordings wait"):
        await registry.enrol("one-more", recording())

    servers.networks.gate.set()
    await asyncio.gather(*waiting)


async def test_only_so_many_recordings_wait(servers: Servers) -> None:
    registry = await servers.open(max_waiting=2)
    hold_work(servers.networks)
    waiting = [asyncio.create_task(registry.enrol(f"s{n}", recording())) for n in range(2)]
    await work_began(servers.networks)

    with pytest.raises(Overloaded, match="2 recordings wait") as caught:
        await registry.enrol("one-more", recording())
    assert caught.value.retry_after_s >= 1

    servers.networks.gate.set()
    await asyncio.gather(*waiting)
    await registry.enrol("one-more", recording())


async def test_no_recording_may_wait(servers: Servers) -> None:
    registry = await servers.open(max_waiting=0)
    with pytest.raises(Overloaded, match="0 recordings wait"):
        await registry.enrol("mia", recording())


async def test_many_who_want_one_cold_speaker_prepare_it_once(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording())
    networks = FakeNetworks()
    registry = await servers.open(networks)
    prepares = networks.prepares
    hold_work(networks)

    waiting = [asyncio.create_task(registry.prepared("mia")) for _ in range(10)]
    await work_began(networks)
    waiting.pop().cancel()
    networks.gate.set()

    assert len({id(prepared) for prepared in await asyncio.gather(*waiting)}) == 1
    assert networks.prepares == prepares + 1


async def test_memory_is_bounded_and_the_built_in_speakers_stay(servers: Servers) -> None:
    registry = await servers.open(max_cache_bytes=4 * STATE_BYTES)
    for number in range(5):
        await registry.enrol(f"s{number}", recording(seed=number))

    cached = [speaker.name for speaker in registry.list() if speaker.cached]

    assert cached == ["ann", "bob", "s3", "s4"]
    assert (await registry.prepared("s0")).features.prompt_tokens.any()
    assert not registry.get("s3").cached


async def test_a_memory_too_small_for_the_built_in_speakers_is_told(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    registry = await servers.open(max_cache_bytes=STATE_BYTES)

    assert "too small to keep the built-in ann" in caplog.text
    assert (await registry.prepared("ann")).state_bytes == STATE_BYTES


async def test_what_is_deleted_while_it_is_prepared_does_not_stay(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording())
    networks = FakeNetworks()
    registry = await servers.open(networks)
    hold_work(networks)
    waiting = asyncio.create_task(registry.prepared("mia"))
    await work_began(networks)
    await registry.delete("mia")
    networks.gate.set()

    assert (await waiting).features.prompt_tokens.any()
    assert registry._cache.num_bytes == 2 * STATE_BYTES
