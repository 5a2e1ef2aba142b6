"""Networks, generator, pool and admission joined to a running engine."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import torch

from app.engine.admission import Admission
from app.engine.engine import SpeechEngine
from app.engine.interface import EngineInfo
from app.engine.loading import Networks
from app.engine.resources import FeedFactory, Resources
from app.engine.token2wav_pool import Token2WavPool
from app.engine.tokens.interface import TokenGenerator
from app.engine.tokens.torch_generator import TorchTokenGenerator
from app.engine.tokens.vllm_options import VllmOptions
from app.speakers.enrolment import PreparedSpeaker
from app.telemetry.metrics import Metrics
from models.token2wav import StepTimes

MAX_CHUNKS_IN_BATCH = 8  # of a GPU
MAX_WORKERS = 8
_SWITCH_INTERVAL_S = 1e-4


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Sizes and limits of an engine. max_streams: None measures it at the start.

    vllm: what its engine is given, where the networks chose it.
    """

    max_streams: int | None
    max_queued: int
    queue_timeout_s: float
    listener_buffer_s: float
    trims_silence: bool
    num_workers: int
    vllm: VllmOptions


@asynccontextmanager
async def running_engine(
    plan: EnginePlan,
    info: EngineInfo,
    networks: Networks,
    prepared: Callable[[str | None], Awaitable[PreparedSpeaker]],
    feed: FeedFactory,
    metrics: Metrics,
    clock: Callable[[], float] = time.perf_counter,
) -> AsyncIterator[SpeechEngine]:
    """Warmed up; at the end all streams are ended and all threads gone.

    Raises BackendError and CheckpointError where vLLM does not start.
    """
    prompting = networks.prompting
    generator = await _started_generator(plan.vllm, networks, metrics)
    pool = Token2WavPool(
        networks.token2wav,
        plan.num_workers,
        1 if networks.device == "cpu" else MAX_CHUNKS_IN_BATCH,
        lambda size, times: _note(metrics, size, times),
    )
    resources = Resources(
        info=info,
        generator=generator,
        prompting=prompting,
        token2wav=networks.token2wav,
        pool=pool,
        feed=feed,
        metrics=metrics,
        clock=clock,
        listener_buffer_s=plan.listener_buffer_s,
        trims_silence=plan.trims_silence,
    )
    admission = Admission(plan.max_streams or 1, plan.max_queued, plan.queue_timeout_s, clock)
    engine = SpeechEngine(resources, admission, prepared)
    try:
        await engine.warm_up(measures=plan.max_streams is None)
        yield engine
    finally:
        await asyncio.shield(engine.aclose())


async def _started_generator(options: VllmOptions, networks: Networks, metrics: Metrics) -> TokenGenerator:
    if networks.lm is None:
        from app.engine.tokens.vllm_process import start_generator  # where it is not used it may be missing

        metrics.show_families_of("vllm:")
        return await start_generator(networks.checkpoint, options, networks.num_threads)
    return TorchTokenGenerator(
        networks.lm,
        networks.checkpoint.config.lm.sampling,
        networks.prompting.mix_ratio,
        on_step=lambda num_rows, seconds: metrics.batch_size.labels(stage="llm").observe(num_rows),
    )


def chosen_workers(num_workers: int, device: str) -> int:
    """0: as many as there are cores on a CPU, where each computes for one stream at a time; else one."""
    return num_workers or (min(_num_cores(), MAX_WORKERS) if device == "cpu" else 1)


def set_threads(num_threads: int, num_workers: int) -> None:
    """For the whole process, before networks are loaded. num_threads: of one network's arithmetic, 0
    shares the cores among the workers.

    The threads hand Python's lock to each other far more often than its default of 5 ms foresees.
    """
    torch.set_num_threads(num_threads or max(1, _num_cores() // num_workers))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _note(metrics: Metrics, size: int, times: StepTimes) -> None:
    for stage, seconds in (("flow", times.flow_s), ("vocoder", times.vocoder_s)):
        metrics.stage_seconds.labels(stage=stage).observe(seconds)
        metrics.batch_size.labels(stage=stage).observe(size)
