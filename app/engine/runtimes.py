"""The runtimes that start-up asks, in their order, and what they are built with."""

from pathlib import Path

from firstword.app.engine.precision import find_device, find_precision
from firstword.app.options import LMEngineOptions, NetworkOptions
from firstword.models.runtimes.interface import Machine, Runtime
from firstword.models.runtimes.onnx.runtime import OnnxRuntime
from firstword.models.runtimes.tensorrt.runtime import TensorRTRuntime
from firstword.models.runtimes.tensorrt_llm.runtime import TrtllmRuntime
from firstword.models.runtimes.torch.runtime import ExportsRuntime, TorchRuntime
from firstword.models.runtimes.vllm.runtime import VllmRuntime
from firstword.models.token2wav import DEFAULT_FIRST_HOP_TOKENS

GPU_FIRST_HOP_TOKENS = 5


def all_runtimes(networks: NetworkOptions, engines: LMEngineOptions) -> tuple[Runtime, ...]:
    """Return every runtime; the first that does not decline a part takes it."""
    return (
        VllmRuntime(engines.vllm),
        TrtllmRuntime(engines.trtllm),
        TensorRTRuntime(networks.state.window_s or None),
        ExportsRuntime(networks.exports),
        OnnxRuntime(),
        TorchRuntime(networks.cuda_graphs, first_hop_tokens(networks)),
    )


def first_hop_tokens(options: NetworkOptions) -> int:
    """As they are set, else few on a GPU, which makes the next second before those are heard."""
    default = GPU_FIRST_HOP_TOKENS if find_device(options.device) == "cuda" else DEFAULT_FIRST_HOP_TOKENS
    return options.first_hop_tokens or default


def machine_of(options: NetworkOptions, data_dir: Path | None) -> Machine:
    """Return where the networks run. Raises InvalidOptions for what this machine does not have."""
    device = find_device(options.device)
    precision = find_precision(options.precision, device)
    return Machine(
        device,
        options.precision,
        dtype=precision if precision in ("bfloat16", "float16") else "float32",
        state_precision=options.state.state_precision,
        data_dir=data_dir,
    )
