"""Requests that meet in one session or one call, where no client of NVIDIA's would send them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from firstword.app.clients import ANYBODY
from firstword.app.errors import InvalidRequest, StreamTimeout
from firstword.app.http.rpc.messages import message
from firstword.app.surfaces.inference.inference import Caller, Inference, InferenceRequest
from firstword.app.surfaces.inference.rpc import InferenceService
from tests.support.fake_engine import FakeEngine
from tests.support.fake_stages import SAMPLES_PER_TOKEN, FakeStages
from tests.support.grpc_serving import until
from tests.support.serving import make_services

pytestmark = pytest.mark.anyio

ModelInferRequest = message("inference.ModelInferRequest")


def asked(inference: Inference, num_tokens: int) -> InferenceRequest:
    """Goes on with the session "a"."""
    inputs = {
        "target_speech_tokens": np.arange(num_tokens, dtype=np.int32)[None],
        "token_offset": np.zeros((1, 1), np.int32),
    }
    return inference.request(inference.find("token2wav"), "a", inputs, {}, ())


async def test_a_request_that_waited_for_a_session_does_not_use_it_once_it_has_ended() -> None:
    """As of a client that gives its first request up and sends it again."""
    stages = FakeStages(pause=asyncio.Event())
    inference = Inference(make_services(stages=stages))
    given_up = asyncio.create_task(inference.whole(asked(inference, 10), Caller(ANYBODY, 0.0)))
    await until(lambda: inference.num_sessions == 1)
    again = asyncio.create_task(inference.whole(asked(inference, 10), Caller(ANYBODY, 0.0)))
    (session,) = inference._sessions.values()
    await until(lambda: bool(session.lock._waiters))
    given_up.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(InvalidRequest, match="ended while this request waited"):
            await again
    assert stages.open_sessions == []
    assert stages.pause is not None
    stages.pause.set()
    samples = await inference.whole(asked(inference, 10), Caller(ANYBODY, 0.0))
    assert samples.shape == (1, (10 - stages.lookahead_tokens) * SAMPLES_PER_TOKEN)
    inference.close()


class WrittenCall:
    """Takes what is written, at once."""

    client, host, cancel_reason, caller = ANYBODY, "", "disconnect", "ann"
    metadata: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write(self, message: Any) -> None:
        self.written.append(message)


def step(num_tokens: int, num_idle_bytes: int) -> Any:
    """Goes on with the session "a"."""
    request = ModelInferRequest(model_name="token2wav", id="a")
    for name, values in (("target_speech_tokens", range(num_tokens)), ("token_offset", [0])):
        request.inputs.add(name=name, datatype="INT32", shape=[1, len(values)])
        request.raw_input_contents.append(np.array(values, "<i4").tobytes())
    request.parameters["idle"].string_param = "x" * num_idle_bytes
    return request


async def test_of_the_large_requests_of_a_stream_few_wait_in_the_server() -> None:
    """And long or short, those of one session are taken in their order."""
    stages = FakeStages(pause=asyncio.Event())
    services = make_services(stages=stages)
    service = InferenceService(Inference(services))
    num_read = 0

    async def requests() -> AsyncIterator[Any]:
        nonlocal num_read
        for number in range(30):
            num_read += 1
            yield step(10 * (number + 1), 1_500_000 if number % 2 == 0 else 0)

    call = WrittenCall()
    methods = service.methods()["inference.GRPCInferenceService"]
    answering = asyncio.create_task(methods["ModelStreamInfer"].handler(requests(), call))
    await until(lambda: bool(stages.open_sessions))
    await until(lambda: services.bounds.held.num_bytes > 2_900_000)
    for _ in range(50):
        await asyncio.sleep(0)
    assert num_read == 5  # the third large one waits for the first
    assert services.bounds.held.num_bytes < 4 << 20
    assert stages.pause is not None
    stages.pause.set()
    async with asyncio.timeout(20):
        await answering
    assert [one.error_message for one in call.written] == [""] * 30
    assert services.bounds.held.num_bytes == 0


async def test_large_requests_that_are_being_spoken_keep_no_other_waiting() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    services = make_services(engine)

    async def requests() -> AsyncIterator[Any]:
        for number in range(4):
            request = ModelInferRequest(model_name="cosyvoice2", id=str(number))
            text = request.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1])
            text.contents.bytes_contents.append(b"Hello there.")
            sound = request.inputs.add(name="reference_wav", datatype="FP32", shape=[1, 480_000])
            sound.contents.fp32_contents.extend([0.1] * 480_000)  # 30 s
            yield request

    call: Any = WrittenCall()
    answering = asyncio.create_task(InferenceService(Inference(services))._stream_infer(requests(), call))
    await until(lambda: len({one.infer_response.id for one in call.written}) == 4)
    assert len(engine.open_streams) == 4
    assert services.bounds.held.num_bytes == 0
    assert engine.pause is not None
    engine.pause.set()
    async with asyncio.timeout(20):
        await answering
    assert [one.error_message for one in call.written] == [""] * len(call.written)


class UnreadCall:
    client, host, cancel_reason, caller = ANYBODY, "", "disconnect", "ann"
    metadata: Mapping[str, str] = MappingProxyType({})
    num_writes = 0

    async def write(self, message: Any) -> None:
        self.num_writes += 1
        raise StreamTimeout("the client read nothing")


async def test_a_stream_that_nobody_reads_ends_by_its_timeout_and_is_no_fault_of_ours() -> None:
    async def requests() -> AsyncIterator[Any]:
        request = ModelInferRequest(model_name="cosyvoice2", id="a")
        text = request.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1])
        text.contents.bytes_contents.append(b"Hi.")
        yield request
        await asyncio.Event().wait()  # more may come

    call: Any = UnreadCall()
    async with asyncio.timeout(20):
        with pytest.raises(StreamTimeout):
            await InferenceService(Inference(make_services()))._stream_infer(requests(), call)
    assert call.num_writes == 1
