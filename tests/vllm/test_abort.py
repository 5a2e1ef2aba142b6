"""An utterance that is stopped leaves no request and no block of memory in vLLM's engine."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from firstword.models.lm.tokens import TokenRequest
from tests.support.reference_lm import ids
from tests.vllm.engine import VllmEngine, spoken, whole_utterance

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]

LONG_TEXT_TOKENS = 90  # at least 180 speech tokens


def gauge(engine: VllmEngine, name: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"model_name": engine.case.name, "engine": "0"})


def test_stopped_streams_leave_nothing_behind(v3: VllmEngine) -> None:
    text = (ids(v3.case.io["text"]) * LONG_TEXT_TOKENS)[:LONG_TEXT_TOKENS]

    async def stop_some() -> list[int]:
        streams = [v3.generator.start(TokenRequest(tuple(text), (), (), (), None, seed)) for seed in range(4)]
        await asyncio.gather(*(stream.wait_for(5) for stream in streams))
        for stream in streams:
            v3.generator.stop(stream)
        assert [stream.reason for stream in streams] == ["stopped"] * 4
        await spoken(v3.generator, whole_utterance(v3))  # its steps tell the figures anew
        return [len(stream.ids) for stream in streams]

    assert max(v3.run(stop_some())) < 2 * LONG_TEXT_TOKENS
    assert gauge(v3, "vllm:num_requests_running") == 0
    assert gauge(v3, "vllm:num_requests_waiting") == 0
    assert gauge(v3, "vllm:kv_cache_usage_perc") == 0
