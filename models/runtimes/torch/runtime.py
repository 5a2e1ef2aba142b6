"""The networks in torch itself, as CUDA graphs where they are asked for, or as exported programs."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import torch

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.cuda import card_bytes
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import LEFT_FRAMES
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.networks import Networks
from firstword.models.runtimes.interface import (
    BackendError,
    Machine,
    Part,
    Provides,
    Runtime,
    TorchNetworks,
    needs_onnx_state,
)
from firstword.models.runtimes.torch.cuda_graphs.build import (
    graphed_lm,
    graphed_networks,
    graphed_vocoder,
)
from firstword.models.runtimes.torch.cuda_graphs.causal_vocoder import GraphedCausalVocoder
from firstword.models.runtimes.torch.cuda_graphs.flow import STREAMS, GraphedFlow
from firstword.models.runtimes.torch.cuda_graphs.windowed_vocoder import GraphedWindowedVocoder
from firstword.models.runtimes.torch.exports.directory import Exports, open_exports
from firstword.models.runtimes.torch.exports.formats import ExportError
from firstword.models.runtimes.torch.exports.parts import PartName

MAX_ROWS = 64  # utterances in a step of the language model, of which CUDA graphs are recorded
PAGES_SHARE = 0.45  # of a GPU's memory, for what streams and prompts of the flow keep


class TorchRuntime(Runtime):
    """Runs every part of every checkpoint, and declines none."""

    name = "torch"
    provides: ClassVar[Provides] = {
        "lm": ("torch",),
        "flow": ("torch",),
        "vocoder": ("torch",),
    }

    def __init__(self, has_cuda_graphs: bool = False, first_hop_tokens: int = 1) -> None:
        """first_hop_tokens: of the streams, whose pieces are recorded."""
        self._has_cuda_graphs = has_cuda_graphs
        self._first_hop_tokens = first_hop_tokens

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        few_bits = machine.precision
        if few_bits in ("int8", "int4"):
            return (
                f"FIRSTWORD_FLOW_BACKEND is torch, which has no {few_bits}, and FIRSTWORD_PRECISION is "
                f"{few_bits}; set one of them to auto"
            )
        return needs_onnx_state(machine, "the flow runs in torch")

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        if part == "lm":
            return Networks(lm=graphed_lm(networks.lm, MAX_ROWS) if self._has_cuda_graphs else networks.lm)
        if not self._has_cuda_graphs:
            return Networks()
        flow = networks.flow
        if isinstance(flow, CosyVoice1Flow):
            return Networks()
        if part == "vocoder":
            if not isinstance(networks.vocoder, HiFT):
                return Networks()
            made = graphed_vocoder(networks.vocoder)
            record_vocoder(made, self._first_hop_tokens, flow.chunk_tokens)
            return made
        graphed = graphed_networks(flow, round(PAGES_SHARE * card_bytes()))
        assert isinstance(graphed.whole, GraphedFlow), "nothing to record"
        graphed.whole.record()
        return Networks(flow=graphed)


def record_vocoder(made: Networks, first_tokens: int, hop_tokens: int) -> None:
    """Record the pieces that come mostly, of first hops and of whole ones."""
    if isinstance(made.whole_vocoder, GraphedWindowedVocoder):
        made.whole_vocoder.record(window_pieces(first_tokens, hop_tokens), STREAMS)
    if isinstance(made.whole_vocoder, GraphedCausalVocoder):
        whole = FRAMES_PER_TOKEN * hop_tokens
        first_frames = sorted({FRAMES_PER_TOKEN * first_tokens, whole})
        made.whole_vocoder.record(first_frames, whole, STREAMS)


def window_pieces(first_tokens: int, hop_tokens: int) -> list[tuple[int, int]]:
    """Frames before a piece and of it, as the windowed vocoder is given mostly.

    A first hop and a whole one behind it, a whole one with all its left context, and a stream that begins
    with a whole one.
    """
    first, whole = FRAMES_PER_TOKEN * first_tokens, FRAMES_PER_TOKEN * hop_tokens
    return sorted({(0, first), (min(first, LEFT_FRAMES), whole), (LEFT_FRAMES, whole), (0, whole)})


_PROGRAMS: Final[Mapping[Part, tuple[PartName, ...]]] = {
    "lm": ("llm.text_encoder",),
    "flow": ("flow.encoder", "flow.decoder.estimator"),
    "vocoder": ("hift",),
}


class ExportsRuntime(Runtime):
    """The programs of `firstword export`, in place of the networks that they were made of."""

    name = "exports"
    provides: ClassVar[Provides] = {
        "lm": ("torch",),
        "flow": ("torch", "onnx"),
        "vocoder": ("torch", "onnx"),
    }
    reason = "FIRSTWORD_EXPORTS has programs of it"

    def __init__(self, directory: Path | None) -> None:
        """directory: None has no programs."""
        self._directory = directory
        self._opened: Exports | None = None
        self._lock = threading.Lock()

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        """Raises BackendError for a directory that does not fit the checkpoint."""
        if self._directory is None:
            return "FIRSTWORD_EXPORTS names no directory"
        if self._programs(machine, checkpoint).has(*_PROGRAMS[part]):
            return None
        return f"{self._directory} has no program of it that can be run"

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        exports = self._programs(networks.machine, networks.checkpoint)
        if part == "vocoder":
            return Networks(vocoder=exports.generator())
        if part == "flow":
            assert isinstance(networks.flow, CosyVoice1Flow), "programs of a flow that is solved in chunks"
            exports.use_flow(networks.flow)
            return Networks()
        assert isinstance(networks.lm, TransformerLM), "programs of a Qwen2"
        exports.use_lm(networks.lm)
        return Networks(lm=networks.lm)

    def _programs(self, machine: Machine, checkpoint: Checkpoint) -> Exports:
        assert self._directory is not None, "no exports"
        with self._lock:
            if self._opened is None:
                dtype: torch.dtype = getattr(torch, machine.dtype)
                try:
                    self._opened = open_exports(self._directory, checkpoint, dtype, machine.device)
                except ExportError as error:
                    raise BackendError(f"FIRSTWORD_EXPORTS cannot be used: {error}") from None
            return self._opened
