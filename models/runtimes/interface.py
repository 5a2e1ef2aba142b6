"""The contract of a runtime: which parts of a checkpoint it runs, where it cannot, and how it loads them.

Start-up asks a list of runtimes in order, for one part of the checkpoint after another.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import Dtype
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.flow import Flow
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.networks import Networks

Part = Literal["lm", "flow", "vocoder"]
Device = Literal["cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]

Provides = Mapping[Part, tuple[str, ...]]
"""Parts, each with the values of FIRSTWORD_BACKEND (the language model) or FIRSTWORD_FLOW_BACKEND for which
they are run."""


class BackendError(Exception):
    """The backend that was asked for cannot run here; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where networks run, and in which numbers.

    precision: as it is set; dtype: that of torch's networks. state_precision: of what a flow keeps of its
    past. num_threads: of one network's arithmetic. num_workers: threads that run one network at once.
    data_dir: of what is built for a checkpoint, or measured, and kept; None: nothing is. remeasures: what was
    measured before does not count.
    """

    device: Device
    precision: Precision = "auto"
    dtype: Dtype = "float32"
    state_precision: Literal["auto", "float32", "int8"] = "auto"
    num_threads: int = 1
    num_workers: int = 1
    data_dir: Path | None = None
    remeasures: bool = False


class TorchNetworks:
    """A checkpoint's networks in torch, which every runtime starts from; each is loaded when first asked for.

    Reading one raises CheckpointError.
    """

    def __init__(self, checkpoint: Checkpoint, machine: Machine) -> None:
        self.checkpoint, self.machine = checkpoint, machine
        self._dtype: torch.dtype = getattr(torch, machine.dtype)

    @cached_property
    def lm(self) -> Qwen2LM | TransformerLM:
        return self.checkpoint.load_lm(self._dtype, self.machine.device)

    @cached_property
    def flow(self) -> Flow | CosyVoice1Flow:
        return self.checkpoint.load_flow(self._dtype, self.machine.device)

    @cached_property
    def vocoder(self) -> HiFT | HarmonicVocos:
        return self.checkpoint.load_vocoder(self._dtype, self.machine.device)


class Runtime(ABC):
    """A way to run networks, built with its own options.

    name: the value of FIRSTWORD_BACKEND or FIRSTWORD_FLOW_BACKEND that asks for it and for no other.
    provides: the parts that it runs. reason: why it is taken where nothing is
    asked for; empty: because those before it declined. metrics: how the names of its own metrics begin.
    """

    name: ClassVar[str]
    provides: ClassVar[Provides]
    reason: ClassVar[str] = ""
    metrics: ClassVar[str] = ""

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        """Return why the part is left to the next runtime, unless this one is asked for by its name.

        Raises BackendError where what the runtime was built with cannot be used.
        """
        return None

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        """Return why it cannot run here, and what to do about it, in one line."""
        return None

    def prepare(self, machine: Machine, checkpoint: Checkpoint) -> None:
        """Do what has to be done while nothing else computes, once, before its first part is loaded.

        Raises BackendError.
        """
        return None

    @abstractmethod
    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        """Return the part as this runtime runs it. Blocks; parts may be loaded in several threads at once.

        A network that the runtime makes its own copy of may be left without weights. Raises BackendError
        and CheckpointError.
        """


def needs_onnx_state(machine: Machine, what: str) -> str | None:
    """Refuse, for a runtime whose flow keeps its state as it computes it, another precision of the state."""
    if machine.state_precision == "auto":
        return None
    return (
        f"FIRSTWORD_STATE_PRECISION is {machine.state_precision}, which the flows of CosyVoice 2 and 3 have "
        f"in ONNX Runtime on a CPU, and {what}; set FIRSTWORD_STATE_PRECISION=auto"
    )
