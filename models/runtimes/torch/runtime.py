"""The networks in torch itself, as CUDA graphs where they are asked for, or as exported programs."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import torch

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.incremental import FlowNetworks
from firstword.models.hift.hift import HiFT
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
    graphed_estimator,
    graphed_generator,
    graphed_lm,
)
from firstword.models.runtimes.torch.exports.directory import Exports, open_exports
from firstword.models.runtimes.torch.exports.formats import ExportError
from firstword.models.runtimes.torch.exports.parts import PartName


class TorchRuntime(Runtime):
    """Runs every part of every checkpoint, and declines none."""

    name = "torch"
    provides: ClassVar[Provides] = {
        "lm": ("torch",),
        "flow": ("torch",),
        "vocoder": ("torch",),
    }

    def __init__(self, has_cuda_graphs: bool = False) -> None:
        self._has_cuda_graphs = has_cuda_graphs

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
            return Networks(lm=graphed_lm(networks.lm) if self._has_cuda_graphs else networks.lm)
        if not self._has_cuda_graphs:
            return Networks()
        if part == "vocoder":
            vocoder = networks.vocoder
            return Networks(vocoder=graphed_generator(vocoder) if isinstance(vocoder, HiFT) else None)
        flow = networks.flow
        if isinstance(flow, CosyVoice1Flow):
            return Networks()
        return Networks(flow=FlowNetworks(flow.front, graphed_estimator(flow)))


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
