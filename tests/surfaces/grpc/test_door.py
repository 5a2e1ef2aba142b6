"""Who is let in over gRPC, before a message is read, and how much calls may hold; on real sockets."""

import asyncio
import logging
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from firstword.app import memory
from firstword.app.http import connection_limits
from firstword.app.http.keys import KeyRing
from firstword.app.http.rpc.fields import has_too_many_fields
from firstword.app.http.rpc.messages import INFERENCE, POOL, SPEECH, message
from tests.hostile.uploads import (
    ACK,
    ADDRESS,
    DATA,
    END_HEADERS,
    FRAME_BYTES,
    HEADERS,
    INITIAL_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_BYTES,
    WINDOW_UPDATE,
    frame,
    literal,
)
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import Rpc, grpc_serving
from tests.support.serving import LIMITS, counted, make_services

pytestmark = pytest.mark.anyio

KEYS = """
ann = { key = "speaks", scopes = ["speak"] }
bob = { key = "enrols", scopes = ["enrol"] }
"""
SPEAKS = (("x-api-key", "speaks"),)
ENROLS = (("x-api-key", "enrols"),)
REGISTER = f"/{SPEECH}/RegisterSpeaker"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"

SynthesizeRequest = message("firstword.v1.SynthesizeRequest")
ConverseRequest = message("firstword.v1.ConverseRequest")
InferRequest = message("inference.ModelInferRequest")
ListSpeakersRequest = message("firstword.v1.ListSpeakersRequest")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(KEYS)
    return path


def change_key(key_file: Path) -> None:
    key_file.write_text(KEYS.replace('"speaks"', '"changed"'))


def held(rpc: Rpc, path: str, metadata: Any = ()) -> Any:
    """A call of a method that takes one message, of which nothing comes."""
    return rpc.channel.stream_unary(path)(metadata=metadata)


class RawClient:
    """Sends frames of HTTP/2 by itself, and hears what the server says of its windows."""

    def __init__(self, rpc: Rpc, address: str = "127.0.0.1") -> None:
        self._port = int(rpc.address.rpartition(":")[2])
        self._address = address
        self.window_bytes = WINDOW_BYTES  # of a call, before its message is read
        self.was_read: set[int] = set()  # the calls that may send more than that

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(self._address, 0)
        )
        self._writer.write(PREFACE + frame(SETTINGS, 0, 0, b""))
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._writer.close()

    def begin(self, call: int, path: str) -> None:
        head = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
        head |= {"te": "trailers", "content-type": "application/grpc"}
        block = b"".join(literal(*header) for header in head.items())
        self._writer.write(frame(HEADERS, END_HEADERS, call, block))

    def send(self, call: int, begun: bytes) -> None:
        """Send the first bytes of a message of the largest size."""
        sent = struct.pack("!BI", 0, 10 << 20) + begun[5:]
        for start in range(0, len(sent), FRAME_BYTES):
            self._writer.write(frame(DATA, 0, call, sent[start : start + FRAME_BYTES]))

    def reset(self, call: int) -> None:
        self._writer.write(frame(RST_STREAM, 0, call, struct.pack("!I", 8)))

    async def is_served(self) -> None:
        """Return once the server has seen all that was sent."""
        self._writer.write(frame(PING, 0, 0, bytes(8)))
        while await self._take() != (PING, ACK):
            pass

    async def until_read(self, call: int) -> None:
        while call not in self.was_read:
            await self._take()

    async def _take(self) -> tuple[int, int]:
        """Return kind and flags of the next frame."""
        head = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags, call = head[3], head[4], int.from_bytes(head[5:], "big")
        if kind == WINDOW_UPDATE and call:
            self.was_read.add(call)
        elif kind == SETTINGS and not flags & ACK:
            self.window_bytes = dict(struct.iter_unpack("!HI", payload)).get(INITIAL_WINDOW, WINDOW_BYTES)
            self._writer.write(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._writer.write(frame(PING, ACK, 0, payload))
        return kind, flags


async def is_healthy(rpc: Rpc) -> bool:
    answer = await health_pb2_grpc.HealthStub(rpc.channel).Check(health_pb2.HealthCheckRequest())
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def ended(call: Any) -> None:
    async with asyncio.timeout(10):
        if not hasattr(call, "read"):
            await call
        while await call.read() is not grpc.aio.EOF:
            pass


async def refusal_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """Its status and the code of the error."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ended(call)
    metadata = dict(caught.value.trailing_metadata() or ())
    return caught.value.code(), str(metadata.get("error-code"))


async def named_methods(rpc: Rpc) -> list[str]:
    """Every method that the server says it has, by its path."""
    stub = reflection_pb2_grpc.ServerReflectionStub(rpc.channel)
    [answer] = [
        one
        async for one in stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
    ]
    return [
        f"/{service.name}/{method.name}"
        for service in answer.list_services_response.service
        for method in POOL.FindServiceByName(service.name).methods
    ]


async def test_every_method_asks_for_its_scope_before_a_message(key_file: Path) -> None:
    """A walk over the methods that the server names, by calls of which no message ever comes."""
    async with grpc_serving(make_services(keys=KeyRing(file=key_file))) as rpc:
        guards = rpc.server.door.guards
        paths = await named_methods(rpc)
        assert {SPEECH, INFERENCE} <= {path.split("/")[1] for path in paths}
        assert len(paths) >= 18
        for path in paths:
            if path not in guards:  # nobody is let in
                assert (await refusal_of(held(rpc, path)))[0] == grpc.StatusCode.UNIMPLEMENTED
                assert not path.startswith((f"/{SPEECH}/", f"/{INFERENCE}/"))
                continue
            scope = guards[path].scope
            if scope == "public":
                continue
            assert await refusal_of(held(rpc, path)) == (grpc.StatusCode.UNAUTHENTICATED, "invalid_api_key")
            others = {"speak": ENROLS, "enrol": SPEAKS}.get(scope)
            if others is not None:
                refused = await refusal_of(held(rpc, path, others))
                assert refused == (grpc.StatusCode.PERMISSION_DENIED, "missing_scope")
    assert {path for path, guard in guards.items() if guard.scope == "public"} == {
        f"/{INFERENCE}/ServerLive",
        f"/{INFERENCE}/ServerReady",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }


@pytest.mark.parametrize("path", [REGISTER, CHECK])
async def test_a_message_that_does_not_come_ends_the_call(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "PUBLIC_MESSAGE_TIMEOUT_S", 0.1)
    async with grpc_serving(make_services(limits=replace(LIMITS, body_timeout_s=0.1))) as rpc:
        assert (await refusal_of(held(rpc, path)))[0] == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_message_without_a_key_has_its_time_from_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of its address come one after the other, and together take longer than that.

    What may have come of each is given back to the system.
    """
    noted: list[int] = []
    monkeypatch.setattr(memory.Freed, "note", lambda freed, num_bytes: noted.append(num_bytes))
    monkeypatch.setattr(connection_limits, "PUBLIC_MESSAGE_TIMEOUT_S", 0.1)
    async with grpc_serving(make_services()) as rpc:
        refused = [asyncio.create_task(refusal_of(held(rpc, CHECK))) for _ in range(4)]
        await asyncio.wait(refused, return_when=asyncio.FIRST_COMPLETED)
        began_s = asyncio.get_running_loop().time()
        statuses = {status for status, _ in await asyncio.gather(*refused)}
        assert asyncio.get_running_loop().time() - began_s > 0.2
        assert await is_healthy(rpc)
    assert statuses == {grpc.StatusCode.DEADLINE_EXCEEDED}
    assert noted == 4 * [rpc.server.door.max_message_bytes]


@pytest.mark.parametrize("path", [REGISTER, CHECK])
async def test_a_message_that_waits_for_its_turn_ends_the_call_in_time(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those ahead of it would keep it waiting for minutes, and what it has sent in memory."""
    monkeypatch.setattr(connection_limits, "QUICK_MESSAGE_S", 60)
    monkeypatch.setattr(connection_limits, "PUBLIC_MESSAGE_TIMEOUT_S", 60)
    monkeypatch.setattr(connection_limits, "num_quick_readers", lambda *given: 1)
    async with grpc_serving(make_services(limits=replace(LIMITS, body_timeout_s=1.0))) as rpc:
        async with asyncio.timeout(5):
            refused = await asyncio.gather(*(refusal_of(held(rpc, path)) for _ in range(8)))
    assert {status for status, _ in refused} == {grpc.StatusCode.DEADLINE_EXCEEDED}


async def is_read_behind(rpc: Rpc, client: RawClient, ahead: int, call: int) -> None:
    """Send a window of a call's message; it is read once the call ahead has ended, and not before."""
    client.send(call, bytes(connection_limits.WINDOW_BYTES))
    await client.is_served()
    assert await is_healthy(rpc)
    await client.is_served()
    assert call not in client.was_read
    client.reset(ahead)
    await client.until_read(call)


async def test_messages_without_a_key_keep_those_of_their_address_alone_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each may be one of the largest, and nothing counts it: one of an address comes at a time."""
    monkeypatch.setattr(connection_limits, "PUBLIC_MESSAGE_TIMEOUT_S", 60)
    async with grpc_serving(make_services()) as rpc, RawClient(rpc, ADDRESS) as there, asyncio.timeout(10):
        there.begin(1, CHECK)
        there.begin(3, CHECK)
        await is_read_behind(rpc, there, 1, 3)


async def test_of_a_message_16_kib_come_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text comes at once over a far line."""
    monkeypatch.setattr(connection_limits, "QUICK_MESSAGE_S", 60)
    monkeypatch.setattr(connection_limits, "num_quick_readers", lambda *given: 1)
    async with grpc_serving(make_services()) as rpc, RawClient(rpc) as client, asyncio.timeout(10):
        client.begin(1, REGISTER)
        client.begin(3, REGISTER)
        await client.is_served()
        assert client.window_bytes == connection_limits.WINDOW_BYTES == 16 << 10
        await is_read_behind(rpc, client, 1, 3)


async def test_messages_that_do_not_come_keep_no_other_client_waiting(key_file: Path) -> None:
    async with grpc_serving(make_services(keys=KeyRing(file=key_file))) as rpc:
        calls = [held(rpc, REGISTER, ENROLS) for _ in range(60)]
        calls += [held(rpc, CHECK) for _ in range(60)]
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
            listed = await rpc.speech("ListSpeakers")(ListSpeakersRequest(), metadata=SPEAKS)
        for call in calls:
            call.cancel()
    assert listed.speakers


async def test_messages_that_do_not_come_do_not_keep_their_own_client_waiting(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "QUICK_MESSAGE_S", 0.01)
    async with grpc_serving(make_services(keys=KeyRing(file=key_file))) as rpc:
        calls = [held(rpc, REGISTER, ENROLS) for _ in range(10)]
        refused = [asyncio.create_task(refusal_of(call)) for call in calls]
        async with asyncio.timeout(10):
            while sum(one.done() for one in refused) < 8:  # noqa: ASYNC110  two may come slowly
                await asyncio.sleep(0.01)
            listed = await rpc.speech("ListSpeakers")(ListSpeakersRequest(), metadata=ENROLS)
        assert {one.result() for one in refused if one.done()} == {
            (grpc.StatusCode.UNAVAILABLE, "overloaded")
        }
        assert sum(not one.done() for one in refused) == 2
        for one in refused:
            one.cancel()
        for call in calls:
            call.cancel()
    assert listed.speakers


async def test_watches_without_end_shut_nobody_out() -> None:
    async with grpc_serving(make_services()) as rpc:
        watch = rpc.channel.unary_stream(WATCH)
        watches = [watch(b"") for _ in range(1100)]
        reads = await asyncio.gather(*(one.read() for one in watches), return_exceptions=True)
        refused = [one for one in reads if isinstance(one, grpc.aio.AioRpcError)]
        assert len(reads) - len(refused) == connection_limits.MAX_PUBLIC_CALLS // 4  # of one address
        call = rpc.speech("Synthesize")(SynthesizeRequest(text="Hi."))
        kinds = [event.WhichOneof("event") async for event in call]
        health = await health_pb2_grpc.HealthStub(rpc.channel).Check(health_pb2.HealthCheckRequest())
        for one in watches:
            one.cancel()
        async with asyncio.timeout(10):
            while True:  # until the server has noticed that they are gone
                freed = watch(b"")
                try:
                    await freed.read()
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.01)
        freed.cancel()
    assert kinds[-1] == "done"
    assert health.status == health_pb2.HealthCheckResponse.SERVING


async def test_idle_conversations_of_one_client_shut_no_other_out(key_file: Path) -> None:
    async with grpc_serving(make_services(keys=KeyRing(file=key_file))) as rpc:
        converse = rpc.speech("Converse")
        idle = [converse(metadata=SPEAKS) for _ in range(connection_limits.MIN_STREAM_CALLS)]
        await asyncio.gather(*(one.initial_metadata() for one in idle))
        last = converse(iter([ConverseRequest(text="Hi.")]), metadata=SPEAKS)
        assert (await refusal_of(last))[0] == grpc.StatusCode.UNAVAILABLE
        call = rpc.speech("Synthesize")(SynthesizeRequest(text="Hi."), metadata=SPEAKS)
        assert [event.WhichOneof("event") async for event in call][-1] == "done"
        for one in idle:
            one.cancel()


@pytest.mark.parametrize("method", ["Converse", "ModelStreamInfer"])
async def test_a_stream_that_sends_nothing_is_ended(method: str) -> None:
    async with grpc_serving(make_services(limits=replace(LIMITS, idle_timeout_s=0.1))) as rpc:
        call = rpc.speech(method)() if method == "Converse" else rpc.inference_method(method)()
        assert (await refusal_of(call))[0] == grpc.StatusCode.DEADLINE_EXCEEDED


class Paced(asyncio.Event):
    """Lets a stream go on with a chunk after a moment."""

    async def wait(self) -> Any:
        await asyncio.sleep(0.05)
        return True


@pytest.mark.parametrize("method", ["Converse", "ModelStreamInfer"])
async def test_a_stream_that_speaks_is_never_too_old(method: str) -> None:
    engine = FakeEngine(pause=Paced())
    async with grpc_serving(make_services(engine, limits=replace(LIMITS, idle_timeout_s=0.2))) as rpc:
        async with asyncio.timeout(20):
            if method == "Converse":
                call = rpc.speech(method)()
                await call.write(ConverseRequest(text="Hello there."))  # 0.6 s, and no end
                kinds = [(await call.read()).WhichOneof("event") for _ in range(13)]
                assert kinds == ["started", *["audio"] * 12]
            else:
                call = rpc.inference_method(method)()
                request = InferRequest(model_name="cosyvoice2")
                request.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1])
                request.raw_input_contents.append(b"\x0c\x00\x00\x00Hello there.")
                await call.write(request)
                for _ in range(12):
                    assert not (await call.read()).error_message
        call.cancel()


async def test_a_key_that_is_removed_ends_a_conversation_at_its_next_text(key_file: Path) -> None:
    async with grpc_serving(make_services(keys=KeyRing(file=key_file))) as rpc:
        call = rpc.speech("Converse")(metadata=SPEAKS)
        await call.write(ConverseRequest(text="Hello. "))
        assert (await call.read()).WhichOneof("event") == "started"
        change_key(key_file)
        await call.write(ConverseRequest(text="And more."))
        assert await refusal_of(call) == (grpc.StatusCode.UNAUTHENTICATED, "invalid_api_key")


async def test_a_key_that_is_removed_ends_a_stream_of_requests_at_its_next(key_file: Path) -> None:
    engine = FakeEngine()
    async with grpc_serving(make_services(engine, keys=KeyRing(file=key_file))) as rpc:
        call = rpc.inference_method("ModelStreamInfer")(metadata=SPEAKS)
        await call.write(InferRequest(model_name="nothing"))
        assert (await call.read()).error_message
        change_key(key_file)
        await call.write(InferRequest(model_name="nothing"))
        assert await refusal_of(call) == (grpc.StatusCode.UNAUTHENTICATED, "invalid_api_key")


async def test_bytes_that_are_no_message_are_the_fault_of_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with grpc_serving(make_services()) as rpc:
        single = rpc.channel.unary_unary(REGISTER)(b"\xff\xff\xff")
        assert await refusal_of(single) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request")
        many = rpc.channel.stream_stream(f"/{SPEECH}/Converse")(iter([b"\xff\xff\xff"]))
        assert await refusal_of(many) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request")
        none = rpc.channel.stream_unary(REGISTER)(iter([]))
        assert await refusal_of(none) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("field", [b"\x2a\x00", b"\x22\x00", b"\x3a\x00", b"\xf8\x7f\x01"])
async def test_fields_without_number_are_not_parsed(field: bytes) -> None:
    """Five million empty inputs took half a gigabyte, and the loop for a third of a second."""
    infer = InferRequest(model_name="cosyvoice2")
    text = infer.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1])
    text.contents.bytes_contents.extend([b""] * 200_000)
    shaped = InferRequest(model_name="cosyvoice2")
    shaped.inputs.add(name="target_text", datatype="BYTES", shape=[1] * 300_000)
    async with grpc_serving(make_services()) as rpc:
        behind_a_group = b"\xfb\x01\xfc\x01" + field * 200_000
        before_a_bad_tag = b"\x2a\x80\xb5\x18" + b"\x22\x00" * 200_000 + b"\x07"
        contents = (infer.SerializeToString(), shaped.SerializeToString())
        for content in (field * 200_000, behind_a_group, before_a_bad_tag, *contents):
            call = rpc.channel.unary_unary(f"/{INFERENCE}/ModelInfer")(content)
            with pytest.raises(grpc.aio.AioRpcError, match="more than 4096 fields"):
                await call


def test_fields_are_counted_within_messages_and_rubbish_ends_the_count() -> None:
    infer = InferRequest(model_name="cosyvoice2")
    infer.inputs.add(name="mel", datatype="FP32", shape=[1, 80, 5000]).contents.fp32_contents.extend(
        [0.5] * 400_000
    )
    assert not has_too_many_fields(infer.SerializeToString(), InferRequest.DESCRIPTOR)
    for _ in range(3000):
        infer.inputs.add(name="x")
    assert has_too_many_fields(infer.SerializeToString(), InferRequest.DESCRIPTOR)
    for rubbish in (b"\xff" * 300_000, b"\x2a", b"\x2a\xff\xff\xff\xff\x0f", b"\x07"):
        assert not has_too_many_fields(rubbish, InferRequest.DESCRIPTOR)


async def test_a_message_may_be_as_long_as_its_method_says() -> None:
    services = make_services(limits=replace(LIMITS, max_body_bytes=1000, max_upload_bytes=2000))
    async with grpc_serving(services) as rpc:
        long = rpc.channel.unary_stream(f"/{SPEECH}/Synthesize")(b"x" * 1001)
        assert await refusal_of(long) == (grpc.StatusCode.INVALID_ARGUMENT, "text_too_long")
        infer = rpc.channel.unary_unary(f"/{INFERENCE}/ModelInfer")(b"x" * 67_537)
        assert await refusal_of(infer) == (grpc.StatusCode.INVALID_ARGUMENT, "upload_too_large")
        beyond = rpc.channel.unary_unary(f"/{INFERENCE}/ModelInfer")(b"x" * 200_000)
        assert (await refusal_of(beyond))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert counted(services, "tts_rejected_total", reason="too_long") == 2
