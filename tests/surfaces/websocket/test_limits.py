"""How much a WebSocket's client may ask for, and who may come in."""

import asyncio
import json
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from firstword.app.http import connection_limits
from firstword.app.http.context import Context
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import until
from tests.support.serving import HELLO, LIMITS, PATIENCE_S, counted, make_services, serving
from tests.support.ws_client import Client, connect_client, ws_client

pytestmark = pytest.mark.anyio


async def test_a_key_over_its_quota_is_told_and_the_socket_stays() -> None:
    engine = FakeEngine(pause=asyncio.Event())
    limits = replace(LIMITS, streams_per_key=1)
    services = make_services(engine, limits=limits)
    async with ws_client(services) as client:
        await client.send("text", context="a", text=HELLO)
        await client.receive_until("started", "a")
        await client.send("text", context="b", text=HELLO)
        message = await client.receive_error(is_started=True)
        await client.send("cancel", context="a")
        await client.receive_until("cancelled", "a")
        engine.pause = None
        await client.send_turn(HELLO, "b")
        await client.receive_until("done", "b")
    assert (message["context"], message["error"]["code"]) == ("b", "rate_limited")
    assert counted(services, "tts_rejected_total", reason="rate_limit") == 1


async def test_the_ninth_context_is_refused_and_the_eight_go_on() -> None:
    engine = FakeEngine()
    async with ws_client(make_services(engine)) as client:
        for place in range(8):
            await client.send("text", context=str(place), text="x")
            await client.receive_until("audio", str(place))
        await client.send("start", context="ninth")
        message = await client.receive_error()
        for place in range(8):
            await client.send("end", context=str(place))
            await client.receive_until("done", str(place))
        await client.send_turn(HELLO, "ninth", speaker="anna")
        await client.receive_until("done", "ninth")
    assert message["context"] == "ninth"
    assert "8 contexts" in message["error"]["message"]
    assert len(engine.streams) == 9


async def test_a_client_has_a_quarter_of_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "MAX_SOCKETS", 8)
    services = make_services(keys=["ann:a", "bob:b"])
    ann, bob = {"X-API-Key": "a"}, {"X-API-Key": "b"}
    async with serving(services) as url, connect_client(url, additional_headers=ann):
        async with connect_client(url, additional_headers=ann):
            with pytest.raises(InvalidStatus) as refused:
                async with connect_client(url, additional_headers=ann):
                    pass
            async with connect_client(url, additional_headers=bob) as other:
                await other.still_answers()
        async with connect_client(url, additional_headers=ann) as again:
            await again.still_answers()
    assert refused.value.response.status_code == 503
    assert b"this client has 2 WebSockets already" in (refused.value.response.body or b"")
    assert counted(services, "tts_rejected_total", reason="queue_full") == 1


async def announce_recording(client: Client, context: str, num_bytes: int, comes: bool) -> None:
    await client.send("start", context=context, reference_bytes=num_bytes)
    assert (await client.receive())["type"] == "started"
    for begin in range(0, num_bytes - (not comes), 100_000):
        await client.socket.send(bytes(min(100_000, num_bytes - (not comes) - begin)))


async def test_recordings_of_contexts_count_among_the_uploads_of_all_until_they_speak() -> None:
    """Eight of 6 MB on each socket, of which a client may have any number, waited 300 s for a text."""
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=4_000_000), keys=["ann:a", "bob:b"])
    ann, bob = {"X-API-Key": "a"}, {"X-API-Key": "b"}
    async with serving(services) as url, connect_client(url, additional_headers=ann) as first:
        await announce_recording(first, "a", 1_400_000, comes=True)
        async with connect_client(url, additional_headers=ann) as second:
            await second.send("start", context="b", reference_bytes=1_400_000)
            refused = await second.receive_error()
            assert await second.closed_with() == 1013
        await first.send_turn(HELLO, "a")
        await first.receive_until("done", "a")
        assert services.bounds.held.num_bytes == 0
        await announce_recording(first, "c", 1_400_000, comes=False)
        async with connect_client(url, additional_headers=bob) as other:
            await announce_recording(other, "d", 1_000_000, comes=False)
        await until(lambda: services.bounds.held.num_bytes == 1_400_000)
    assert "this client's uploads" in refused["error"]["message"]
    assert services.bounds.held.num_bytes == 0


async def test_a_recording_makes_room_for_a_client_that_has_none() -> None:
    keys = [f"client{number}:k{number}" for number in range(4)]
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=4_000_000), keys=keys)
    async with serving(services) as url, AsyncExitStack() as sockets:
        clients = [
            await sockets.enter_async_context(
                connect_client(url, additional_headers={"X-API-Key": f"k{number}"})
            )
            for number in range(4)
        ]
        for client in clients[:3]:
            await announce_recording(client, "a", 1_300_000, comes=True)
        await announce_recording(clients[3], "a", 1_000_000, comes=True)
        given_up = await clients[0].receive_error()
        await clients[3].send_turn(HELLO, "a")
        await clients[3].receive_until("done", "a")
    assert given_up["error"]["code"] == "overloaded"
    assert services.bounds.held.num_bytes == 0


@pytest.mark.parametrize(("comes", "text"), [(False, ""), (False, "Hi."), (True, "Hi.")])
async def test_a_recording_given_up_right_before_a_text_ends_its_context(
    comes: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=4_000_000), keys=["ann:a", "bob:b"])
    push_text = Context.push_text
    with ExitStack() as held:

        def others_first(context: Context, pushed: str) -> None:
            for client, num_bytes in (("bob", 1_400_000), ("cid", 1_300_000), ("dan", 1_200_000)):
                held.enter_context(services.bounds.held.held(client, num_bytes))
            push_text(context, pushed)

        monkeypatch.setattr(Context, "push_text", others_first)
        async with (
            serving(services) as url,
            asyncio.timeout(PATIENCE_S),
            connect_client(url, additional_headers={"X-API-Key": "a"}) as client,
        ):
            await announce_recording(client, "a", 1_450_000, comes)
            await client.send("text", context="a", text=text)
            given_up = await client.receive_error()
            assert await client.closed_with() == 1013
    assert given_up["error"]["code"] == "overloaded"
    assert "gave up this one" in given_up["error"]["message"]


async def test_a_huge_message_closes_the_socket() -> None:
    engine = FakeEngine(pause=asyncio.Event())
    async with ws_client(make_services(engine)) as client:
        await client.send("text", text=HELLO)
        await client.receive_until("started")
        await client.send("text", text="x" * 128 * 1024)
        assert await client.closed_with() == 1009
        await engine.streams[0].closed.wait()


@pytest.mark.parametrize("how", ["none", "wrong", "wrong in the query"])
async def test_who_has_no_key_is_refused_at_the_upgrade(how: str) -> None:
    options: dict[str, Any] = {
        "none": {},
        "wrong": {"additional_headers": {"Authorization": "Bearer no"}},
        "wrong in the query": {"query": "?api_key=no"},
    }[how]
    services = make_services(keys=["me:secret"])
    async with serving(services) as url:
        with pytest.raises(InvalidStatus) as refused:
            async with connect_client(url, **options):
                pass
    answer = refused.value.response
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["X-Request-Id"]
    assert json.loads(answer.body or b"")["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": {"Authorization": "Bearer secret"}},
        {"additional_headers": {"X-API-Key": "secret"}},
        {"query": "?api_key=secret"},
    ],
)
async def test_who_has_a_key_may_speak(options: dict[str, Any]) -> None:
    async with ws_client(make_services(keys=["me:secret"]), **options) as client:
        await client.send_turn(HELLO)
        await client.receive_until("done")
