"""ONNX Runtime's options and providers, and sessions on the CPU that run on torch's tensors in place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

LOG_NOTHING = 4  # severity fatal: errors are raised, not written to stderr


def session_options(num_threads: int) -> onnxruntime.SessionOptions:
    """Options for `num_threads` threads that do not spin while they wait."""
    assert num_threads >= 1, f"num_threads {num_threads}"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # Without VNNI two products of unsigned and signed bytes are added in 16 bits, which overflow: then ONNX
    # Runtime makes constant weights unsigned, whose products do not.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = LOG_NOTHING
    return options


CPU_PROVIDER: Final = "CPUExecutionProvider"
CUDA_PROVIDER: Final = "CUDAExecutionProvider"
CUDA_OPTIONS: Final = {
    "cudnn_conv_algo_search": "HEURISTIC",  # else each new length of a recording tries all of them
    "use_tf32": "0",  # float32 is float32, as in torch's networks here
    "arena_extend_strategy": "kSameAsRequested",  # torch has the rest of the memory
}

Provider = str | tuple[str, dict[str, str]]


def providers_for(device: str) -> list[Provider]:
    """Return what runs a graph, the first that can for each node.

    device: "cuda" takes the GPU where this build of ONNX Runtime knows it (`onnxruntime-gpu`), else the CPU.
    """
    if device == "cuda" and CUDA_PROVIDER in onnxruntime.get_available_providers():
        return [(CUDA_PROVIDER, CUDA_OPTIONS), CPU_PROVIDER]
    return [CPU_PROVIDER]


Part = TypeVar("Part", bound=nn.Module)


def each(kind: type[Part], modules: nn.Module) -> list[Part]:
    """Return the entries of a ModuleList by their type, which it does not keep."""
    assert isinstance(modules, nn.ModuleList), modules
    parts = [part for part in modules if isinstance(part, kind)]
    assert len(parts) == len(modules), f"{modules} has others than {kind}"
    return parts


_TYPES: dict[torch.dtype, type[np.generic]] = {
    torch.float32: np.float32,
    torch.int8: np.int8,
    torch.int32: np.int32,
    torch.int64: np.int64,
}


class OrtSession:
    """One graph on the CPU. A run releases Python's lock; threads may share the session."""

    def __init__(self, model: bytes, num_threads: int):
        self._session = onnxruntime.InferenceSession(
            model, session_options(num_threads), providers=[CPU_PROVIDER], enable_fallback=0
        )

    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Run once on what `bind` takes."""
        self.bind(inputs, outputs).run()

    def bind(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> "BoundRun":
        """Return what runs on the same memory, as often as wanted.

        Writes into `outputs`, which may lie where an input does if the graph allows that. All contiguous, of
        the types above, of the shapes the graph declares.
        """
        binding = self._session.io_binding()
        for bind, tensors in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
            for name, tensor in tensors.items():
                assert tensor.is_contiguous(), tensor.shape
                bind(name, "cpu", 0, _TYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr())
        return BoundRun(self._session, binding, inputs, outputs)


@dataclass(frozen=True, slots=True, eq=False)
class BoundRun:
    """A graph and the memory it runs on, whose content may change from one run to the next."""

    session: onnxruntime.InferenceSession
    binding: onnxruntime.IOBinding
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    def run(self) -> None:
        """Run once."""
        self.session.run_with_iobinding(self.binding)
