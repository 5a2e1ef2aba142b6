"""Load the networks, measure capacity and start the engine.

A checkpoint's networks, loaded and joined as the engine runs them.

Networks, generator, pool and admission joined to a running engine.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from firstword.app.engine.admission import Admission
from firstword.app.engine.backend import Backend, BackendChoice, Build, choose_backend
from firstword.app.engine.engine import SpeechEngine
from firstword.app.engine.interface import EngineInfo
from firstword.app.engine.stream import EngineParts, FeedFactory
from firstword.app.engine.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.engine.tokens.interface import TokenGenerator
from firstword.app.engine.tokens.prompt import PromptBuilder
from firstword.app.engine.tokens.torch_generator import TorchTokenGenerator
from firstword.app.engine.tokens.vllm_options import VllmOptions
from firstword.app.speakers.enrolment import PreparedSpeaker, Prompt
from firstword.app.telemetry.metrics import Metrics
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.flow.cosyvoice1 import RegulatedFlow
from firstword.models.flow.unet import CausalUNet
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.decoder import SpeechLM
from firstword.models.onnx.build import fused_estimator, fused_front, fused_generator, fused_lm
from firstword.models.token2wav import (
    DEFAULT_FIRST_HOP_TOKENS,
    DEFAULT_WINDOW_S,
    RegulatedToken2Wav,
    StepTimes,
    Token2Wav,
)

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]

PUBLISHED_LANGUAGES = ("zh", "en", "ja", "yue", "ko")  # the tags of CosyVoice 1's texts, which all can speak


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    device: Build
    num_threads: int  # of one network's arithmetic
    checkpoint: Checkpoint
    backend: Backend
    lm: SpeechLM | None  # None: it runs elsewhere
    token2wav: StreamingToken2Wav
    prepare: Callable[[SpeakerFeatures], Prompt]
    prompt_builder: PromptBuilder

    def device_memory_bytes(self) -> int:
        """What torch holds of the GPU; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def load_networks(
    directory: Path,
    device: Device = "auto",
    precision: Precision = "auto",
    window_s: float | None = DEFAULT_WINDOW_S,
    max_state_bytes: int | None = None,
    first_hop_tokens: int = DEFAULT_FIRST_HOP_TOKENS,
    backend: BackendChoice = "torch",
) -> Networks:
    """The three before the last as `Token2Wav` takes them; CosyVoice 1 has none of them.

    On a CPU the networks run as graphs, where there are any, with as many threads as torch has been given.

    Raises CheckpointError, BackendError, and ValueError for a device that is not there or has no such
    precision.
    """
    place, is_int8_asked = found_device(device), precision == "int8"
    precision = found_precision(precision, place)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    is_fused, has_int8 = place == "cpu" and dtype == torch.float32, precision == "int8"
    num_threads = torch.get_num_threads()
    checkpoint = open_checkpoint(directory)
    chosen = choose_backend(backend, place, checkpoint.config.family)
    flow, hift = checkpoint.load_flow(dtype, place), checkpoint.load_hift(dtype, place)
    generate = fused_generator(hift, num_threads) if is_fused else None
    token2wav: StreamingToken2Wav
    prepare: Callable[[SpeakerFeatures], Prompt]
    if isinstance(flow, RegulatedFlow):
        token2wav = regulated = RegulatedToken2Wav(flow, hift, generate=generate)
        prepare = regulated.compute_prompt_state
    else:
        # Unasked, only the networks are in 8 bits that were compared with trained weights.
        is_int8_flow = is_int8_asked or (has_int8 and isinstance(flow.estimator, CausalUNet))
        estimator = fused_estimator(flow, is_int8_flow, num_threads) if is_fused else None
        front = fused_front(flow, num_threads) if is_fused else None
        token2wav = incremental = Token2Wav(
            flow, hift, window_s, max_state_bytes, estimator=estimator, generate=generate, front=front
        )
        prepare = partial(incremental.compute_prompt_state, first_hop_tokens=first_hop_tokens)
    prompt_builder = PromptBuilder(checkpoint.config, checkpoint.load_tokenizer())
    lm: SpeechLM | None = None
    if chosen.name == "torch":
        loaded = checkpoint.load_lm(dtype, place)
        lm = fused_lm(loaded, has_int8, num_threads) if is_fused else loaded
    return Networks(place, num_threads, checkpoint, chosen, lm, token2wav, prepare, prompt_builder)


def found_device(device: Device) -> Build:
    """Raises ValueError where CUDA is asked for and there is none."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device cuda was asked for, but torch finds none; use cpu or auto, or mend the driver"
        )
    return device


def found_precision(precision: Precision, device: str) -> Precision:
    """Raises ValueError where the device cannot have it."""
    if precision == "auto":
        return "int8" if device == "cpu" else "float32"
    if precision == "int8" and device != "cpu":
        raise ValueError(
            f"precision int8 was asked for on {device}; it is for the CPU: use bfloat16 or float32"
        )
    return precision


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
    prompt_builder = networks.prompt_builder
    generator = await _started_generator(plan.vllm, networks, metrics)
    pool = Token2WavPool(
        networks.token2wav,
        plan.num_workers,
        1 if networks.device == "cpu" else MAX_CHUNKS_IN_BATCH,
        lambda size, times: _note(metrics, size, times),
    )
    resources = EngineParts(
        info=info,
        generator=generator,
        prompt_builder=prompt_builder,
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
        from firstword.app.engine.tokens.vllm_engine import start_generator

        metrics.show_families_of("vllm:")
        return await start_generator(networks.checkpoint, options, networks.num_threads)
    return TorchTokenGenerator(
        networks.lm,
        networks.checkpoint.config.lm.sampling,
        networks.prompt_builder.mix_ratio,
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
