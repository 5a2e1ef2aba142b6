"""What the networks launch, copy and wait for on a GPU, counted on a pretended one.

The networks are as deep as published and narrow: counts are those of the full size. `python -m bench gpu
--pretend` prints them; a token, a prefill, a chunk of the flow and a piece of the vocoder are the stages.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch
from rich.table import Table

from firstword.bench.gpu.networks import PROMPT_TOKENS, Subject, on_device
from firstword.bench.gpu.pretended.device import PretendedGpu, pretended_gpu
from firstword.bench.gpu.pretended.ledger import Counts
from firstword.bench.networks import TEXT_TOKENS, random_speaker
from firstword.bench.random_checkpoint import Size, write_configuration
from firstword.bench.terminal import show
from firstword.models.config import DiTFlowConfig, Family, ModelConfig, Qwen2LMConfig, UNetFlowConfig
from firstword.models.cuda import samples_to_host
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import IncrementalFlow
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import CausalVocoder, WindowedVocoder
from firstword.models.lm.decoder import RowRequest, new_decoder
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.networks import Networks
from firstword.models.runtimes.torch import runtime
from firstword.models.runtimes.torch.cuda_graphs import (
    capture,
    paged_attention,
    pages,
    token_decoder,
    token_graphs,
)
from firstword.models.runtimes.torch.cuda_graphs import flow as graphed_flow
from firstword.models.runtimes.torch.cuda_graphs.build import (
    graphed_lm,
    graphed_networks,
    graphed_vocoder,
)
from firstword.models.runtimes.torch.cuda_graphs.causal_vocoder import GraphedCausalVocoder
from firstword.models.runtimes.torch.cuda_graphs.windowed_vocoder import GraphedWindowedVocoder
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput

FormOfService = Literal["eager", "graphs", "plain"]
"""plain: graphs where Triton cannot build attention's kernel; the language model has none."""

FORMS: tuple[FormOfService, ...] = ("eager", "graphs", "plain")
STREAMS = (1, 8)
FIRST_HOP_TOKENS = 5
WARM_UPS = 2  # steps of the language model
PROMPT_RUN = (128, 256)  # of token_graphs.RUNS, the one that holds a prompt of so many tokens and its text
TOKENS_COUNTED = 4
HOPS = ("first", "later")
ENDLESS = LengthRatios(minimum=100_000, maximum=100_000)


@dataclass(frozen=True, slots=True)
class CountedStage:
    """Counts of one run of a stage. streams: at once, all in the same stage."""

    family: Family
    form: FormOfService
    streams: int
    stage: str
    counts: Counts
    waits: dict[str, int]  # by why and where

    def as_json(self) -> dict[str, Any]:
        of = {"family": self.family, "form": self.form, "streams": self.streams, "stage": self.stage}
        return of | self.counts.as_json() | {"waits_at": self.waits}


def count(
    families: Sequence[Family],
    forms: Sequence[FormOfService] = FORMS,
    streams: Sequence[int] = STREAMS,
    size: Size = "narrow",
    solver_steps: int | None = None,
) -> Iterator[CountedStage]:
    """Count every stage. Raises what the pretended GPU refuses.

    Eager, which takes minutes for several streams, is counted for the first number of them alone.
    size: small has fewer nodes in a replay, but as many launches outside of one. solver_steps: of the flow,
    each of which has as many nodes as the others; None: as many as published.
    """
    for family in families:
        with tempfile.TemporaryDirectory() as folder:
            config = write_configuration(Path(folder), family, size)
        if solver_steps is not None:
            config = config.with_solver_steps(solver_steps)
        with torch.random.fork_rng(devices=[]), pretended_gpu() as gpu, _recorded_once(), torch.no_grad():
            subject = Subject(family, size, torch.device("cuda"), torch.bfloat16, (1,), (), 1.0)
            for form in forms:
                for number in streams if form != "eager" else streams[:1]:
                    torch.default_generator.manual_seed(0)  # weights decide where a bias is added by itself
                    if form != "plain":
                        gpu.computes_replays = True  # an id that was drawn says what follows
                        yield from _count_lm(gpu, config, subject, form, number)
                    gpu.computes_replays = False
                    with _attention_of(form):
                        yield from _count_token2wav(gpu, config, subject, form, number)


@contextmanager
def _attention_of(form: FormOfService) -> Iterator[None]:
    if form != "plain":
        yield
        return
    with patch.object(pages, "attend_over_pages", paged_attention.attend_plainly):
        yield


@contextmanager
def _recorded_once() -> Iterator[None]:
    """Record what is counted alone, without warming up, and a step at a time: the kernels are the same."""
    with ExitStack() as stack:
        for module, name, few in (
            (capture, "WARM_UPS", 0),
            (graphed_flow, "WARM_UPS", 0),
            (token_decoder, "AHEAD", 1),
            (token_decoder, "LENGTHS", token_graphs.LENGTHS[:1]),
            (token_graphs, "LENGTHS", token_graphs.LENGTHS[:1]),
            (token_graphs, "RUNS", (PROMPT_RUN,)),
        ):
            stack.enter_context(patch.object(module, name, few))
        yield


def _count_lm(
    gpu: PretendedGpu, config: ModelConfig, subject: Subject, form: FormOfService, streams: int
) -> Iterator[CountedStage]:
    lm_config = config.lm
    assert isinstance(lm_config, Qwen2LMConfig), "CosyVoice 1 is not counted"
    lm = on_device(lambda: Qwen2LM(lm_config), subject)
    decoder = new_decoder(graphed_lm(lm, streams) if form == "graphs" else lm, lm_config.sampling)

    def join(seed: int) -> Any:
        text, prompt = list(range(TEXT_TOKENS)), list(range(PROMPT_TOKENS))
        return decoder.add(RowRequest(OfflinePlan(lm.vocabulary, text, text, prompt, ENDLESS), seed))

    for seed in range(streams):
        last = join(seed)
        decoder.step()
    for _ in range(WARM_UPS):
        decoder.step()
    of = (subject.family, form, streams)
    if streams == 1:
        decoder.remove(last)
        join(streams)
        with _stage(gpu, "LM prefill") as found:
            decoder.step()
        yield CountedStage(*of, "LM prefill", *found())
    with _stage(gpu, "LM token") as found:
        for _ in range(TOKENS_COUNTED):
            decoder.step()
    counts, waits = found()
    each = Counts(**{name: round(number / TOKENS_COUNTED) for name, number in counts.as_json().items()})
    yield CountedStage(*of, "LM token", each, waits)


def _count_token2wav(
    gpu: PretendedGpu, config: ModelConfig, subject: Subject, form: FormOfService, streams: int
) -> Iterator[CountedStage]:
    flow_config = config.flow
    assert isinstance(flow_config, UNetFlowConfig | DiTFlowConfig), "CosyVoice 1 is not counted"
    flow = on_device(lambda: Flow(flow_config), subject)
    hift = on_device(lambda: HiFT(config.hift), subject)
    if config.hift.is_causal:
        hift.noise = torch.rand(config.sample_rate_hz * 60, device=subject.device)
    graphs = form != "eager"
    networks = None
    if graphs:
        networks = Networks(flow=graphed_networks(flow)) | graphed_vocoder(hift)
        with patch.object(runtime, "STREAMS", (streams,)):
            runtime.record_vocoder(networks, FIRST_HOP_TOKENS, flow.chunk_tokens)
    token2wav = Token2Wav(flow, hift, networks=networks)
    speaker = random_speaker(flow_config.vocab_size, PROMPT_TOKENS)
    of = (subject.family, form, streams)
    hop = "prompt"
    with _stage(gpu, "prompt") as found:
        prompt = token2wav.compute_prompt_state(speaker, FIRST_HOP_TOKENS)
    if streams == 1 and not graphs:
        yield CountedStage(*of, "prompt", *found())

    def staged(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with gpu.ledger.staged(f"{name}, {hop} hop"):
                return original(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for owner, method, name in (
            (IncrementalFlow, "solve_chunks", "flow chunk"),
            (WindowedVocoder, "step", "vocoder piece"),
            (CausalVocoder, "step", "vocoder piece"),
            (GraphedCausalVocoder, "step", "vocoder piece"),
            (GraphedWindowedVocoder, "step", "vocoder piece"),
        ):
            stack.enter_context(patch.object(owner, method, staged(name, getattr(owner, method))))
        warm_ups = 1 if graphs else 0
        for _ in range(warm_ups + 1):
            gpu.ledger.stages.clear()
            gpu.ledger.waits.clear()
            states = [token2wav.start(prompt, seed) for seed in range(streams)]
            for hop in HOPS if streams == 1 else HOPS[:1]:
                tokens = list(range(token2wav.tokens_wanted(states[0])))
                made = token2wav.step([StepInput(state, tokens, False) for state in states])
                with gpu.ledger.staged(f"samples to the host, {hop} hop"):
                    samples_to_host(made)
    for name in sorted(gpu.ledger.stages):
        if " hop" in name:
            yield CountedStage(*of, name, gpu.ledger.stages[name], dict(gpu.ledger.waits[name]))


@contextmanager
def _stage(gpu: PretendedGpu, name: str) -> Iterator[Callable[[], tuple[Counts, dict[str, int]]]]:
    gpu.ledger.stages.pop(name, None)
    gpu.ledger.waits.pop(name, None)
    with gpu.ledger.staged(name):
        yield lambda: (gpu.ledger.stages[name], dict(gpu.ledger.waits[name]))


def main(as_json: bool, families: Sequence[Family]) -> int:
    """Print the counts as a table, or as one JSON list."""
    found = list(count(families))
    if as_json:
        print(json.dumps([one.as_json() for one in found], indent=1))
        return 0
    names = list(Counts().as_json())
    table = Table("family", "form", "streams", "stage", *names, box=None, pad_edge=False)
    for one in found:
        cells = (f"{number:,}" for number in one.counts.as_json().values())
        table.add_row(one.family, one.form, str(one.streams), one.stage, *cells)
    show(table)
    return 0
