"""The networks as ONNX Runtime graphs on a CPU, in float32 and few bits."""

import logging
from typing import ClassVar

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.incremental import FlowNetworks
from firstword.models.networks import Networks
from firstword.models.runtimes.interface import (
    Machine,
    Part,
    Provides,
    Runtime,
    TorchNetworks,
    needs_onnx_state,
)
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front, onnx_lm, onnx_vocoder
from firstword.models.runtimes.onnx.formats import PRODUCTS_FILE, CpuFormats, cpu_formats, stored_products

_log = logging.getLogger(__name__)


class OnnxRuntime(Runtime):
    """Runs with as many threads as torch. What ONNX has no graph of here runs in torch."""

    name = "onnx"
    provides: ClassVar[Provides] = {
        "lm": ("torch",),  # of FIRSTWORD_BACKEND: in this process
        "flow": ("onnx",),
        "vocoder": ("onnx",),
    }

    def __init__(self) -> None:
        self._formats: CpuFormats | None = None

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        return None if _can_run(machine) else "it is for a CPU in float32 and few bits"

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        if not _can_run(machine):
            where = "in bfloat16" if machine.device == "cpu" else "on a GPU"
            return (
                "FIRSTWORD_FLOW_BACKEND is onnx, which runs on a CPU in float32, int8 and int4, and "
                f"the networks run {where}; set FIRSTWORD_FLOW_BACKEND=auto"
            )
        if checkpoint.config.family == "cosyvoice1":
            return needs_onnx_state(machine, "the checkpoint is a CosyVoice 1")
        return None

    def prepare(self, machine: Machine, checkpoint: Checkpoint) -> None:
        if machine.remeasures and machine.data_dir is not None:
            (machine.data_dir / PRODUCTS_FILE).unlink(missing_ok=True)
        self._formats = cpu_formats(
            machine.precision,
            checkpoint.config,
            lambda: stored_products(machine.num_threads, machine.data_dir),
        )
        _log.info("%s", self._formats)

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        formats, machine = self._formats, networks.machine
        assert formats is not None, "not prepared"
        threads = machine.num_threads
        if part == "lm":
            return Networks(lm=onnx_lm(networks.lm, formats.lm, threads))
        if part == "vocoder":
            return Networks(vocoder=onnx_vocoder(networks.vocoder, formats.has_int8_vocoder, threads))
        flow = networks.flow
        if isinstance(flow, CosyVoice1Flow):
            return Networks()
        estimator = onnx_estimator(flow, formats.has_int8_flow, threads, machine.state_precision)
        return Networks(flow=FlowNetworks(onnx_front(flow, threads) or flow.front, estimator))


def _can_run(machine: Machine) -> bool:
    return machine.device == "cpu" and machine.dtype == "float32"
