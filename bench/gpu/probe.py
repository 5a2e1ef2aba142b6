"""The first minutes on a GPU: what it costs, whether the networks are right on it, where the time goes.

Each step is a part of a run of its own; its rows are written as it has them. A row has a fault where the GPU
gave something else than the CPU, or where recording graphs failed.
"""

import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firstword.bench.gpu.measured import OnRow, ProbeRow
from firstword.bench.gpu.networks import PROMPT_TOKENS, Subject, on_device
from firstword.bench.networks import TEXT_TOKENS, random_speaker
from firstword.bench.random_checkpoint import write_configuration, write_random_checkpoint
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import ModelConfig, Qwen2LMConfig
from firstword.models.cuda import choose_kernels
from firstword.models.flow.flow import Flow
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import Decoder, Emitted, RowRequest, SpeechLM, new_decoder
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.networks import Networks
from firstword.models.runtimes.torch.cuda_graphs.build import (
    graphed_lm,
    graphed_networks,
    graphed_vocoder,
)
from firstword.models.runtimes.torch.cuda_graphs.capture import captured
from firstword.models.runtimes.torch.runtime import record_vocoder
from firstword.models.token2wav import DEFAULT_FIRST_HOP_TOKENS, PromptState, Token2Wav
from firstword.models.token2wav_step import StepInput, StepTimes

LAUNCHES = 1000
HOPS_COMPARED, TOKENS_COMPARED = 4, 100
HOPS_REHEARSED, TOKENS_REHEARSED = 2, 40
MAX_FLOAT32_ERROR = 1e-2  # of the samples' norm; another order of sums gives 2e-5 to 4e-4, by the CPU
MAX_BFLOAT16_ERROR = 0.25  # the source's phase is a sum over the whole past: 0.14 on a CPU
MAX_FORM_ERROR = 0.25  # of bfloat16, graphs against eager
ENDLESS = LengthRatios(minimum=100_000, maximum=100_000)
KERNELS_FILE = "kernels.txt"
KERNELS_SHOWN = 25


@dataclass(frozen=True, slots=True)
class Probe:
    """What the steps look at. folder: where the tables of kernels are written."""

    subject: Subject
    folder: Path
    on_row: OnRow

    @property
    def is_full(self) -> bool:
        """Whether the figures count; else the code is rehearsed, with few runs."""
        return self.subject.size == "full"

    @property
    def num_streams(self) -> int:
        """Where several are looked at."""
        return 8 if self.is_full else 2

    @property
    def device(self) -> torch.device:
        return self.subject.device

    def tell(self, step: str, of: str = "", fault: str = "", /, **found: object) -> None:
        self.on_row(ProbeRow(step, of, found, fault))

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def ms_of(self, call: Callable[[], object], runs: int = 20, warm: int = 3) -> dict[str, float]:
        """Median, best and worst milliseconds of a call that is waited for."""
        for _ in range(warm if self.is_full else 1):
            call()
        self.wait()
        times = []
        for _ in range(runs if self.is_full else 2):
            began_s = time.perf_counter()
            call()
            self.wait()
            times.append(1000 * (time.perf_counter() - began_s))
        found = {"ms": statistics.median(times), "best": min(times), "worst": max(times)}
        return {name: _round(ms) for name, ms in found.items()}


def look_at_card(probe: Probe) -> None:
    """The machine, what a launch, a node of a graph, a wait and a copy cost, and attention's plans."""
    is_cuda = probe.device.type == "cuda"
    tools = {name: bool(shutil.which(name)) for name in ("gcc", "nvcc", "ncu")}
    name = torch.cuda.get_device_name() if is_cuda else platform.processor() or platform.machine()
    cudnn = torch.backends.cudnn.version() if is_cuda else None
    memory = round(torch.cuda.mem_get_info()[1] / 2**30, 1) if is_cuda else None
    versions = {"torch": torch.__version__, "cudnn": cudnn, "python": platform.python_version()}
    probe.tell("machine", card=name, memory_gib=memory, cores=os.cpu_count(), **versions, **tools)
    if shutil.which("nvidia-smi"):
        asked = "name,clocks.sm,clocks.max.sm,power.limit,driver_version"
        command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
        line = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
        probe.tell("nvidia-smi", line=line)
    _launches(probe)
    _attention(probe)


def _launches(probe: Probe) -> None:
    x = torch.zeros(64, device=probe.device)

    def thousand() -> Tensor:
        for _ in range(LAUNCHES):
            x.add_(1)
        return x

    probe.tell(f"{LAUNCHES} eager launches", **probe.ms_of(thousand, 5))
    probe.tell(f"{LAUNCHES} nodes replayed", **probe.ms_of(captured(thousand, probe.device), 20))
    host = torch.zeros(8)
    probe.tell("100 pageable copies", **probe.ms_of(lambda: [host.to(probe.device) for _ in range(100)], 5))
    if probe.device.type == "cuda":
        pinned = torch.zeros(8, pin_memory=True)
        there = x[:8]
        copies = probe.ms_of(lambda: [there.copy_(pinned, non_blocking=True) for _ in range(100)], 5)
        probe.tell("100 pinned copies", **copies)
    probe.tell("100 waits", **probe.ms_of(lambda: [x[:1].tolist() for _ in range(100)], 5))
    side = 2048 if probe.device.type == "cuda" else 256
    a, b = (torch.ones(side, side, 64, device=probe.device) for _ in range(2))
    copied = probe.ms_of(lambda: b.copy_(a), 10)
    probe.tell("copy on the device", tb_s=_round(2 * a.nbytes / max(copied["ms"], 1e-6) / 1e9))


def _attention(probe: Probe) -> None:
    """What each new number of keys costs, with cuDNN's attention and without it, as it stays."""
    for is_on in (True, False) if probe.device.type == "cuda" else (False,):
        torch.backends.cuda.enable_cudnn_sdp(is_on)
        times = []
        for length in range(130, 150 if probe.is_full else 132):
            q = torch.ones(1, 2, 7, 64, device=probe.device, dtype=torch.bfloat16)
            k = torch.ones(1, 2, 256, 64, device=probe.device, dtype=torch.bfloat16)[:, :, :length]
            probe.wait()
            began_s = time.perf_counter()
            torch.nn.functional.scaled_dot_product_attention(q, k, k)
            probe.wait()
            times.append(_round(1000 * (time.perf_counter() - began_s)))
        probe.tell("attention, a new length each", "with cuDNN's" if is_on else "without cuDNN's", ms=times)


def compare_with_cpu(probe: Probe) -> None:
    """Small networks of the family: greedy speech tokens and samples in every form, against float32 here."""
    family = probe.subject.family
    with tempfile.TemporaryDirectory() as folder:
        choose_kernels()
        write_random_checkpoint(Path(folder) / family, family, "small", weights_format="safetensors")
        checkpoint = open_checkpoint(Path(folder) / family)
        wanted = _spoken(checkpoint, _loaded(checkpoint, torch.device("cpu"), torch.float32), False, probe)
        for dtype in (torch.float32, torch.bfloat16):
            loaded = None
            for graphs in (False, True):
                name = f"{family} {_name(dtype)} {'graphs' if graphs else 'eager'}"
                try:
                    loaded = loaded or _loaded(checkpoint, probe.device, dtype)
                    found = _spoken(checkpoint, loaded, graphs, probe)
                except Exception:
                    probe.tell("same as the CPU", name, traceback.format_exc()[-1500:])
                    continue
                tell_sameness(probe, name, dtype, wanted, found)


Spoken = tuple[list[int], Tensor]


def tell_sameness(probe: Probe, name: str, dtype: torch.dtype, wanted: Spoken, found: Spoken) -> None:
    (ids, samples), (other_ids, other) = wanted, found
    pairs = enumerate(zip(ids, other_ids, strict=False))
    alike = next((n for n, (a, b) in pairs if a != b), min(len(ids), len(other_ids)))
    error = relative_error(other, samples)
    is_exact = dtype == torch.float32
    limit = MAX_FLOAT32_ERROR if is_exact else MAX_BFLOAT16_ERROR
    faults = []
    if is_exact and other_ids != ids:
        faults.append(f"{alike} of {len(ids)} speech tokens are the CPU's")
    if not error <= limit:
        faults.append(f"samples are {error:.3g} off, expected at most {limit}")
    found_here = {"tokens_alike": alike, "of": len(ids), "samples": len(other), "error": _round(error)}
    probe.tell("same as the CPU", name, "; ".join(faults), **found_here)


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """Of the norms; infinite where the lengths differ or something is not finite."""
    if len(found) != len(wanted) or not bool(found.isfinite().all()):
        return float("inf")
    return ((found - wanted).norm() / wanted.norm()).item()


Loaded = tuple[Qwen2LM, Flow, HiFT]


def _loaded(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Loaded:
    lm, flow = checkpoint.load_lm(dtype, device), checkpoint.load_flow(dtype, device)
    assert isinstance(lm, Qwen2LM), "CosyVoice 1 is not compared"
    assert isinstance(flow, Flow), "CosyVoice 1 is not compared"
    return lm, flow, checkpoint.load_hift(dtype, device)


def _spoken(checkpoint: Checkpoint, loaded: Loaded, graphs: bool, probe: Probe) -> Spoken:
    """Return greedy speech tokens of a text, and the samples of the same tokens everywhere.

    As many tokens and hops as a GPU is judged by, which are fewer in a rehearsal.
    """
    num_hops = HOPS_COMPARED if probe.is_full else HOPS_REHEARSED
    num_tokens = TOKENS_COMPARED if probe.is_full else TOKENS_REHEARSED
    lm, flow, hift = loaded
    decoder = new_decoder(graphed_lm(lm, 1) if graphs else lm, checkpoint.config.lm.sampling)
    text, prompt = list(range(20)), list(range(PROMPT_TOKENS))
    ratio = num_tokens / len(text)
    plan = OfflinePlan(lm.vocabulary, text, text, prompt, LengthRatios(ratio, ratio))
    decoder.add(RowRequest(plan, 0, is_greedy=True))
    ids: list[int] = []
    while decoder.rows:
        ids += [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
    token2wav = _token2wav(flow, hift, graphs)
    speaker = random_speaker(checkpoint.config.flow.vocab_size, PROMPT_TOKENS)
    state = token2wav.start(token2wav.compute_prompt_state(speaker))
    samples = []
    for hop in range(num_hops):
        tokens = [(7 * n) % 1000 for n in range(25 * hop, 25 * hop + 25)]
        made = token2wav.step([StepInput(state, tokens, hop == num_hops - 1)])
        samples += [one.float().cpu() for one in made]
    return ids, torch.cat(samples)


def _token2wav(flow: Flow, hift: HiFT, graphs: bool) -> Token2Wav:
    if not graphs:
        return Token2Wav(flow, hift)
    networks = Networks(flow=graphed_networks(flow)) | graphed_vocoder(hift)
    record_vocoder(networks, DEFAULT_FIRST_HOP_TOKENS, flow.chunk_tokens)
    return Token2Wav(flow, hift, networks=networks)


def time_stages(probe: Probe) -> None:
    """Each stage as the service calls it, eager and as CUDA graphs, which have to give the same; kernels."""
    subject = probe.subject
    with tempfile.TemporaryDirectory() as folder:
        config = write_configuration(Path(folder), subject.family, subject.size)
    choose_kernels()
    lm_config = config.lm
    assert isinstance(lm_config, Qwen2LMConfig), "CosyVoice 1 is not measured here"
    lm = on_device(lambda: Qwen2LM(lm_config), subject)
    flow = on_device(lambda: Flow(config.flow), subject)  # type: ignore[arg-type]
    hift = on_device(lambda: HiFT(config.hift), subject)
    if config.hift.is_causal:
        hift.noise = torch.rand(config.sample_rate_hz * 60, device=subject.device)
    if subject.device.type == "cuda":
        probe.tell("weights", subject.family, gib=_round(torch.cuda.memory_allocated() / 2**30))
    first_samples: list[Tensor] = []
    for graphs in (False, True):
        form = f"{subject.family} {'graphs' if graphs else 'eager'}"
        try:
            decoder = _time_lm(probe, form, graphed_lm(lm, probe.num_streams) if graphs else lm, config)
            token2wav = _token2wav(flow, hift, graphs)
            prompt, samples = _time_token2wav(probe, form, token2wav, config)
            first_samples.append(samples)
            if graphs:
                error = relative_error(first_samples[-1], first_samples[0])
                fault = "" if error <= MAX_FORM_ERROR else f"expected at most {MAX_FORM_ERROR}"
                probe.tell("graphs as eager", subject.family, fault, error=_round(error))
                _tabulate_kernels(probe, form, decoder, token2wav, prompt)
        except Exception:
            probe.tell("stages", form, traceback.format_exc()[-1500:])


def _time_lm(probe: Probe, form: str, model: SpeechLM, config: ModelConfig) -> Decoder:
    text, prompt = list(range(TEXT_TOKENS)), list(range(PROMPT_TOKENS))

    def decoder_of(rows: int) -> Decoder:
        decoder = new_decoder(model, config.lm.sampling)
        for seed in range(rows):
            decoder.add(RowRequest(OfflinePlan(model.vocabulary, text, text, prompt, ENDLESS), seed))
            decoder.step()  # its prefill
        return decoder

    probe.tell("LM prefill and first token", form, **probe.ms_of(lambda: decoder_of(1), 5, 1))
    for rows in (probe.num_streams, 1):  # the one of a row stays for the kernels
        decoder = decoder_of(rows)
        probe.tell("LM step", form, rows=rows, **probe.ms_of(decoder.step, 40))
    return decoder


def _time_token2wav(
    probe: Probe, form: str, token2wav: Token2Wav, config: ModelConfig
) -> tuple[PromptState, Tensor]:
    """-> the prompt's state, and the samples of the first hop of a stream, on the CPU."""
    speaker = random_speaker(config.flow.vocab_size, PROMPT_TOKENS)
    prompt = token2wav.compute_prompt_state(speaker)
    probe.tell("prompt state", form, mib=round(prompt.state_bytes / 2**20))
    first = torch.zeros(0)
    for rows in (1, probe.num_streams):
        rounds = []
        for _ in range(3 if probe.is_full else 1):  # the first records
            states = [token2wav.start(prompt, seed) for seed in range(rows)]
            took = []
            for hop in range(3 if rows == 1 and probe.is_full else 2):
                tokens = [n % 1000 for n in range(token2wav.tokens_wanted(states[0]))]
                probe.wait()
                began_s = time.perf_counter()
                made = token2wav.step([StepInput(state, tokens, False) for state in states], StepTimes())
                probe.wait()
                took.append(_round(1000 * (time.perf_counter() - began_s)))
                first = made[0].float().cpu() if rows == 1 and not hop else first
            rounds.append(took)
        probe.tell("token2wav, hop by hop", form, rows=rows, ms=rounds)
    return prompt, first


def _tabulate_kernels(
    probe: Probe, form: str, decoder: Decoder, token2wav: Token2Wav, prompt: PromptState
) -> None:
    """What runs longest in a token and in a first hop, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    def hop() -> None:
        state = token2wav.start(prompt, 0)
        token2wav.step([StepInput(state, list(range(token2wav.tokens_wanted(state))), False)])

    is_cuda = probe.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    calls: Sequence[tuple[str, Callable[[], Any]]] = (("token", decoder.step), ("first hop", hop))
    for what, call in calls:
        call()
        probe.wait()
        with profile(activities=activities) as found:
            call()
            probe.wait()
        order = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
        table = found.key_averages().table(sort_by=order, row_limit=KERNELS_SHOWN, max_name_column_width=60)
        with (probe.folder / KERNELS_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{form}, {what}\n{table}\n")
        probe.tell("kernels written", form, what=what)


def record_together(probe: Probe) -> None:
    """Two threads that record at once, as the language model's and token2wav's do, and a third that runs."""
    errors: list[str] = []
    has_ended = threading.Event()
    size = 256 if probe.device.type == "cuda" else 16

    def record() -> None:
        x = torch.zeros(size, size, device=probe.device)

        def run() -> Tensor:
            y = x
            for _ in range(200):
                y = y @ x
            return y

        for _ in range(3):
            captured(run, probe.device)()
        probe.wait()

    def run_on() -> None:
        x = torch.ones(64, device=probe.device)
        while not has_ended.is_set():
            x = x.clone()
            assert x.sum().item() == 64, "another thread's recording changed a sum"

    def guarded(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                call()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {str(error)[:300]}")

        return run

    runner = threading.Thread(target=guarded(run_on))
    recorders = [threading.Thread(target=guarded(record)) for _ in range(2)]
    for thread in (runner, *recorders):
        thread.start()
    for thread in recorders:
        thread.join()
    has_ended.set()
    runner.join()
    probe.tell("two threads record", "", "; ".join(errors))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _round(value: float) -> float:
    return float(f"{value:.4g}")


STEPS: dict[str, Callable[[Probe], None]] = {
    "card": look_at_card,
    "sameness": compare_with_cpu,
    "stages": time_stages,
    "together": record_together,
}


def measure_probe(step: str, probe: Probe) -> None:
    with torch.no_grad():
        STEPS[step](probe)


def needs_family(step: str) -> bool:
    return step in ("sameness", "stages")
