"""The networks of CosyVoice 2 and 3 with random weights made on the device, in every form they can run in."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from firstword.bench.gpu.measured import Form, NetworkRow, OnRow
from firstword.bench.networks import TEXT_TOKENS, random_speaker
from firstword.bench.random_checkpoint import Size, write_configuration
from firstword.models.config import (
    FRAMES_PER_TOKEN,
    NUM_MELS,
    DiTFlowConfig,
    Family,
    ModelConfig,
    Qwen2LMConfig,
    UNetFlowConfig,
)
from firstword.models.cuda import choose_kernels
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import IncrementalFlow
from firstword.models.flow.solver import noise_between, solve
from firstword.models.flow.state import estimator_layout
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import CausalVocoder, MelChunk, Vocoder, WindowedVocoder
from firstword.models.layers import FullContext
from firstword.models.lm.decoder import RowRequest, SpeechDecoder
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.torch.cuda_graphs.capture import captured
from firstword.models.runtimes.torch.cuda_graphs.estimator import ChunkPosition, EstimatorStep
from firstword.models.runtimes.torch.cuda_graphs.lm import DecoderStep, FusedDecoder

FORMS: tuple[Form, ...] = ("service", "eager", "graphs", "compiled", "tensorrt")
PROMPT_TOKENS = 75
WINDOW_CHUNKS = 10
CAPACITY = 512  # positions of the language model, of which STEP_POSITION are in use
STEP_POSITION = 300
BUFFER_FRAMES = 256  # of keys: a prompt of 3 s and 2 s of speech
VOCODER_FRAMES = 50  # a second
VOCODER_LEFT_FRAMES, VOCODER_RIGHT_FRAMES = 12, 6  # what the windowed vocoder computes beside it
MAX_RUNS = 50
WARM_UPS = 2

Network = TypeVar("Network", bound=nn.Module)
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured. seconds: spent at most on the timed runs of one row."""

    family: Family
    size: Size
    device: torch.device
    dtype: torch.dtype
    batches: tuple[int, ...]
    forms: tuple[Form, ...]
    seconds: float

    @property
    def precision(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def measure(subject: Subject, on_row: OnRow) -> None:
    """Every network in every form and batch; a row that fails has its reason, and the next one is tried."""
    torch.manual_seed(0)
    choose_kernels()
    with tempfile.TemporaryDirectory() as folder:
        config = write_configuration(Path(folder), subject.family, subject.size)
    for measure_network in (_measure_lm, _measure_flow, _measure_vocoder):
        with torch.no_grad():  # compilers want ordinary tensors
            measure_network(subject, config, on_row)
        if subject.device.type == "cuda":
            torch.cuda.empty_cache()


class _Rows:
    """Times the rows of one network, or notes why there are none."""

    def __init__(self, subject: Subject, what: str, on_row: OnRow):
        self._subject, self._what, self._on_row = subject, what, on_row

    def take(self, form: Form, batch: int, build: Callable[[], Call]) -> None:
        """build: -> what is timed, over memory of its own."""
        subject = self._subject
        if form not in subject.forms:
            return
        given = (subject.family, subject.precision, self._what, form, batch)
        try:
            reason = _missing(form, subject.device)
            times = [] if reason else timed(build(), subject.device, subject.seconds)
        except (RuntimeError, ImportError, AssertionError) as error:  # no memory for it, no compiler for it
            times, reason = [], f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        if not times:
            self._on_row(NetworkRow(*given, reason=reason))
            return
        ms = [1000 * seconds for seconds in times]
        self._on_row(NetworkRow(*given, statistics.median(ms), min(ms), len(ms)))


def _missing(form: Form, device: torch.device) -> str:
    """Why a form cannot run here; "" where it can."""
    if form == "graphs" and device.type != "cuda":
        return "CUDA graphs need a GPU"
    if form == "tensorrt":
        if find_spec("tensorrt") is None:
            return "tensorrt is not installed"
        return "engines are measured through the service, with FIRSTWORD_FLOW_BACKEND"
    return ""


def timed(call: Call, device: torch.device, seconds: float) -> list[float]:
    """Seconds of each run after WARM_UPS, each waited for; at least one, at most MAX_RUNS or `seconds`."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(WARM_UPS):
        call()
    synchronize()
    times: list[float] = []
    stop_s = time.perf_counter() + seconds
    while len(times) < MAX_RUNS and (not times or time.perf_counter() < stop_s):
        began_s = time.perf_counter()
        call()
        synchronize()
        times.append(time.perf_counter() - began_s)
    return times


def on_device(build: Callable[[], Network], subject: Subject) -> Network:
    """Build a network whose weights are drawn on the device, in float32, and cast."""
    with torch.device(subject.device):
        network = build()
    return network.requires_grad_(False).eval().to(subject.device, subject.dtype)


def _measure_lm(subject: Subject, config: ModelConfig, on_row: OnRow) -> None:
    lm_config = config.lm
    assert isinstance(lm_config, Qwen2LMConfig), "CosyVoice 1 is not measured here"
    lm = on_device(lambda: Qwen2LM(lm_config), subject)
    qwen2, steps = lm_config.qwen2, _Rows(subject, "LM step", on_row)
    text, prompt = list(range(TEXT_TOKENS)), list(range(PROMPT_TOKENS))
    endless = LengthRatios(minimum=100_000, maximum=100_000)

    def decoder_of(batch: int) -> SpeechDecoder:
        decoder = SpeechDecoder(lm, lm_config.sampling)
        for seed in range(batch):
            decoder.add(RowRequest(OfflinePlan(lm.vocabulary, text, text, prompt, endless), seed))
        return decoder

    def prefill() -> Call:
        return lambda: decoder_of(1).step()

    def service(batch: int) -> Call:
        decoder = decoder_of(batch)
        for _ in range(batch):  # one prefill a step
            decoder.step()
        return decoder.step

    def fixed(batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
        decoder = FusedDecoder(lm.decoder, CAPACITY + 1)
        step = DecoderStep(decoder, decoder.new_keys_values(batch), CAPACITY)
        x = torch.randn(batch, qwen2.hidden_size, device=subject.device).to(lm.head.weight)
        position = torch.full((batch,), STEP_POSITION, device=subject.device)
        return step, (x, position, torch.ones_like(position, dtype=torch.bool))

    _Rows(subject, "LM prefill", on_row).take("service", 1, prefill)
    _all_forms(subject, steps, service, fixed)


def _measure_flow(subject: Subject, config: ModelConfig, on_row: OnRow) -> None:
    """A chunk of 25 tokens: the front, and every step of the solver."""
    flow_config = config.flow
    assert isinstance(flow_config, UNetFlowConfig | DiTFlowConfig), "CosyVoice 1 is not measured here"
    flow = on_device(lambda: Flow(flow_config), subject)
    cfm, frames = flow_config.cfm, flow.chunk_tokens * FRAMES_PER_TOKEN

    def service(batch: int) -> Call:
        incremental, speaker = IncrementalFlow(flow), random_speaker(flow_config.vocab_size, PROMPT_TOKENS)
        prompt = incremental.solve_prompt(
            speaker.prompt_tokens.tolist(), speaker.prompt_mel, speaker.embedding
        )
        states = [incremental.start(prompt, WINDOW_CHUNKS) for _ in range(batch)]
        num_ready = incremental.chunk_tokens + incremental.lookahead_tokens

        def step() -> None:
            for state in states:
                state.pending_tokens.extend([1] * (num_ready - len(state.pending_tokens)))
            chunks = [incremental.next_chunk(state, is_last=False) for state in states]
            incremental.solve_chunks([chunk for chunk in chunks if chunk is not None])

        return step

    def fixed(batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
        rows = batch * cfm.rows_per_stream
        like = flow.speaker_projection.weight
        state = estimator_layout(flow.estimator).zeros(rows, BUFFER_FRAMES, like)
        start = torch.full((rows,), BUFFER_FRAMES - 2 * frames, device=subject.device)
        mask = (torch.arange(BUFFER_FRAMES, device=subject.device) < start[:, None] + frames).contiguous()
        noise = noise_between(flow.noise, 0, frames).expand(batch, -1, -1).contiguous()
        mu = torch.randn(batch, NUM_MELS, frames, device=subject.device).to(like)
        spks = torch.randn(batch, NUM_MELS, device=subject.device).to(like)
        module = _Solve(EstimatorStep(flow.estimator, state), flow_config)
        return module, (noise, mu, spks, torch.zeros_like(mu), start, mask)

    _all_forms(subject, _Rows(subject, "flow chunk", on_row), service, fixed)


class _Solve(nn.Module):
    """All steps of the solver over one chunk; they share their caches, which costs the same."""

    def __init__(self, step: EstimatorStep, config: UNetFlowConfig | DiTFlowConfig):
        super().__init__()
        self.step, self._cfm = step, config.cfm

    def forward(
        self, noise: Tensor, mu: Tensor, spks: Tensor, cond: Tensor, start: Tensor, mask: Tensor
    ) -> Tensor:
        """noise, mu, cond (B, M, T), spks (B, M), start (rows,), mask (rows, frames) -> mel (B, M, T)."""

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            return self.step(x, mu, t, spks, cond, ChunkPosition(start, start, mask))

        return solve(velocity, self._cfm, noise, mu, spks, cond)


def _measure_vocoder(subject: Subject, config: ModelConfig, on_row: OnRow) -> None:
    """A second of mel: F0, source and generator in the service, the generator alone at a fixed shape."""
    hift = on_device(lambda: HiFT(config.hift), subject)
    if config.hift.is_causal:
        hift.noise = torch.rand(config.sample_rate_hz * 10, device=subject.device)

    def service(batch: int) -> Call:
        vocoder: Vocoder[Any] = CausalVocoder(hift) if config.hift.is_causal else WindowedVocoder(hift)
        mel = torch.randn(NUM_MELS, VOCODER_FRAMES, device=subject.device)
        states = [vocoder.start(seed) for seed in range(batch)]

        def step() -> None:
            made = vocoder.step([MelChunk(state, mel, False) for state in states])
            states[:] = [state for _, state in made]

        return step

    def fixed(batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
        is_causal = config.hift.is_causal
        frames = VOCODER_FRAMES if is_causal else VOCODER_LEFT_FRAMES + VOCODER_FRAMES + VOCODER_RIGHT_FRAMES
        like = hift.generator.conv_pre.weight
        given = frames + config.hift.lookahead_frames
        mel = torch.randn(batch, NUM_MELS, given, device=subject.device).to(like)
        spectra = frames * config.hift.samples_per_frame // hift.stft.hop + 1
        size = config.hift.istft_n_fft + 2
        spectrum = torch.randn(batch, size, spectra, device=subject.device).to(like)
        return _Generate(hift), (mel, spectrum)

    _all_forms(subject, _Rows(subject, "vocoder second", on_row), service, fixed)


class _Generate(nn.Module):
    def __init__(self, hift: HiFT):
        super().__init__()
        self.generator = hift.generator

    def forward(self, mel: Tensor, spectrum: Tensor) -> Tensor:
        return self.generator(mel, spectrum, FullContext())


def _all_forms(
    subject: Subject,
    rows: _Rows,
    service: Callable[[int], Call],
    fixed: Callable[[int], tuple[nn.Module, tuple[Tensor, ...]]],
) -> None:
    """service: of a batch, what the server calls. fixed: a network at a fixed shape, and its inputs."""

    def eager(batch: int) -> Call:
        module, inputs = fixed(batch)
        return lambda: module(*inputs)

    def graphs(batch: int) -> Call:
        module, inputs = fixed(batch)
        return captured(lambda: module(*inputs), subject.device)

    def compiled(batch: int) -> Call:
        module, inputs = fixed(batch)
        # Of the solver its estimator alone: the steps in time are numbers, which are no part of a graph.
        (module.step if isinstance(module, _Solve) else module).compile(dynamic=False)
        return lambda: module(*inputs)

    builders: dict[Form, Callable[[int], Call]] = {
        "service": service,
        "eager": eager,
        "graphs": graphs,
        "compiled": compiled,
        "tensorrt": eager,  # never called: it is told missing
    }
    for form, builder in builders.items():
        with _fresh_compiler(form):
            for batch in subject.batches if form != "tensorrt" else subject.batches[:1]:
                rows.take(form, batch, partial(builder, batch))


@contextmanager
def _fresh_compiler(form: Form) -> Iterator[None]:
    """What torch.compile remembers of one network is forgotten before the next."""
    try:
        yield
    finally:
        if form == "compiled":
            torch.compiler.reset()
