"""The service firstword.v1.Speech over a real socket."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from firstword.app.http.errors import TABLE
from firstword.app.http.keys import KeyRing
from firstword.app.http.rpc import messages
from firstword.app.http.rpc.call import STATUS
from firstword.app.http.rpc.messages import DESCRIPTORS, INFERENCE, SPEECH, message
from firstword.app.options import InvalidOptions
from firstword.app.server_options import Limits
from firstword.app.surfaces.grpc.options import GrpcOptions
from firstword.app.surfaces.grpc.surface import GrpcSurface
from tests.support.fake_engine import FakeEngine, speech
from tests.support.grpc_serving import Rpc, grpc_serving, until
from tests.support.serving import HELLO, counted, make_services, serving

pytestmark = pytest.mark.anyio

SynthesizeRequest = message("firstword.v1.SynthesizeRequest")
ConverseRequest = message("firstword.v1.ConverseRequest")
ListSpeakersRequest = message("firstword.v1.ListSpeakersRequest")
Start = message("firstword.v1.Start")
Voice = message("firstword.v1.Voice")


async def collected(call: Any) -> tuple[list[str], bytes]:
    """The kinds of the events, audio once for a run of it, and the audio."""
    kinds: list[str] = []
    audio = b""
    while (event := await call.read()) is not grpc.aio.EOF:
        kind = event.WhichOneof("event")
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
        audio += event.audio.data
    return kinds, audio


async def error_of(call: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await collected(call) if hasattr(call, "read") else await call
    metadata = caught.value.trailing_metadata() or ()
    return caught.value.code(), caught.value.details() or "", {str(k): str(v) for k, v in metadata}


def pcm(text: str) -> bytes:
    return (speech(text) * 32767).round().astype("<i2").tobytes()


def close_to(audio: bytes, text: str) -> bool:
    return bool(np.allclose(np.frombuffer(audio, "<i2"), np.frombuffer(pcm(text), "<i2"), atol=1))


def test_the_compiled_messages_are_those_of_the_proto_files(tmp_path: Path) -> None:
    folder = DESCRIPTORS.parent / "protos"
    made = tmp_path / "made.binpb"
    words = ["-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={made}"]
    subprocess.run([sys.executable, *words, "speech.proto", "inference.proto"], check=True, cwd=folder)
    assert made.read_bytes() == DESCRIPTORS.read_bytes(), "run `make protos`"


def test_every_error_has_a_status() -> None:
    assert {row.status for row in TABLE.values()} - STATUS.keys() <= {405, 414, 426, 431}


async def test_a_text_comes_as_audio_between_started_and_done() -> None:
    services = make_services()
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Synthesize")(SynthesizeRequest(text=HELLO), metadata=(("x-request-id", "abc"),))
        assert ("x-request-id", "abc") in list(await call.initial_metadata())
        kinds, audio = await collected(call)
    assert kinds == ["started", "audio", "done"]
    assert close_to(audio, HELLO)
    assert counted(services, "tts_requests_total", protocol="grpc", outcome="ok") == 1
    assert counted(services, "tts_time_to_first_byte_seconds_count", protocol="grpc") == 1


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"text": ""}, grpc.StatusCode.INVALID_ARGUMENT, "invalid_request"),
        ({"text": "x" * 5000}, grpc.StatusCode.INVALID_ARGUMENT, "text_too_long"),
        ({"text": "a", "voice": {"speaker": "eve"}}, grpc.StatusCode.NOT_FOUND, "speaker_not_found"),
        ({"text": "a", "voice": {"format": "midi"}}, grpc.StatusCode.INVALID_ARGUMENT, "invalid_request"),
        ({"text": "a", "voice": {"sample_rate": 1}}, grpc.StatusCode.INVALID_ARGUMENT, "invalid_request"),
        ({"text": "a", "timestamps": "bar"}, grpc.StatusCode.INVALID_ARGUMENT, "invalid_request"),
    ],
)
async def test_bad_values_get_the_status_and_code_of_the_table(
    fields: dict[str, Any], status: grpc.StatusCode, code: str
) -> None:
    services = make_services()
    async with grpc_serving(services) as rpc:
        got, details, metadata = await error_of(rpc.speech("Synthesize")(SynthesizeRequest(**fields)))
    assert (got, metadata["error-code"]) == (status, code)
    assert details
    assert counted(services, "tts_requests_in_flight") == 0


async def test_keys_come_in_metadata() -> None:
    services = make_services(keys=["ann:secret"])
    async with grpc_serving(services) as rpc:
        for metadata in ((), (("authorization", "Bearer wrong"),)):
            listed = rpc.speech("ListSpeakers")(ListSpeakersRequest(), metadata=metadata)
            status, _, trailing = await error_of(listed)
            assert (status, trailing["error-code"]) == (grpc.StatusCode.UNAUTHENTICATED, "invalid_api_key")
        for metadata in ((("authorization", "Bearer secret"),), (("x-api-key", "secret"),)):
            call = rpc.speech("Synthesize")(SynthesizeRequest(text="Hi."), metadata=metadata)
            assert (await collected(call))[0][-1] == "done"
        live = rpc.inference_method("ServerLive")(message("inference.ServerLiveRequest")())
        assert (await live).live
    assert counted(services, "tts_rejected_total", reason="auth") == 2


async def test_a_key_does_only_what_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(
        'ann = { key = "speaks", scopes = ["speak"] }\nbob = { key = "enrols", scopes = ["enrol"] }\n'
    )
    async with grpc_serving(make_services(keys=KeyRing(file=file))) as rpc:
        Delete = message("firstword.v1.DeleteSpeakerRequest")
        calls = {
            "enrols": rpc.speech("Synthesize")(
                SynthesizeRequest(text="a"), metadata=(("x-api-key", "enrols"),)
            ),
            "speaks": rpc.speech("DeleteSpeaker")(Delete(name="anna"), metadata=(("x-api-key", "speaks"),)),
        }
        for call in calls.values():
            assert (await error_of(call))[0] == grpc.StatusCode.PERMISSION_DENIED
        infer = rpc.inference_method("ModelInfer")
        request = message("inference.ModelInferRequest")(model_name="cosyvoice2")
        refused = await error_of(infer(request, metadata=(("x-api-key", "enrols"),)))
        assert refused[0] == grpc.StatusCode.PERMISSION_DENIED


async def test_a_cancelled_call_frees_its_slot_within_100_ms() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    services = make_services(engine)
    async with grpc_serving(services) as rpc:
        took_s = []
        for _ in range(5):
            call = rpc.speech("Synthesize")(SynthesizeRequest(text=HELLO))
            while (await call.read()).WhichOneof("event") != "audio":
                pass
            began_s = time.perf_counter()
            call.cancel()
            await until(lambda: not engine.open_streams)
            took_s.append(time.perf_counter() - began_s)
        await until(lambda: counted(services, "tts_requests_in_flight") == 0)
    assert sorted(took_s)[2] < 0.1
    assert {reason for stream in engine.streams for reason in stream.cancels} == {"disconnect"}


async def test_a_deadline_ends_the_stream_and_is_counted_as_such() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    services = make_services(engine)
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Synthesize")(SynthesizeRequest(text=HELLO), timeout=0.2)
        status, _, _ = await error_of(call)
        assert status == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not engine.open_streams)
    assert counted(services, "tts_cancelled_total", reason="timeout") == 1


async def test_text_word_by_word_is_spoken_while_it_comes() -> None:
    services = make_services()
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(start=Start(voice=Voice(speaker="anna"), mode="continuous")))
        await call.write(ConverseRequest(text="Hello"))
        first = [(await call.read()).WhichOneof("event") for _ in range(2)]
        assert first == ["started", "audio"], "audio before the text has ended"
        await call.write(ConverseRequest(flush={}))
        while (await call.read()).WhichOneof("event") != "flushed":
            pass
        await call.write(ConverseRequest(text=", you."))
        await call.done_writing()  # is the end of the text
        kinds, _ = await collected(call)
    assert kinds == ["audio", "done"]
    assert counted(services, "tts_requests_total", protocol="grpc", outcome="ok") == 1
    assert counted(services, "tts_first_text_to_first_byte_seconds_count") == 1


async def test_a_conversation_that_is_cancelled_tells_what_was_spoken() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=6)
    services = make_services(engine)
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(text="Hello you there"))
        for _ in range(7):
            await call.read()
        await call.write(ConverseRequest(cancel={}))
        event = await call.read()
        assert (event.cancelled.spoken_text, event.cancelled.audio_ms_sent) == ("Hello", 300)
        assert await call.read() is grpc.aio.EOF
    assert counted(services, "tts_cancelled_total", reason="client_cancel") == 1


async def test_a_conversation_that_begins_with_a_cancel_ends_at_once() -> None:
    async with grpc_serving(make_services()) as rpc, asyncio.timeout(20):  # not after the time of silence
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(cancel={}))
        assert (await collected(call))[0] == ["cancelled"]


@pytest.mark.parametrize(("played_ms", "spoken"), [(200, "One"), (None, "One two three.")])
async def test_a_conversation_is_cancelled_behind_done_where_it_was_played(
    played_ms: float | None, spoken: str
) -> None:
    text = "One two three."
    async with grpc_serving(make_services()) as rpc:
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(text=text))
        await call.write(ConverseRequest(end={"awaits_cancel": True}))
        while (await call.read()).WhichOneof("event") != "done":
            pass
        await call.write(ConverseRequest(cancel={"played_ms": played_ms}))
        cancelled = (await call.read()).cancelled
        assert (cancelled.spoken_text, cancelled.remaining_text) == (spoken, text[len(spoken) :])
        assert await call.read() is grpc.aio.EOF


@pytest.mark.parametrize("waits_s", [0.0, 60.0])
async def test_a_conversation_ends_with_done_where_no_cancel_is_to_come(
    waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As none was announced, or none came in time."""
    monkeypatch.setattr("firstword.app.surfaces.grpc.speech.CANCEL_AFTER_DONE_S", waits_s)
    async with grpc_serving(make_services()) as rpc, asyncio.timeout(20):
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(text=HELLO))
        await call.write(ConverseRequest(end={"awaits_cancel": not waits_s}))
        assert (await collected(call))[0] == ["started", "audio", "done"]


async def test_a_cancel_that_is_awaited_longer_than_a_call_may_be_silent_is_no_failure() -> None:
    async with grpc_serving(make_services(limits=Limits(idle_timeout_s=2))) as rpc, asyncio.timeout(20):
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(text=HELLO))
        await call.write(ConverseRequest(end={"awaits_cancel": True}))
        assert (await collected(call))[0] == ["started", "audio", "done"]


@pytest.mark.parametrize(
    ("requests", "code"),
    [
        ([{"start": {"voice": {"speaker": "eve"}}}], "speaker_not_found"),
        ([{"text": "a"}, {"start": {}}], "invalid_request"),
        ([{"text": "a"}, {"end": {}}, {"text": "b"}], "invalid_request"),
        ([{"start": {"mode": "whole"}}], "invalid_request"),
        ([{}], "invalid_request"),
        ([{"text": "x" * 5000}], "text_too_long"),
        ([{"text": "a"}, {"cancel": {"played_ms": float("nan")}}], "invalid_request"),
    ],
)
async def test_what_a_conversation_cannot_mean_ends_it(requests: list[dict[str, Any]], code: str) -> None:
    engine = FakeEngine(pause=asyncio.Event())
    services = make_services(engine)
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Converse")(ConverseRequest(**fields) for fields in requests)
        _, details, metadata = await error_of(call)
        await until(lambda: not engine.open_streams)
    assert metadata["error-code"] == code, details
    assert counted(services, "tts_requests_in_flight") == 0


async def test_leaving_a_conversation_and_saying_nothing_free_it() -> None:
    engine = FakeEngine(pause=asyncio.Event())
    services = make_services(engine, limits=Limits(idle_timeout_s=0.2))
    async with grpc_serving(services) as rpc:
        call = rpc.speech("Converse")()
        await call.write(ConverseRequest(text="Hello"))
        await until(lambda: bool(engine.open_streams))
        call.cancel()
        await until(lambda: not engine.open_streams)
        assert counted(services, "tts_cancelled_total", reason="disconnect") == 1
        silent = rpc.speech("Converse")()
        await silent.write(ConverseRequest(text="Hello"))
        assert (await error_of(silent))[0] == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_speakers_are_listed_registered_and_deleted() -> None:
    services = make_services()
    async with grpc_serving(services) as rpc:
        Register = message("firstword.v1.RegisterSpeakerRequest")
        made = await rpc.speech("RegisterSpeaker")(Register(name="bob", audio=b"riff", transcript="I am."))
        assert (made.name, made.kind, made.transcript) == ("bob", "registered", "I am.")
        taken = await error_of(rpc.speech("RegisterSpeaker")(Register(name="bob", audio=b"riff")))
        assert taken[0] == grpc.StatusCode.ALREADY_EXISTS
        await rpc.speech("DeleteSpeaker")(message("firstword.v1.DeleteSpeakerRequest")(name="bob"))
        Get = message("firstword.v1.GetSpeakerRequest")
        assert (await error_of(rpc.speech("GetSpeaker")(Get(name="bob"))))[0] == grpc.StatusCode.NOT_FOUND
        listed = await rpc.speech("ListSpeakers")(ListSpeakersRequest())
    assert [speaker.name for speaker in listed.speakers] == ["hum", "anna"]


async def test_reflection_tells_the_services_and_health_their_state() -> None:
    async with grpc_serving(make_services()) as rpc:

        def reflected() -> tuple[set[str], list[str]]:
            with grpc.insecure_channel(rpc.address) as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                speech = DescriptorPool(database).FindServiceByName(SPEECH)
                return set(database.get_services()), [method.name for method in speech.methods]

        names, methods = await asyncio.to_thread(reflected)
        assert {SPEECH, INFERENCE, "grpc.health.v1.Health"} <= names
        assert methods[:2] == ["Synthesize", "Converse"]
        health = health_pb2_grpc.HealthStub(rpc.channel)
        for service in ("", SPEECH, INFERENCE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await rpc.server.refuse()
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def pem_files(tmp_path: Path) -> tuple[Path, Path]:
    """A key and a certificate of localhost."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
    words += f"-addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    return key, certificate


async def test_tls_needs_both_files_and_then_encrypts(pem_files: tuple[Path, Path], tmp_path: Path) -> None:
    key, certificate = pem_files
    services = make_services()
    async with grpc_serving(services, tls_certificate=certificate, tls_key=key) as rpc:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        address = rpc.address.replace("127.0.0.1", "localhost")
        async with grpc.aio.secure_channel(address, credentials) as channel:
            call = messages.method_of(channel, SPEECH, "Synthesize")(SynthesizeRequest(text="Hi."))
            assert (await collected(call))[0] == ["started", "audio", "done"]
        plain = rpc.speech("Synthesize")(SynthesizeRequest(text="Hi."))
        assert (await error_of(plain))[0] == grpc.StatusCode.UNAVAILABLE
    for options in ({"tls_key": key}, {"tls_key": key, "tls_certificate": tmp_path / "no"}):
        with pytest.raises(InvalidOptions, match=r"FIRSTWORD_GRPC_TLS|cannot be read"):
            async with grpc_serving(services, **options):
                pass


def test_an_address_of_ipv6_is_told_in_brackets() -> None:
    surface = GrpcSurface(GrpcOptions(), "::1")
    surface.port = 50051
    assert surface.address() == "gRPC is on [::1]:50051."


async def test_a_port_that_is_taken_is_refused() -> None:
    async with grpc_serving(make_services()) as rpc:
        with pytest.raises(InvalidOptions, match="FIRSTWORD_GRPC_PORT"):
            await rpc.server.start(rpc.address, None)


async def first_byte_s(rpc: Rpc, client: httpx.AsyncClient) -> tuple[float, float]:
    """Over gRPC and over HTTP."""
    began_s = time.perf_counter()
    call = rpc.speech("Synthesize")(SynthesizeRequest(text="Hi."))
    while (await call.read()).WhichOneof("event") != "audio":
        pass
    grpc_s = time.perf_counter() - began_s
    await collected(call)
    began_s = time.perf_counter()
    async with client.stream("POST", "/tts", json={"text": "Hi.", "format": "pcm"}) as answer:
        async for _ in answer.aiter_raw():
            break
        http_s = time.perf_counter() - began_s
    return grpc_s, http_s


async def test_the_first_byte_over_grpc_is_within_5_ms_of_https() -> None:
    services = make_services()
    async with (
        grpc_serving(services) as rpc,
        serving(services) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        times = [await first_byte_s(rpc, client) for _ in range(40)]
    over_grpc, over_http = (sorted(column)[len(times) // 4] for column in zip(*times, strict=True))
    assert over_grpc - over_http < 0.005, (over_grpc, over_http)
