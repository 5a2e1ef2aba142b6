"""Start the engine: load the networks, assemble the parts around them, warm up, measure capacity."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch

from firstword.app.core.admission import Admission
from firstword.app.core.interface import EngineInfo
from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.prompt import PromptBuilder
from firstword.app.core.text_task import EngineParts
from firstword.app.core.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.core.tokens import TokenGenerator
from firstword.app.engine.backend import (
    Backend,
    BackendError,
    Device,
    FlowBackendName,
    choose_backend,
    choose_flow_backend,
)
from firstword.app.engine.capacity import capacity_key, is_capacity
from firstword.app.engine.engine import SpeechEngine
from firstword.app.engine.loudness import Loudness
from firstword.app.engine.measurement import MeasurementFile
from firstword.app.engine.precision import (
    PRODUCTS_FILE,
    CpuFormats,
    cpu_formats,
    engine_dtype,
    find_device,
    find_precision,
    stored_products,
)
from firstword.app.engine.stages import NetworkStages
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.engine.tokens.torch_generator import TorchTokenGenerator
from firstword.app.options import (
    EngineOptions,
    InvalidOptions,
    LMEngineOptions,
    NetworkOptions,
    PrecisionChoice,
    SpeakerOptions,
)
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.enrolment import FirstHopPromptStates, PromptStates, SpeakerNetworks
from firstword.app.speakers.registry import DEFAULT_MAX_BUNDLE_BYTES, SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from firstword.app.telemetry.metrics import Metrics
from firstword.app.text import language
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.cuda import choose_kernels
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import OtherEstimator, OtherFront
from firstword.models.hift.hift import Generate, HiFT
from firstword.models.hift.streaming import LEFT_FRAMES, RIGHT_FRAMES, CausalGenerate
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.runtimes.exports.directory import Exports, open_exports
from firstword.models.runtimes.exports.formats import ExportError
from firstword.models.runtimes.graphs.build import graphed_generator, graphed_lm
from firstword.models.runtimes.graphs.flow import STREAMS, GraphedFlow
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front, onnx_generator, onnx_lm
from firstword.models.runtimes.tensorrt.engines import EngineNetworks, find_plans, load_engines
from firstword.models.runtimes.tensorrt.library import TensorRTError
from firstword.models.speaker_match import matched
from firstword.models.token2wav import (
    DEFAULT_FIRST_HOP_TOKENS,
    CosyVoice1Token2Wav,
    Token2Wav,
)
from firstword.models.token2wav_step import StepTimes

SPEAKERS_FILE = "speakers.sqlite3"
LOUDNESS_FILE = "loudness.json"
CAPACITY_FILE = "capacity.json"
ENGINES_DIRECTORY = "tensorrt"  # of the plans that `firstword tensorrt` builds
MAX_CHUNKS_IN_BATCH = 8  # on a GPU
GPU_FIRST_HOP_TOKENS = 5
MAX_ROWS = 64  # utterances in a step of the language model, of which CUDA graphs are recorded
PAGES_SHARE = 0.45  # of a GPU's memory, for what streams and prompts of the flow keep
PLANNED_STREAMS = 40  # that share it; a stream's window is shortened to fit
SPEAKERS_SHARE = 0.1  # of a GPU's memory, for speakers kept ready; theirs are pages too
DEFAULT_SPEAKER_CACHE_MB = 512
MAX_WORKERS = 8
QUIET_S = 0.5  # without a stream, before a speaker that nobody has asked for yet is prepared
_SWITCH_INTERVAL_S = 1e-4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """A checkpoint's networks as the engine runs them.

    num_threads: of one network's arithmetic.
    """

    device: Device
    num_threads: int
    checkpoint: Checkpoint
    backend: Backend
    lm: SpeechLM | None  # None: it runs in a process of its own
    token2wav: StreamingToken2Wav
    prompt_states: PromptStates
    prompt_builder: PromptBuilder

    def device_memory_bytes(self) -> int:
        """GPU memory that torch has allocated; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


@dataclass(frozen=True, slots=True, eq=False)
class RunningEngine:
    """The engine with the parts it was built of, ready to speak."""

    engine: SpeechEngine
    speakers: SpeakerRegistry
    consents: ConsentStore
    speaker_networks: SpeakerNetworks
    networks: Networks
    pool: Token2WavPool
    stages: NetworkStages


NetworksLoading = Future[Networks]


def load_in_thread(
    network_options: NetworkOptions, engine_options: EngineOptions, data_dir: Path
) -> NetworksLoading:
    """Begin to load the networks, and what tells languages apart, in threads; the future raises."""

    def load() -> Networks:
        set_threads(network_options)  # here: a thread that has used torch before keeps its own number
        if engine_options.remeasure:
            (data_dir / PRODUCTS_FILE).unlink(missing_ok=True)
        return load_networks(network_options, data_dir)

    pool = ThreadPoolExecutor(2, "networks")
    loading = pool.submit(load)
    pool.submit(language.warm_up)
    pool.shutdown(wait=False)
    return loading


@asynccontextmanager
async def running_engine(
    network_options: NetworkOptions,
    engine_options: EngineOptions,
    speaker_options: SpeakerOptions,
    lm_options: LMEngineOptions,
    metrics: Metrics,
    *,
    clock: Callable[[], float] = time.perf_counter,
    max_bundle_bytes: int = DEFAULT_MAX_BUNDLE_BYTES,
    loading: NetworksLoading | None = None,
) -> AsyncIterator[RunningEngine]:
    """Load, assemble and warm up; at the end all streams are ended and all threads and processes gone.

    loading: of these networks, where it has begun. Raises InvalidOptions, BackendError, CheckpointError and
    SpeakerStoreError.
    """
    loading = loading or load_in_thread(network_options, engine_options, speaker_options.data_dir)
    networks = await asyncio.wrap_future(loading)
    tokenizer = networks.prompt_builder.tokenizer
    token2wav = networks.token2wav
    checkpoint, states = networks.checkpoint, networks.prompt_states
    mel, mean = checkpoint.config.mel, checkpoint.traits.mean_embedding
    matching = partial(matched, config=mel, mean_embedding=mean)
    match = partial(matching, token2wav) if isinstance(token2wav, Token2Wav) else None
    text, speaker_networks = await asyncio.gather(
        asyncio.to_thread(text_frontend, tokenizer, checkpoint, engine_options.lexicon),
        asyncio.to_thread(SpeakerNetworks, checkpoint, tokenizer, states, 1, networks.lm, match),
    )
    speaker_options.data_dir.mkdir(parents=True, exist_ok=True)
    store_path = speaker_options.data_dir / SPEAKERS_FILE
    loudness = _loudness(speaker_options, networks.checkpoint, speaker_networks.fingerprint)
    speakers = SpeakerRegistry(
        SpeakerStore(store_path),
        speaker_networks,
        max_cache_bytes=speaker_cache_bytes(speaker_options, networks.device),
        default_speaker=speaker_options.default_speaker,
        max_bundle_bytes=max_bundle_bytes,
        on_hit=metrics.speaker_cache_hits.inc,
        on_miss=metrics.speaker_cache_misses.inc,
        on_registered=lambda identity, speaker: loudness and loudness.gain_of(identity, speaker),
    )
    async with speakers:
        info = _engine_info(networks, speakers.default_speaker, engine_options.max_text_chars)
        precision = find_precision(network_options.precision, networks.device)
        generator = await _start_generator(
            networks, lm_options, precision, engine_options.max_streams, speaker_options.data_dir, metrics
        )
        pool = Token2WavPool(
            networks.token2wav,
            choose_num_workers(network_options.num_workers, networks.device),
            1 if networks.device == "cpu" else MAX_CHUNKS_IN_BATCH,
            lambda size, times: _observe_batch(metrics, size, times),
            torch.device(networks.device),
        )
        key = capacity_key(speaker_networks.fingerprint, network_options, lm_options, networks.backend.name)
        capacity = MeasurementFile(speaker_options.data_dir / CAPACITY_FILE, key)
        max_streams = engine_options.max_streams
        if not max_streams and not engine_options.remeasure and is_capacity(known := capacity.read()):
            max_streams = known
            _log.info("%d streams run at once, as an earlier start measured", max_streams)
        admission = Admission(
            max_streams or 1,
            engine_options.max_queued,
            engine_options.queue_timeout_s,
            clock,
            engine_options.max_queued_files,
            engine_options.file_queue_timeout_s,
        )
        parts = EngineParts(
            info=info,
            admission=admission,
            speakers=speakers,
            generator=generator,
            prompt_builder=networks.prompt_builder,
            token2wav=networks.token2wav,
            pool=pool,
            text=text,
            metrics=metrics,
            clock=clock,
            listener_buffer_s=engine_options.listener_buffer_s,
            hop_strategy=engine_options.hop_strategy,
            writer_pause_s=engine_options.writer_pause_ms / 1000,
            trims_silence=engine_options.trim_silence,
            loudness=loudness,
            phrases=PhraseCache(
                engine_options.phrase_cache_mb << 20,
                metrics.phrase_cache_hits.inc,
                metrics.phrase_cache_misses.inc,
            ),
        )
        engine = SpeechEngine(parts)
        try:
            _describe(metrics, info, networks, speakers)
            await engine.warm_up(measures=not max_streams)
            if not max_streams:
                capacity.write(engine.max_streams)
            speakers.prepare_builtin(partial(admission.wait_until_quiet, QUIET_S))
            stages = NetworkStages(
                networks.checkpoint.config.family,
                networks.checkpoint.config.flow.vocab_size,
                networks.token2wav,
                speakers,
                speaker_networks,
                pool,
                admission,
            )
            with closing(await asyncio.to_thread(ConsentStore.open, store_path)) as consents:
                yield RunningEngine(engine, speakers, consents, speaker_networks, networks, pool, stages)
        finally:
            await asyncio.shield(engine.aclose())


async def _start_generator(
    networks: Networks,
    options: LMEngineOptions,
    precision: PrecisionChoice,
    max_streams: int,
    data_dir: Path,
    metrics: Metrics,
) -> TokenGenerator:
    """Start torch's generator of tokens, or an engine in a process of its own and that one's."""
    checkpoint, device = networks.checkpoint, networks.device
    if networks.lm is not None:
        return TorchTokenGenerator(
            networks.lm,
            checkpoint.config.lm,
            on_step=lambda num_rows, seconds: metrics.batch_size.labels(stage="llm").observe(num_rows),
        )
    directory = data_dir / networks.backend.name  # of the language models as that engine reads them
    on_restart = metrics.engine_restarts.inc
    if networks.backend.name == "trtllm":
        from firstword.app.engine.tokens.trtllm_engine import start_trtllm

        return await start_trtllm(checkpoint, options.trtllm, precision, directory, device, on_restart)
    from firstword.app.engine.tokens.vllm_engine import start_vllm

    metrics.show_families_of("vllm:")
    threads = networks.num_threads
    return await start_vllm(
        checkpoint, options.vllm, precision, max_streams, directory, threads, device, on_restart
    )


def load_networks(options: NetworkOptions, data_dir: Path | None = None) -> Networks:
    """Load what `options.checkpoint` holds for `options.device` and its precision.

    In float32 and few bits a CPU runs the networks as ONNX Runtime graphs, with as many threads as torch.
    data_dir: where TensorRT's plans are, and what was measured is kept; None: there are none, and it is not.
    Raises CheckpointError, BackendError and InvalidOptions.
    """
    device = find_device(options.device)
    if options.cuda_graphs and device != "cuda":
        raise InvalidOptions(f"FIRSTWORD_CUDA_GRAPHS is on, which needs a GPU, but the device is {device}")
    if device == "cuda":
        choose_kernels()
    precision = find_precision(options.precision, device)
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision, torch.float32)
    num_threads = torch.get_num_threads()
    checkpoint = open_checkpoint(options.checkpoint)
    if options.solver_steps:
        checkpoint = replace(checkpoint, config=checkpoint.config.with_solver_steps(options.solver_steps))
    family = checkpoint.config.family
    backend = choose_backend(options.backend, device, family)
    flow_backend = choose_flow_backend(
        options.flow_backend, device, options.precision, family, options.state_precision
    )
    formats = cpu_formats(
        options.precision if device == "cpu" else "float32",
        checkpoint.config,
        lambda: stored_products(num_threads, data_dir),
    )
    if device == "cpu" and dtype == torch.float32:
        _log.info("%s", formats)
    exports = None if options.exports is None else _open_exports(options.exports, checkpoint, dtype, device)
    loading = _Loading(options, checkpoint, device, dtype, num_threads, formats, exports)
    at_once = 2 if device == "cpu" else 1  # CUDA graphs are recorded while nothing else computes
    with ThreadPoolExecutor(at_once, "loading") as pool:
        acoustic = pool.submit(loading.token2wav, flow_backend, data_dir)
        lm = pool.submit(loading.lm) if backend.name == "torch" else None  # else a process of its own has it
        tokenizer = pool.submit(checkpoint.load_tokenizer)
    token2wav, prompt_states = acoustic.result()
    return Networks(
        device=device,
        num_threads=num_threads,
        checkpoint=checkpoint,
        backend=backend,
        lm=None if lm is None else lm.result(),
        token2wav=token2wav,
        prompt_states=prompt_states,
        prompt_builder=PromptBuilder(
            checkpoint.config,
            tokenizer.result(),
            checkpoint.ratios,
            checkpoint.traits.continues_prompts,
            checkpoint.load_accent_tokens(tokenizer.result()),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Loading:
    """How a checkpoint's networks are loaded; its methods may run at the same time."""

    options: NetworkOptions
    checkpoint: Checkpoint
    device: Device
    dtype: torch.dtype
    num_threads: int
    formats: CpuFormats
    exports: Exports | None

    def lm(self) -> SpeechLM:
        lm = self.checkpoint.load_lm(self.dtype, self.device)
        if self.exports is not None and isinstance(lm, TransformerLM):
            self.exports.use_lm(lm)
        if self.device == "cpu" and self.dtype == torch.float32:
            return onnx_lm(lm, self.formats.lm, self.num_threads)
        return graphed_lm(lm, MAX_ROWS) if self.options.cuda_graphs else lm

    def token2wav(
        self, backend: FlowBackendName, data_dir: Path | None
    ) -> tuple[StreamingToken2Wav, PromptStates]:
        """Flow and vocoder, and what computes their prompt states."""
        options, exports, formats = self.options, self.exports, self.formats
        flow = self.checkpoint.load_flow(self.dtype, self.device)
        hift = self.checkpoint.load_hift(self.dtype, self.device)
        generate: Generate | None = None if exports is None else exports.generator(hift)
        if generate is None and backend == "onnx":
            generate = onnx_generator(hift, formats.has_int8_vocoder, self.num_threads)
        if generate is None and options.cuda_graphs and (graphed := graphed_generator(hift)):
            generate = graphed
            if isinstance(flow, Flow):
                first_tokens = first_hop_tokens(options, self.device)
                graphed.record(piece_frames(first_tokens, flow.chunk_tokens), STREAMS, hift)
        if isinstance(flow, CosyVoice1Flow):
            if exports is not None:
                exports.use_flow(flow)
            cosyvoice1 = CosyVoice1Token2Wav(flow, hift, generate=generate)
            return cosyvoice1, cosyvoice1
        estimator: OtherEstimator | None = None
        front: OtherFront | None = None
        causal_generate: CausalGenerate | None = None
        if backend == "onnx":
            precision = options.state_precision
            estimator = onnx_estimator(flow, formats.has_int8_flow, self.num_threads, precision)
            front = onnx_front(flow, self.num_threads)
        elif backend == "tensorrt":
            by_engines = _engine_networks(options, self.checkpoint, flow, hift, data_dir)
            estimator = by_engines.estimator
            generate = by_engines.generate
            causal_generate = by_engines.causal_generate
        whole: GraphedFlow | None = None
        if options.cuda_graphs and backend == "torch":
            whole = GraphedFlow(flow, round(PAGES_SHARE * card_bytes()))
            whole.record()
        incremental = Token2Wav(
            flow,
            hift,
            options.window_s or None,
            options.max_state_bytes or (None if whole is None else whole.num_bytes // PLANNED_STREAMS),
            estimator=estimator,
            generate=generate,
            front=front,
            causal_generate=causal_generate,
            whole=whole,
        )
        return incremental, FirstHopPromptStates(incremental, first_hop_tokens(options, self.device))


def _engine_networks(
    options: NetworkOptions, checkpoint: Checkpoint, flow: Flow, hift: HiFT, data_dir: Path | None
) -> EngineNetworks:
    """A context for each of the threads that may run an engine. Raises BackendError."""
    assert data_dir is not None, "engines were asked for"
    directory = data_dir / ENGINES_DIRECTORY
    num_contexts = choose_num_workers(options.num_workers, "cuda")
    try:
        found = find_plans(checkpoint, engine_dtype(options.precision), options.window_s or None, directory)
        return load_engines(found, flow, hift, num_contexts)
    except (TensorRTError, OSError) as error:
        raise BackendError(f"FIRSTWORD_FLOW_BACKEND is tensorrt, but {error}") from error


def _open_exports(directory: Path, checkpoint: Checkpoint, dtype: torch.dtype, device: Device) -> Exports:
    try:
        return open_exports(directory, checkpoint, dtype, device)
    except ExportError as error:
        raise InvalidOptions(f"FIRSTWORD_EXPORTS cannot be used: {error}") from None


def piece_frames(first_tokens: int, hop_tokens: int) -> list[int]:
    """Lengths of mel that the windowed vocoder is given mostly, its contexts included.

    A first hop and a whole one with what follows, then a whole one with all its left context, and a stream
    that begins with a whole one.
    """
    first, whole = FRAMES_PER_TOKEN * first_tokens, FRAMES_PER_TOKEN * hop_tokens
    lefts = {(0, first), (min(first, LEFT_FRAMES), whole), (LEFT_FRAMES, whole), (0, whole)}
    return sorted(left + new + RIGHT_FRAMES for left, new in lefts)


def card_bytes() -> int:
    """Memory of the GPU."""
    return torch.cuda.mem_get_info()[1]


def speaker_cache_bytes(options: SpeakerOptions, device: Device) -> int:
    if not options.speaker_cache_mb and device == "cuda":
        return round(SPEAKERS_SHARE * card_bytes())
    return (options.speaker_cache_mb or DEFAULT_SPEAKER_CACHE_MB) << 20


def first_hop_tokens(options: NetworkOptions, device: Device) -> int:
    default = GPU_FIRST_HOP_TOKENS if device == "cuda" else DEFAULT_FIRST_HOP_TOKENS
    return options.first_hop_tokens or default


def choose_num_workers(num_workers: int, device: Device) -> int:
    """0: as many as there are cores on a CPU, where each computes for one stream at a time; else one."""
    return num_workers or (min(_num_cores(), MAX_WORKERS) if device == "cpu" else 1)


def threads_of(options: NetworkOptions) -> int:
    """Of one network's arithmetic."""
    num_workers = choose_num_workers(options.num_workers, find_device(options.device))
    return options.num_threads or max(1, _num_cores() // num_workers)


def set_threads(options: NetworkOptions) -> None:
    """Set torch's threads and Python's switch interval for the process, before networks are loaded.

    The default interval of 5 ms makes the threads of the pool wait for each other far too long.
    """
    torch.set_num_threads(threads_of(options))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _loudness(options: SpeakerOptions, checkpoint: Checkpoint, fingerprint: str) -> Loudness | None:
    if options.loudness_lufs is None:
        return None
    path = options.data_dir / LOUDNESS_FILE
    return Loudness(options.loudness_lufs, path, fingerprint, checkpoint.traits.languages)


def _engine_info(networks: Networks, default_speaker: str | None, max_text_chars: int) -> EngineInfo:
    checkpoint = networks.checkpoint
    if default_speaker is None:
        raise InvalidOptions(
            f"{checkpoint.directory} brings no speakers and FIRSTWORD_DEFAULT_SPEAKER names none; name one"
        )
    return EngineInfo(
        checkpoint=checkpoint.directory.resolve().name,
        backend=networks.backend.name,
        sample_rate_hz=networks.token2wav.sample_rate_hz,
        default_speaker=default_speaker,
        can_continue_text=networks.prompt_builder.can_continue_text,
        takes_instruct=checkpoint.traits.takes_instruct,
        languages=checkpoint.traits.languages,
        max_text_chars=max_text_chars,
        voice_modes=(
            *("zero_shot", "cross_lingual", "sft"),
            *(("instruct",) if checkpoint.traits.takes_instruct else ()),
        ),
        num_speech_ids=checkpoint.config.flow.vocab_size,
        token_rate_hz=checkpoint.config.token_rate_hz,
        accents=checkpoint.traits.accents,
    )


def _describe(metrics: Metrics, info: EngineInfo, networks: Networks, speakers: SpeakerRegistry) -> None:
    metrics.build_info.info(
        {"version": version("firstword"), "checkpoint": info.checkpoint, "backend": info.backend}
    )
    metrics.speakers.set_function(speakers.count)
    metrics.device_memory_bytes.set_function(networks.device_memory_bytes)
    loop = asyncio.get_running_loop()
    metrics.event_loop_tasks.set_function(lambda: len(asyncio.all_tasks(loop)))


def _observe_batch(metrics: Metrics, size: int, times: StepTimes) -> None:
    for stage, seconds in (("flow", times.flow_s), ("vocoder", times.vocoder_s)):
        metrics.stage_seconds.labels(stage=stage).observe(seconds)
        metrics.batch_size.labels(stage=stage).observe(size)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
