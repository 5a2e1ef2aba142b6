"""Networks, generator, pool and admission joined to a running engine."""

import asyncio
import math
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
from app.engine.tokens.torch_generator import TorchTokenGenerator
from app.speakers.enrolment import PreparedSpeaker
from app.telemetry.metrics import Metrics
from models.token2wav import StepTimes

MAX_CHUNKS_IN_BATCH = 8
CPU_PATIENCE_S = 0.3  # about what a chunk takes
_SWITCH_INTERVAL_S = 1e-4


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Sizes and limits of an engine. num_threads: of one network's arithmetic, 0 chooses by the CPU."""

    max_queued: int
    queue_timeout_s: float
    listener_buffer_s: float
    num_threads: int
    num_workers: int


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
    """Warmed up; at the end all streams are ended and all threads gone."""
    set_threads(plan.num_threads, plan.num_workers)
    prompting = networks.prompting
    generator = TorchTokenGenerator(
        networks.lm,
        networks.checkpoint.config.lm.sampling,
        prompting.mix_ratio,
        on_step=lambda num_rows, seconds: metrics.batch_size.labels(stage="llm").observe(num_rows),
    )
    pool = Token2WavPool(
        networks.token2wav,
        plan.num_workers,
        MAX_CHUNKS_IN_BATCH,
        lambda size, times: _note(metrics, size, times),
        _patience_s(networks),
        clock,
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
    )
    admission = Admission(info.max_streams, plan.max_queued, plan.queue_timeout_s, clock)
    engine = SpeechEngine(resources, admission, prepared)
    try:
        await engine.warm_up()
        yield engine
    finally:
        await asyncio.shield(engine.aclose())


def _patience_s(networks: Networks) -> float:
    """On a GPU a batch costs hardly more than one chunk; on a CPU each chunk in it holds up the others."""
    is_on_cpu = next(networks.lm.parameters()).device.type == "cpu"
    return CPU_PATIENCE_S if is_on_cpu else math.inf


def set_threads(num_threads: int, num_workers: int) -> None:
    """Shares the cores between the generator's thread and the workers, for the whole process.

    The threads hand Python's lock to each other far more often than its default of 5 ms foresees.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(num_threads or max(1, cores // (1 + num_workers)))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _note(metrics: Metrics, size: int, times: StepTimes) -> None:
    for stage, seconds in (("flow", times.flow_s), ("vocoder", times.vocoder_s)):
        metrics.stage_seconds.labels(stage=stage).observe(seconds)
        metrics.batch_size.labels(stage=stage).observe(size)
