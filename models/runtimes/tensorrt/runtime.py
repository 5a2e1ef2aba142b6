"""Flow and vocoder by TensorRT's engines, which `firstword tensorrt` builds for a checkpoint and a GPU."""

from pathlib import Path
from typing import ClassVar, Final

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.flow.flow import Flow
from firstword.models.hift.hift import HiFT
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
from firstword.models.runtimes.tensorrt.engines import (
    FLOW_PARTS,
    VOCODER_PARTS,
    EnginePlans,
    find_plans,
    flow_networks,
    load_engines,
    vocoder_network,
)
from firstword.models.runtimes.tensorrt.library import INSTALL, TensorRTError, installed_modules

ENGINES_DIRECTORY: Final = "tensorrt"
"""Name of the directory of plans within the data directory."""


class TensorRTRuntime(Runtime):
    name = "tensorrt"
    provides: ClassVar[Provides] = {"flow": ("tensorrt",), "vocoder": ("tensorrt",)}

    def __init__(self, window_s: float | None) -> None:
        """window_s: how much of its own past a stream attends to; None: all."""
        self._window_s = window_s

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        return "TensorRT is used only if it is asked for"

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        asked, otherwise = "FIRSTWORD_FLOW_BACKEND is tensorrt", "set FIRSTWORD_FLOW_BACKEND=auto"
        if machine.device == "cpu":
            return (
                f"{asked}, which needs an NVIDIA GPU, and the networks run on the CPU; "
                f"{otherwise}, or FIRSTWORD_DEVICE=cuda where there is one"
            )
        if checkpoint.config.family == "cosyvoice1":
            return (
                f"{asked}, which runs the flows of CosyVoice 2 and 3, and the checkpoint is a CosyVoice 1; "
                f"{otherwise}"
            )
        if not installed_modules():
            return f"{asked}, but TensorRT is not installed; {INSTALL}; or {otherwise}"
        try:
            self._plans(machine, checkpoint)
        except (TensorRTError, OSError) as error:
            return f"{asked}, but {error}"
        return needs_onnx_state(machine, "the flow runs in tensorrt")

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        """With a context for each of the threads that may run an engine."""
        machine = networks.machine
        names = FLOW_PARTS if part == "flow" else VOCODER_PARTS
        try:
            found = self._plans(machine, networks.checkpoint)
            engines = load_engines(found, names, machine.num_workers)
        except (TensorRTError, OSError) as error:
            raise BackendError(f"FIRSTWORD_FLOW_BACKEND is tensorrt, but {error}") from error
        if part == "vocoder":
            vocoder = networks.vocoder  # of Harmonic Vocos there are no engines: it runs in torch
            return Networks(vocoder=vocoder_network(engines, vocoder) if isinstance(vocoder, HiFT) else None)
        assert isinstance(networks.flow, Flow), networks.flow
        return Networks(flow=flow_networks(engines, networks.flow))

    def _plans(self, machine: Machine, checkpoint: Checkpoint) -> EnginePlans:
        directory = (machine.data_dir or Path()) / ENGINES_DIRECTORY
        return find_plans(checkpoint, machine.dtype, self._window_s, directory)
