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


class UnreadCall:
    client, host, cancel_reason = ANYBODY, "", "disconnect"
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
