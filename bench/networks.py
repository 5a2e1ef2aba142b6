"""What the networks cost at their published sizes, with random weights and without a server.

`python -m bench networks --family cosyvoice2 --precision int8` prints one table: language model
milliseconds a token, chunk cost at second 2 and 60 (timed alternately, so that a noisy machine hits both
alike), first audio and real-time factor that follow, bytes a stream keeps, parameters. On a CPU, in the
same form as the server runs them; bfloat16 and `--plain` are torch's own calls. It fails where a chunk after
the first takes much longer than those beside it.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import torch
from torch import Tensor, nn

from firstword.app.options import FEW_BITS, StatePrecisionChoice
from firstword.bench.random_checkpoint import write_configuration
from firstword.models.config import TOKEN_RATE_HZ, DiTFlowConfig, ModelConfig, Qwen2LMConfig, UNetFlowConfig
from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import Estimator, FlowNetworks
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import MelChunk
from firstword.models.lm.decoder import RowRequest, SpeechDecoder
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.networks import Networks
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front, onnx_generator, onnx_lm
from firstword.models.token2wav import DEFAULT_WINDOW_S, PromptState, StreamState, Token2Wav
from firstword.models.token2wav_step import StepInput

TEXT_TOKENS = 20
VOCODER_PIECES = 5
FIRST_HOPS = 3
EVEN_CHUNKS = 16  # of the streams whose every chunk is compared with its neighbors
EVEN_STREAMS = 3  # of which the quickest counts, chunk by chunk
MAX_OVER_NEIGHBORS = 1.3
PRECISIONS: Final = ("float32", "bfloat16", *FEW_BITS)

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Form:
    """How the networks run."""

    precision: str
    uses_onnx: bool
    state_precision: StatePrecisionChoice
    window_s: float  # of its own past, what a stream attends to; 0: all

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    @property
    def has_int8(self) -> bool:
        return self.precision in FEW_BITS


class CountedEstimator:
    """An estimator that counts the frames times rows it was given."""

    def __init__(self, estimator: Estimator):
        self._estimator = estimator
        self.cache_class = estimator.cache_class
        self.num_frames = 0

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        self.num_frames += x.shape[0] * x.shape[-1]
        return self._estimator(x, mu, t, spks, cond, context)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench networks", description=__doc__)
    parser.add_argument("--family", choices=["cosyvoice2", "cosyvoice3"], default="cosyvoice2")
    parser.add_argument("--size", choices=["full", "small"], default="full")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument("--state-precision", choices=get_args(StatePrecisionChoice), default="auto")
    parser.add_argument("--plain", action="store_true", help="torch calls, no graphs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=60, help="where the late chunks are timed")
    parser.add_argument("--pairs", type=int, default=5, help="chunks timed early and late, alternately")
    parser.add_argument("--prompt-tokens", type=int, default=75)
    parser.add_argument("--solver-steps", type=int, help="of the flow, instead of its own")
    parser.add_argument(
        "--window-s", type=float, default=DEFAULT_WINDOW_S, help="of its own past, what a stream attends to"
    )
    parser.add_argument("--tokens", type=int, default=60, help="language model tokens timed")
    parser.add_argument("--json", type=Path, help="also write the results here")
    arguments = parser.parse_args(words)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        config = write_configuration(Path(folder), arguments.family, arguments.size)
    if arguments.solver_steps:
        config = config.with_solver_steps(arguments.solver_steps)
    if arguments.precision in FEW_BITS and arguments.plain:
        parser.error(
            f"torch's own calls have no {arguments.precision}; take --precision float32 with --plain"
        )
    uses_onnx = not arguments.plain and arguments.precision != "bfloat16"
    form = Form(arguments.precision, uses_onnx, arguments.state_precision, arguments.window_s)
    results: dict[str, Any] = {"family": arguments.family, "size": arguments.size, **asdict(form)}
    results["solver_steps"] = config.flow.cfm.num_steps
    results |= measure_lm(config, form, arguments.prompt_tokens, arguments.tokens)
    results |= measure_token2wav(config, form, arguments.prompt_tokens, arguments.seconds, arguments.pairs)
    results |= totals(results)
    for name, value in results.items():
        print(f"{name:32} {value:.4g}" if isinstance(value, float) else f"{name:32} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if results["worst_over_neighbors"] > MAX_OVER_NEIGHBORS:
        raise SystemExit(
            f"a chunk takes {results['worst_over_neighbors']:.2f} times the median of those beside it; "
            f"at most {MAX_OVER_NEIGHBORS} is expected"
        )


def totals(results: Mapping[str, float]) -> dict[str, float]:
    """The stages one after the other; a server lets them overlap, but for the first audio."""
    step_s, hop = results["lm_ms_per_token"] / 1000, results["first_hop_tokens"]
    first_s = results["lm_first_token_ms"] / 1000 + (hop + results["lookahead_tokens"] - 1) * step_s
    return {
        "first_audio_s": first_s + results["first_hop_s"],
        "rtf_in_sum": step_s * TOKEN_RATE_HZ + results["rtf_flow_and_vocoder"],
    }


def measure_lm(config: ModelConfig, form: Form, prompt_tokens: int, num_tokens: int) -> dict[str, Any]:
    """One stream: 20 tokens of text after a prompt and its 20 tokens of text."""
    lm_config = config.lm
    assert isinstance(lm_config, Qwen2LMConfig), "CosyVoice 1 is not measured here"
    lm = ready(lambda: Qwen2LM(lm_config), form.dtype)
    num_parameters = count_parameters(lm)
    model = (
        onnx_lm(lm, FEW_BITS.get(form.precision, "float32"), torch.get_num_threads())
        if form.uses_onnx
        else lm
    )
    decoder = SpeechDecoder(model, lm_config.sampling)
    text, prompt = list(range(TEXT_TOKENS)), list(range(prompt_tokens))
    endless = LengthRatios(minimum=num_tokens, maximum=num_tokens)
    decoder.add(RowRequest(OfflinePlan(lm.vocabulary, text, text, prompt, endless), seed=0))
    times = [timed(decoder.step) for _ in range(num_tokens)]
    return {
        "lm_parameters": num_parameters,
        "lm_first_token_ms": 1000 * times[0],
        "lm_ms_per_token": 1000 * median(times[1:]),
        "lm_cache_mb": decoder.num_cache_bytes / 1e6,
    }


def measure_token2wav(
    config: ModelConfig, form: Form, prompt_tokens: int, late_second: int, pairs: int
) -> dict[str, Any]:
    flow_config = config.flow
    assert isinstance(flow_config, UNetFlowConfig | DiTFlowConfig), "CosyVoice 1 is not measured here"
    flow, hift = ready(lambda: Flow(flow_config), form.dtype), ready(lambda: HiFT(config.hift), form.dtype)
    if config.hift.is_causal:
        hift.noise = torch.rand(config.sample_rate_hz * 100)
    sizes = {"flow_parameters": count_parameters(flow), "hift_parameters": count_parameters(hift)}
    num_threads = torch.get_num_threads()
    own = Networks(flow=FlowNetworks.of(flow))
    if form.uses_onnx:
        estimator = onnx_estimator(flow, form.has_int8, num_threads, form.state_precision)
        front = onnx_front(flow, num_threads) or flow.front
        own = Networks(
            flow=FlowNetworks(front, estimator), vocoder=onnx_generator(hift, form.has_int8, num_threads)
        )
    assert own.flow is not None
    counted = CountedEstimator(own.flow.estimator)
    networks = replace(own, flow=replace(own.flow, estimator=counted))
    session = Token2Wav(flow, hift, form.window_s or None, networks=networks)
    speaker = random_speaker(flow_config.vocab_size, prompt_tokens)
    session.compute_prompt_state(speaker)  # the first call of anything is slower
    started = time.perf_counter()
    prompt = session.compute_prompt_state(speaker)
    prepare_s = time.perf_counter() - started
    first_hops = [begin(session, session.start(prompt)) for _ in range(FIRST_HOPS)]
    every_chunk = even_chunks(session, prompt)
    late = session.start(prompt)
    begin(session, late)
    chunk_times = [chunk(session, late) for _ in range(late_second - 1)]
    early_times, late_times = [], []
    for _ in range(pairs):
        early = session.start(prompt)
        begin(session, early)
        chunk(session, early)
        early_times.append(chunk(session, early))
        late_times.append(chunk(session, late))
    counted.num_frames = 0
    chunk(session, late)
    chunk_s = session.chunk_tokens * session.samples_per_token / session.sample_rate_hz
    passes = 2 * flow_config.cfm.num_steps
    return {
        **sizes,
        "prepare_prompt_s": prepare_s,
        "first_hop_tokens": prompt.first_hop_tokens,
        "lookahead_tokens": session.lookahead_tokens,
        "first_hop_s": median(first_hops),
        "chunks_s": " ".join(f"{seconds:.2g}" for seconds in every_chunk),
        "worst_over_neighbors": worst_over_neighbors(every_chunk),
        "chunk_at_2_s_s": median(early_times),
        f"chunk_at_{late_second}_s_s": median(late_times),
        "late_over_early": median([b / a for a, b in zip(early_times, late_times, strict=True)]),
        "rtf_flow_and_vocoder": median(chunk_times) / chunk_s,
        "rtf_vocoder_alone": vocoder_rtf(session, hift),
        "frames_per_second_and_pass": counted.num_frames / passes / chunk_s,
        "prompt_state_mb": prompt.state_bytes / 1e6,
        "stream_state_mb": late.state_bytes / 1e6,
        "stream_state_mb_per_second": session.bytes_per_chunk / 1e6 / chunk_s,
    }


def even_chunks(session: Token2Wav, prompt: PromptState) -> list[float]:
    """Seconds of each chunk after the first, the quickest of some streams."""
    streams = []
    for _ in range(EVEN_STREAMS):
        state = session.start(prompt)
        begin(session, state)
        streams.append([chunk(session, state) for _ in range(EVEN_CHUNKS)])
    return [min(times) for times in zip(*streams, strict=True)]


def worst_over_neighbors(times: Sequence[float]) -> float:
    """The largest part of a chunk's time over the median of the two before it and the two behind it."""
    return max(
        time / statistics.median([*times[max(0, place - 2) : place], *times[place + 1 : place + 3]])
        for place, time in enumerate(times)
    )


def vocoder_rtf(session: Token2Wav, hift: HiFT) -> float:
    """Pieces of one second, after the first."""
    vocoder = session.vocoder
    state = vocoder.start(0)
    mel = torch.randn(80, 2 * session.chunk_tokens)
    times = [timed(lambda: vocoder.step([MelChunk(state, mel, False)])) for _ in range(VOCODER_PIECES + 1)]
    return statistics.median(times[1:]) / (
        mel.shape[1] * hift.config.samples_per_frame / session.sample_rate_hz
    )


def random_speaker(vocab_size: int, num_tokens: int) -> SpeakerFeatures:
    tokens = torch.randint(0, vocab_size, (num_tokens,))
    return SpeakerFeatures("", tokens, torch.randn(2 * num_tokens, 80), torch.randn(192))


def begin(session: Token2Wav, state: StreamState) -> float:
    """The first hop and its lookahead; -> seconds."""
    return feed(session, state, session.tokens_wanted(state))


def chunk(session: Token2Wav, state: StreamState) -> float:
    return feed(session, state, session.chunk_tokens)


def feed(session: Token2Wav, state: StreamState, num_tokens: int) -> float:
    tokens = torch.randint(0, 6000, (num_tokens,)).tolist()
    return timed(lambda: session.step([StepInput(state, tokens, False)]))


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def ready(build: Callable[[], Network], dtype: torch.dtype) -> Network:
    return build().requires_grad_(False).eval().to(dtype)


def count_parameters(network: nn.Module) -> int:
    """Weight-norm pairs, folded here, counted as one weight."""
    return sum(parameter.numel() for parameter in network.parameters())
