"""Thousands of calls against an engine that costs nothing leave nothing behind."""

import asyncio
import gc
import os
import resource
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio as triton_aio

from firstword.app.http.rpc.messages import message
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import Rpc, grpc_serving, until
from tests.support.serving import counted, make_services
from tests.support.triton_clients import tensors

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NUM_CALLS = 5_000
AT_ONCE = 50
SETTLED_S = 0.5

SynthesizeRequest = message("firstword.v1.SynthesizeRequest")


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd"))


async def call_all(rpc: Rpc, client: Any, engine: FakeEngine, num_calls: int) -> None:
    """Of every ten: five texts, two that leave, two inferences, one error."""
    inputs = tensors(triton_aio, {"target_text": "a"})

    async def call(number: int) -> None:
        kind = number % 10
        if kind in (7, 8):
            answer = await client.infer("cosyvoice2", inputs)
            assert answer.as_numpy("waveform").shape == (1, 10)
            return
        synthesis = rpc.speech("Synthesize")(SynthesizeRequest(text="" if kind == 9 else "ab"))
        if kind in (5, 6):
            await synthesis.read()
            synthesis.cancel()
            return
        try:
            while await synthesis.read():
                pass
        except Exception:
            assert kind == 9

    numbers = iter(range(num_calls))
    while batch := list(islice(numbers, AT_ONCE)):
        await asyncio.gather(*map(call, batch))
        engine.streams[:] = engine.open_streams  # the fake keeps all of them


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from Linux's /proc")
async def test_five_thousand_calls_leave_no_memory_task_or_handle() -> None:
    engine = FakeEngine(max_streams=AT_ONCE, samples_per_character=10)
    services = make_services(engine)
    async with grpc_serving(services) as rpc, triton_aio.InferenceServerClient(rpc.address) as client:
        await call_all(rpc, client, engine, NUM_CALLS // 5)  # what is allocated once
        await until(lambda: counted(services, "tts_requests_in_flight") == 0)
        await asyncio.sleep(SETTLED_S)
        gc.collect()
        memory, num_tasks, num_handles = resident_bytes(), len(asyncio.all_tasks()), open_handles()
        await call_all(rpc, client, engine, NUM_CALLS - NUM_CALLS // 5)
        await until(lambda: counted(services, "tts_requests_in_flight") == 0)
        # A call's last tasks end soon after it; one that was left would never.
        await until(lambda: len(asyncio.all_tasks()) <= num_tasks and open_handles() <= num_handles)
        gc.collect()
        memory_after = resident_bytes()
    assert memory_after <= 1.01 * memory, f"{memory} to {memory_after} bytes"
    assert not np.any(engine.open_streams)
