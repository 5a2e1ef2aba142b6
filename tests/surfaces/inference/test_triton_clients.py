"""The Open Inference Protocol with NVIDIA's own client, over real sockets."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import soundfile
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_aio
import tritonclient.http as triton_http
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException

from firstword.app.budget import WorkLimits
from firstword.app.errors import Overloaded, SynthesisFailed
from firstword.app.http.rpc.call import Call
from firstword.app.http.rpc.messages import POOL
from firstword.app.http.service import Service
from firstword.app.server_options import Limits
from firstword.app.surfaces.inference.models import SPEECH_TOKEN_OFFSET
from tests.support.fake_engine import INFO, FakeEngine, speech
from tests.support.fake_stages import SAMPLES_PER_TOKEN, FakeStages
from tests.support.grpc_serving import Rpc, grpc_serving, until
from tests.support.serving import HELLO, counted, make_services, serving
from tests.support.triton_clients import inferred, inferred_over_http, reference, streamed, tensors

pytestmark = pytest.mark.anyio

in_thread = asyncio.to_thread


@asynccontextmanager
async def both(services: Service) -> AsyncIterator[tuple[Rpc, str]]:
    """gRPC and HTTP over the same models, as the service has them."""
    async with grpc_serving(services) as rpc, serving(services, surfaces=rpc.surfaces) as url:
        yield rpc, url


def test_fields_have_the_numbers_and_types_of_the_client() -> None:
    theirs = triton_grpc.service_pb2.DESCRIPTOR
    ours = POOL.FindFileByName("inference.proto")
    files = {**theirs.message_types_by_name, **triton_grpc.model_config_pb2.DESCRIPTOR.message_types_by_name}
    for name, message in ours.message_types_by_name.items():
        for field in message.fields:
            same = files[name].fields_by_name[field.name]
            assert (field.number, field.type, field.is_repeated) == (same.number, same.type, same.is_repeated)
    methods = theirs.services_by_name["GRPCInferenceService"].methods_by_name
    for method in POOL.FindServiceByName("inference.GRPCInferenceService").methods:
        same = methods[method.name]
        assert method.input_type.full_name == same.input_type.full_name
        assert method.output_type.full_name == same.output_type.full_name
        assert (method.client_streaming, method.server_streaming) == (
            same.client_streaming,
            same.server_streaming,
        )


async def test_a_text_is_streamed_with_an_empty_final_response_of_its_own() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    values = {**reference(0.5), "reference_text": "Hum.", "target_text": HELLO}
    async with both(services) as (rpc, _):
        got = await in_thread(streamed, rpc.address, "cosyvoice2", values, "abc")
    assert got.errors == []
    assert got.ids == {"abc"}
    assert got.finals == [False] * len(HELLO) + [True], "audio in a final response is lost"
    assert all(chunk.shape[0] == 1 for chunk in got.audio)
    np.testing.assert_allclose(np.concatenate(got.audio, axis=1)[0], speech(HELLO), atol=1e-6)
    reference_sent = engine.streams[0].request.voice.reference
    assert reference_sent is not None
    assert reference_sent.transcript == "Hum."
    assert soundfile.info(io.BytesIO(reference_sent.content)).frames == 8000, "zeros behind it count not"
    assert counted(services, "tts_requests_total", protocol="kserve", outcome="ok") == 1


async def test_a_text_alone_has_the_default_speaker_and_parameters_name_others() -> None:
    engine = FakeEngine()
    async with both(make_services(engine)) as (rpc, url):
        target = {"target_text": "Hi."}
        await in_thread(streamed, rpc.address, "cosyvoice2", target)
        named = partial(inferred, parameters={"speaker": "anna", "seed": 7})
        await in_thread(named, rpc.address, "cosyvoice2", target, "waveform")
        over_http = partial(inferred_over_http, parameters={"speaker": "anna", "instruct": "low"})
        await in_thread(over_http, url, "cosyvoice2", target, "waveform", True)
    first, second, third = engine.streams
    assert (first.speaker, first.request.seed) == ("hum", None)
    assert (second.speaker, second.request.seed) == ("anna", 7)
    assert (third.speaker, third.request.voice.instruct) == ("anna", "low")
    assert all(stream.request.voice.reference is None for stream in engine.streams)


async def test_the_whole_is_answered_at_once_over_grpc_and_http() -> None:
    values = {**reference(0.5), "reference_text": "Hum.", "target_text": HELLO}
    async with both(make_services()) as (rpc, url):
        outputs = [
            await in_thread(inferred, rpc.address, "cosyvoice2", values, "waveform"),
            await in_thread(inferred_over_http, url, "cosyvoice2", values, "waveform", True),
            await in_thread(inferred_over_http, url, "cosyvoice2", values, "waveform", False),
        ]
        async with triton_aio.InferenceServerClient(rpc.address) as client:
            answer = await client.infer("cosyvoice2", tensors(triton_aio, values), request_id="x")
            outputs.append(answer.as_numpy("waveform"))
            assert answer.get_response().id == "x"
    for output in outputs:
        np.testing.assert_allclose(output[0], speech(HELLO), atol=1e-6)


async def test_an_error_comes_first_and_then_the_final_response() -> None:
    engine = FakeEngine(failure=SynthesisFailed("secret"), fails_after_chunks=2)
    services = make_services(engine)
    async with both(services) as (rpc, url):
        got = await in_thread(streamed, rpc.address, "cosyvoice2", {"target_text": HELLO})
        assert (len(got.audio), len(got.errors), got.finals) == (2, 1, [False, False, True])
        assert "secret" not in got.errors[0]
        engine.refusal = Overloaded("full", 1)
        got = await in_thread(streamed, rpc.address, "cosyvoice2", {"target_text": HELLO})
        assert (got.errors, got.finals) == (["full"], [True])
        with pytest.raises(InferenceServerException, match="full") as caught:
            await in_thread(inferred, rpc.address, "cosyvoice2", {"target_text": HELLO}, "waveform")
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        over_http = partial(inferred_over_http, url, "cosyvoice2", {"target_text": HELLO})
        with pytest.raises(InferenceServerException, match="full") as caught:
            await in_thread(over_http, "waveform", True)
        assert caught.value.status() == "503"
    assert counted(services, "tts_rejected_total", reason="queue_full") == 3
    assert counted(services, "tts_requests_in_flight") == 0


@pytest.mark.parametrize(
    ("model", "values", "output", "message"),
    [
        ("nothing", {"target_text": "a"}, "waveform", "there is no model"),
        ("cosyvoice2", {}, "waveform", "`target_text`"),
        ("cosyvoice2", {"target_text": ""}, "waveform", "empty"),
        ("cosyvoice2", {"target_text": "a"}, "speech", "has no output"),
        ("cosyvoice2", {"target_text": np.zeros(2, np.float32)}, "waveform", "BYTES"),
        ("cosyvoice2", {"target_text": "a", "voice": "b"}, "waveform", "has no input"),
        ("vocoder", {"mel": np.zeros((79, 5), np.float32)}, "tts_speech", "80"),
        ("token2wav", {"target_speech_tokens": np.array([9999], np.int32)}, "waveform", "no such token"),
    ],
)
async def test_what_cannot_be_served_is_said_over_both(
    model: str, values: dict[str, Any], output: str, message: str
) -> None:
    services = make_services()
    async with both(services) as (rpc, url):
        for ask in (
            partial(inferred, rpc.address, model, values, output),
            partial(inferred_over_http, url, model, values, output, True),
        ):
            with pytest.raises(InferenceServerException, match=message):
                await in_thread(ask)
        got = await in_thread(streamed, rpc.address, model, values)
        assert got.finals[-1:] == [True], "its client would wait for 200 s"
    assert counted(services, "tts_requests_in_flight") == 0


async def test_a_client_that_leaves_frees_all_its_streams() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1, max_streams=200)
    services = make_services(engine)
    async with both(services) as (rpc, _):

        def leave() -> None:
            with triton_grpc.InferenceServerClient(rpc.address) as client:
                client.start_stream(callback=lambda result, error: None)
                for number in range(40):
                    client.async_stream_infer(
                        "cosyvoice2", tensors(triton_grpc, {"target_text": HELLO}), request_id=str(number)
                    )
                asyncio.run_coroutine_threadsafe(until(lambda: len(engine.open_streams) == 40), loop).result()
                client.stop_stream(cancel_requests=True)

        loop = asyncio.get_running_loop()
        await in_thread(leave)
        await until(lambda: not engine.open_streams)
    assert counted(services, "tts_cancelled_total", reason="disconnect") == 40
    assert counted(services, "tts_requests_in_flight") == 0


async def test_stages_give_the_published_tensors() -> None:
    async with both(make_services()) as (rpc, url):
        for ask in (
            partial(inferred, rpc.address),
            partial(inferred_over_http, url, is_binary=True),
        ):
            tokens = await in_thread(
                partial(ask, model="audio_tokenizer", values=reference(0.2), output="prompt_speech_tokens")
            )
            assert (tokens.dtype, tokens.tolist()) == (
                np.int32,
                [[3200 + SPEECH_TOKEN_OFFSET, 7 + SPEECH_TOKEN_OFFSET]],
            )
            wav = {"reference_wav": reference(0.2, 0.2)["reference_wav"]}
            embedding = await in_thread(
                partial(ask, model="speaker_embedding", values=wav, output="prompt_spk_embedding")
            )
            assert (embedding.dtype, embedding.shape) == (np.float16, (1, 192))
            mel = np.ones((80, 7), np.float32)
            samples = await in_thread(partial(ask, model="vocoder", values={"mel": mel}, output="tts_speech"))
            assert samples.shape == (1, 7 * 480)


def token_values(tokens: range, offset: int | None = None, is_last: bool = False) -> dict[str, Any]:
    """As the published deployment asks token2wav: all tokens so far, and where the new ones begin."""
    values: dict[str, Any] = {
        "target_speech_tokens": np.array(tokens, np.int32) + SPEECH_TOKEN_OFFSET,
        "prompt_speech_tokens": np.arange(5, dtype=np.int32) + SPEECH_TOKEN_OFFSET,
        "prompt_speech_feat": np.ones((11, 80), np.float16),
        "prompt_spk_embedding": np.ones(192, np.float16),
    }
    if offset is not None:
        values["token_offset"] = np.array([offset], np.int32)
        values["finalize"] = np.array([is_last])
    return values


async def test_token2wav_goes_on_by_its_request_id_until_the_final_request() -> None:
    stages = FakeStages()
    async with both(make_services(stages=stages)) as (rpc, url):
        for ask in (
            partial(inferred, rpc.address, "token2wav"),
            partial(inferred_over_http, url, "token2wav", is_binary=True),
        ):
            sent = [
                token_values(range(18), 0),
                token_values(range(43), 15),
                token_values(range(50), 40, is_last=True),
            ]
            parts = [
                await in_thread(partial(ask, values=values, output="waveform", request_id="a"))
                for values in sent
            ]
            assert [part.shape[1] // SAMPLES_PER_TOKEN for part in parts] == [15, 25, 10]
            heard = np.concatenate(parts, axis=1)[0, ::SAMPLES_PER_TOKEN]
            np.testing.assert_array_equal(heard, np.arange(50))
            assert stages.open_sessions == []
        prompt, hop = stages.opened[0]
        assert prompt is not None
        assert (prompt.tokens.tolist(), prompt.mel.shape, hop) == ([0, 1, 2, 3, 4], (10, 80), 15)
        whole = await in_thread(inferred, rpc.address, "token2wav", token_values(range(9)), "waveform")
    assert whole.shape == (1, 9 * SAMPLES_PER_TOKEN)
    assert stages.open_sessions == []


async def test_token2wav_is_as_urgent_as_its_listener_needs_it() -> None:
    stages = FakeStages()
    async with grpc_serving(make_services(stages=stages)) as rpc:
        ask = partial(inferred, rpc.address, "token2wav", output="waveform", request_id="a")
        await in_thread(partial(ask, values=token_values(range(18), 0)))
        (session,) = stages.open_sessions
        await in_thread(partial(ask, values=token_values(range(43), 15)))
        await in_thread(partial(ask, values=token_values(range(50), 40, is_last=True)))
    first, second, third = session.deadlines_s
    assert second - first == pytest.approx(15 * 0.04, abs=0.2), "when the first 15 tokens have been heard"
    assert third - second == pytest.approx(25 * 0.04, abs=0.01)


async def test_token2wav_frees_what_is_left_by_error_disconnect_or_time() -> None:
    stages = FakeStages()
    services = make_services(stages=stages, limits=Limits(slow_listener_timeout_s=0.2))
    async with both(services) as (rpc, url):
        ask = partial(inferred, rpc.address, "token2wav", output="waveform")
        await in_thread(partial(ask, values=token_values(range(18), 0), request_id="fails"))
        assert len(stages.open_sessions) == 1
        with pytest.raises(InferenceServerException, match="send all of them"):
            await in_thread(partial(ask, values=token_values(range(5), 0), request_id="fails"))
        assert stages.open_sessions == []
        await in_thread(partial(ask, values=token_values(range(18), 0), request_id="idle"))
        await until(lambda: not stages.open_sessions)
        assert rpc.inference.num_sessions == 0

        def leave() -> None:
            with triton_grpc.InferenceServerClient(rpc.address) as client:
                client.start_stream(callback=lambda result, error: None)
                client.async_stream_infer(
                    "token2wav", tensors(triton_grpc, token_values(range(18), 0)), request_id="left"
                )
                opened = until(lambda: bool(stages.open_sessions))
                asyncio.run_coroutine_threadsafe(opened, loop).result()
                client.stop_stream(cancel_requests=True)

        loop = asyncio.get_running_loop()
        await in_thread(leave)
        async with asyncio.timeout(0.15):  # before its time is over
            await until(lambda: not stages.open_sessions)
        with pytest.raises(InferenceServerException, match="needs an id"):
            await in_thread(partial(ask, values=token_values(range(18), 0)))
        over_http = partial(inferred_over_http, url, "token2wav", output="waveform", is_binary=True)
        for number in range(stages.max_sessions):
            await in_thread(partial(over_http, values=token_values(range(9), 0), request_id=str(number)))
        with pytest.raises(InferenceServerException, match="full"):
            await in_thread(partial(over_http, values=token_values(range(9), 0), request_id="more"))
    assert stages.open_sessions == []


async def test_another_client_does_not_go_on_with_a_session_of_the_same_id() -> None:
    stages = FakeStages()
    async with both(make_services(stages=stages)) as (rpc, url):
        for ask in (
            partial(inferred, rpc.address, "token2wav", output="waveform", request_id="1"),
            partial(inferred_over_http, url, "token2wav", output="waveform", is_binary=True, request_id="1"),
        ):
            await in_thread(partial(ask, values=token_values(range(18), 0)))
            other_prompt = token_values(range(18), 0) | {"prompt_spk_embedding": np.zeros(192, np.float16)}
            for values in (token_values(range(20, 60), 0), token_values(range(20, 30), 0), other_prompt):
                with pytest.raises(InferenceServerException, match="an id of its own"):
                    await in_thread(partial(ask, values=values))
            rest = await in_thread(partial(ask, values=token_values(range(30), 15, is_last=True)))
            assert rest.shape == (1, 15 * SAMPLES_PER_TOKEN), "the first one goes on"
            assert stages.open_sessions == []


def test_sessions_go_by_the_host_that_asks() -> None:
    """Not by its port: a client may have several connections."""

    class Context:
        def __init__(self, peer: str) -> None:
            self.peer = lambda: peer

        def invocation_metadata(self) -> None: ...

    hosts = [
        Call(make_services(), Context(peer)).host
        for peer in (
            "ipv4:10.0.0.1:400",
            "ipv4:10.0.0.1:401",
            "ipv4:10.0.0.2:400",
            "ipv6:%5B::1%5D:5",
            "unix:",
        )
    ]
    assert hosts == ["ipv4:10.0.0.1", "ipv4:10.0.0.1", "ipv4:10.0.0.2", "ipv6:%5B::1%5D", "unix"]


async def test_more_tokens_frames_or_prompt_than_may_be_are_refused() -> None:
    stages = FakeStages()
    services = make_services(FakeEngine(info=replace(INFO, limits=WorkLimits(max_audio_s=10))), stages=stages)
    long_prompt = token_values(range(9)) | {"prompt_speech_feat": np.ones((1551, 80), np.float16)}
    cases: list[tuple[str, dict[str, Any], str, str]] = [
        ("token2wav", token_values(range(251)), "waveform", "251 speech tokens are 10.04 s .* 250 are taken"),
        ("token2wav", token_values(range(251), 0), "waveform", "251 speech tokens"),
        ("vocoder", {"mel": np.ones((80, 501), np.float32)}, "tts_speech", "501 mel frames .* 500 are taken"),
        ("token2wav", long_prompt, "waveform", "1551 frames; expected 1550 at most"),
    ]
    async with both(services) as (rpc, url):
        for model, values, output, message in cases:
            for ask in (
                partial(inferred, rpc.address, model, values, output, request_id="a"),
                partial(inferred_over_http, url, model, values, output, True, request_id="a"),
            ):
                with pytest.raises(InferenceServerException, match=message):
                    await in_thread(ask)
        await in_thread(inferred, rpc.address, "token2wav", token_values(range(250)), "waveform")
    assert len(stages.opened) == 1


async def test_a_cosyvoice3_has_its_stages_apart() -> None:
    async with both(make_services(stages=FakeStages("cosyvoice3", gives_mel=True))) as (rpc, _):
        await in_thread(streamed, rpc.address, "cosyvoice3", {"target_text": "Hi."})
        mel = await in_thread(inferred, rpc.address, "token2wav", token_values(range(9)), "mel")
    assert mel.shape == (1, 80, 18)


async def test_the_server_and_its_models_are_described() -> None:
    async with both(make_services()) as (rpc, url):

        def described(client: Any) -> tuple[Any, Any]:
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.is_model_ready("cosyvoice2", "1")
            names = [model["name"] for model in _listed(client.get_model_repository_index())]
            assert names == ["cosyvoice2", "audio_tokenizer", "speaker_embedding", "token2wav", "vocoder"]
            inputs = [
                (spec["name"], spec["datatype"], [int(size) for size in spec["shape"]])
                for spec in _json(client.get_model_metadata("cosyvoice2"))["inputs"]
            ]
            assert inputs == [
                ("reference_wav", "FP32", [-1, -1]),
                ("reference_wav_len", "INT32", [-1, 1]),
                ("reference_text", "BYTES", [-1, 1]),
                ("target_text", "BYTES", [-1, 1]),
            ]
            config = _json(client.get_model_config("cosyvoice2"))
            config = config.get("config", config)
            assert config["model_transaction_policy"] == {"decoupled": True}
            assert config["input"][3]["data_type"] == "TYPE_STRING"
            statistics = _json(client.get_inference_statistics(""))["model_stats"]
            assert [model["name"] for model in statistics] == names
            return statistics[0], _json(client.get_server_metadata())

        await in_thread(streamed, rpc.address, "cosyvoice2", {"target_text": "Hi."})
        for module, address in ((triton_grpc, rpc.address), (triton_http, url.removeprefix("http://"))):
            with module.InferenceServerClient(address) as client:
                speech, server = await in_thread(described, client)
            assert int(speech["inference_stats"]["success"]["count"]) == 1
            assert int(speech["inference_stats"]["compute_infer"]["ns"]) > 0
            assert server["name"] == "firstword"


def _json(answer: Any) -> Any:
    """gRPC's messages as HTTP's JSON."""
    if isinstance(answer, dict | list):
        return answer
    return MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _listed(answer: Any) -> Any:
    models = _json(answer)
    return models["models"] if isinstance(models, dict) else models
