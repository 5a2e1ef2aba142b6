"""Load a checkpoint's networks by the runtimes that are chosen for them."""

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from firstword.app.budget import WorkLimits
from firstword.app.core.request import EngineInfo
from firstword.app.core.token2wav_pool import StreamingToken2Wav
from firstword.app.core.tokens import PromptBuilder
from firstword.app.engine.backend import Backend, choose
from firstword.app.engine.precision import find_device
from firstword.app.engine.runtimes import all_runtimes, first_hop_tokens, machine_of
from firstword.app.options import (
    EngineOptions,
    InvalidOptions,
    LMEngineOptions,
    NetworkOptions,
)
from firstword.app.speakers.enrolment import FirstHopPromptStates, PromptStates
from firstword.app.text import language
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.cuda import choose_kernels
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.token_thread import TorchTokenGenerator
from firstword.models.lm.tokens import TokenGenerator
from firstword.models.networks import Networks, StartTokens, TokenEvents
from firstword.models.runtimes.interface import Device, Machine, Runtime, TorchNetworks
from firstword.models.token2wav import CosyVoice1Token2Wav, Token2Wav

MAX_WORKERS = 8
MAX_READERS = 4
_SWITCH_INTERVAL_S = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class LoadedNetworks:
    """A checkpoint's networks as the engine runs them."""

    machine: Machine
    checkpoint: Checkpoint
    backend: Backend  # of the language model
    lm: SpeechLM | None  # None: it runs in a process of its own
    start_tokens: StartTokens
    token2wav: StreamingToken2Wav
    prompt_states: PromptStates
    prompt_builder: PromptBuilder

    @property
    def device(self) -> Device:
        return self.machine.device

    def info(
        self,
        default_speaker: str | None,
        is_asked: bool,
        limits: WorkLimits,
        has_sft: bool,
    ) -> EngineInfo:
        """is_asked: the default speaker was asked for, for every language. has_sft: some speaker can
        be spoken with by its embedding alone.

        Raises InvalidOptions where nobody speaks by default.
        """
        checkpoint, traits = self.checkpoint, self.checkpoint.traits
        if default_speaker is None:
            raise InvalidOptions(
                f"{checkpoint.directory} brings no speakers and FIRSTWORD_DEFAULT_SPEAKER names none; "
                "name one"
            )
        return EngineInfo(
            checkpoint=checkpoint.directory.resolve().name,
            backend=self.backend.name,
            sample_rate_hz=self.token2wav.sample_rate_hz,
            default_speaker=default_speaker,
            can_continue_text=self.prompt_builder.can_continue_text,
            languages=traits.languages,
            limits=limits,
            voice_modes=(
                *("zero_shot", "cross_lingual"),
                *(("sft",) if has_sft else ()),
                *(("instruct",) if traits.takes_instruct else ()),
            ),
            num_speech_ids=checkpoint.config.flow.vocab_size,
            token_rate_hz=checkpoint.config.token_rate_hz,
            accents=traits.accents,
            default_speakers={} if is_asked else traits.default_speakers,
        )

    def device_memory_bytes(self) -> int:
        """GPU memory that torch has allocated; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


NetworksLoading = Future[LoadedNetworks]


def load_in_thread(
    networks: NetworkOptions, engine: EngineOptions, engines: LMEngineOptions, data_dir: Path
) -> NetworksLoading:
    """Begin to load the networks, and what tells languages apart, in threads; the future raises."""

    def load() -> LoadedNetworks:
        set_threads(networks)  # here: a thread that has used torch before keeps its own number
        loaded = load_networks(networks, data_dir, engines, engine.remeasure)
        hand_over_soon()  # not before: routes are imported beside it, and each handing over costs
        return loaded

    pool = ThreadPoolExecutor(2, "networks")
    loading = pool.submit(load)
    pool.submit(language.warm_up)
    pool.shutdown(wait=False)
    return loading


def load_networks(
    options: NetworkOptions,
    data_dir: Path | None = None,
    engines: LMEngineOptions | None = None,
    remeasures: bool = False,
) -> LoadedNetworks:
    """Load what `options.checkpoint` holds for `options.device` and its precision.

    data_dir: where what is built for a checkpoint is, and what was measured is kept; None: there is none, and
    it is not. engines: None: their defaults. remeasures: what an earlier start measured does not count.
    Raises CheckpointError, BackendError and InvalidOptions.
    """
    device = find_device(options.device)
    if options.cuda_graphs and device != "cuda":
        raise InvalidOptions(f"FIRSTWORD_CUDA_GRAPHS is on, which needs a GPU, but the device is {device}")
    if device == "cuda":
        choose_kernels()
    machine = replace(
        machine_of(options, data_dir),
        num_threads=torch.get_num_threads(),
        num_workers=choose_num_workers(options.num_workers, device),
        remeasures=remeasures,
    )
    checkpoint = open_checkpoint(options.checkpoint)
    if options.solver_steps:
        checkpoint = replace(checkpoint, config=checkpoint.config.with_solver_steps(options.solver_steps))
    runtimes = all_runtimes(options, engines or LMEngineOptions())
    flow, vocoder = (
        choose(part, options.flow_backend, runtimes, machine, checkpoint) for part in ("flow", "vocoder")
    )
    backend = choose("lm", options.backend, runtimes, machine, checkpoint)
    for runtime in dict.fromkeys((flow.runtime, vocoder.runtime, backend.runtime)):
        runtime.prepare(machine, checkpoint)
    torch_networks = TorchNetworks(checkpoint, machine)
    at_once = 2 if device == "cpu" else 1  # CUDA graphs are recorded while nothing else computes
    with ThreadPoolExecutor(at_once, "loading") as pool:
        acoustic = pool.submit(_load_token2wav, torch_networks, flow.runtime, vocoder.runtime, options)
        lm = pool.submit(backend.runtime.load, "lm", torch_networks)
        tokenizer = pool.submit(checkpoint.load_tokenizer)
    token2wav, prompt_states = acoustic.result()
    return LoadedNetworks(
        machine=machine,
        checkpoint=checkpoint,
        backend=backend,
        lm=lm.result().lm,
        start_tokens=_start_tokens(lm.result(), checkpoint),
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


def _load_token2wav(
    networks: TorchNetworks, flow_runtime: Runtime, vocoder_runtime: Runtime, options: NetworkOptions
) -> tuple[StreamingToken2Wav, PromptStates]:
    """Flow and vocoder, and what computes their prompt states."""
    loaded = flow_runtime.load("flow", networks) | vocoder_runtime.load("vocoder", networks)
    flow, vocoder = networks.flow, networks.vocoder
    if isinstance(flow, CosyVoice1Flow):
        assert isinstance(vocoder, HiFT), vocoder
        cosyvoice1 = CosyVoice1Token2Wav(flow, vocoder, networks=loaded)
        return cosyvoice1, cosyvoice1
    token2wav = Token2Wav(
        flow, vocoder, options.state.window_s or None, options.state.max_state_bytes, loaded
    )
    return token2wav, FirstHopPromptStates(token2wav, first_hop_tokens(options))


def _start_tokens(networks: Networks, checkpoint: Checkpoint) -> StartTokens:
    """What starts the generator of a language model, in this process or in its own."""
    lm = networks.lm
    if lm is None:
        assert networks.start_tokens is not None, "no language model"
        return networks.start_tokens

    async def start(events: TokenEvents) -> TokenGenerator:
        return TorchTokenGenerator(lm, checkpoint.config.lm, events.on_step)

    return start


def choose_num_workers(num_workers: int, device: Device) -> int:
    """0: as many as there are cores on a CPU, where each computes for one stream at a time; else one."""
    return num_workers or (min(_num_cores(), MAX_WORKERS) if device == "cpu" else 1)


def choose_num_readers(device: Device) -> int:
    """Return how many recordings are read at once: on a CPU by a quarter of its cores; the rest speaks."""
    return MAX_READERS if device == "cuda" else max(1, min(_num_cores() // 4, MAX_READERS))


def threads_of(options: NetworkOptions) -> int:
    """Of one network's arithmetic."""
    num_workers = choose_num_workers(options.num_workers, find_device(options.device))
    return options.num_threads or max(1, _num_cores() // num_workers)


def set_threads(options: NetworkOptions) -> None:
    """Set torch's threads for the process, before networks are loaded."""
    torch.set_num_threads(threads_of(options))


def hand_over_soon() -> None:
    """Let Python's threads take turns more often than every 5 ms: a pool's would wait far too long."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
