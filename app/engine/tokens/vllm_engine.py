"""The vLLM engine process and its supervisor.

vLLM's engine in a process of its own. The one file of the service that imports vLLM.
"""

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import torch

from firstword.app.engine.backend import BackendError, Device, vllm_build
from firstword.app.engine.tokens.vllm_generator import (
    DecodeRequest,
    EngineDied,
    EngineSupervisor,
    VllmTokenGenerator,
)
from firstword.app.engine.tokens.vllm_options import (
    DeviceMemory,
    check_options,
    dtype_of,
    kv_cache_bytes,
    resolve_options,
)
from firstword.app.options import PrecisionChoice, VllmOptions
from firstword.models.checkpoint.open import Checkpoint, lm_fingerprint
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.vllm.export import WEIGHTS_FILE, Dtype, export
from firstword.models.vllm.plugin import ENGINE_VARIABLE

SAMPLER = "firstword.models.vllm.sampler:RepetitionAwareSampler"
STOP_TIMEOUT_S = 10.0  # then it is killed
CPU_BLOCK_TOKENS = 32  # the smallest that its kernels like: only whole blocks are found in the prefix cache

_QUIET_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CONFIGURE_LOGGING": "0",  # its lines go where ours go
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # that one knows no logits processors as ours is
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the cores are shared with the flow and the vocoder
}


async def start_generator(
    checkpoint: Checkpoint,
    options: VllmOptions,
    precision: PrecisionChoice,
    max_streams: int,
    directory: Path,
    num_threads: int,
) -> VllmTokenGenerator:
    """Converts the language model where that was not done yet, and starts vLLM with it.

    directory: where the converted language models are kept. num_threads: of its arithmetic on a CPU.

    Raises BackendError and CheckpointError.
    """
    config, build = checkpoint.config.lm, vllm_build()
    assert isinstance(config, Qwen2LMConfig), config
    assert build is not None, "vLLM was chosen and is not installed"
    check_options(options, config, build)
    options = resolve_options(options, precision, max_streams, build)
    set_environment(num_threads)
    model = await asyncio.to_thread(_exported, checkpoint, directory, dtype_of(options))
    name = checkpoint.directory.resolve().name
    arguments = await asyncio.to_thread(engine_arguments, model, name, config, options, build)
    supervisor = EngineSupervisor(lambda: VllmProcess.open(arguments, Vocabulary.of(config)))
    await supervisor.start()
    return VllmTokenGenerator(supervisor, config, options.max_model_len)


def engine_arguments(
    model: Path, name: str, config: Qwen2LMConfig, options: VllmOptions, build: Device
) -> dict[str, Any]:
    """Of vLLM's engine, the environment set before. name: in its metrics.

    Raises BackendError where the memory does not suffice.
    """
    weight_bytes = (model / WEIGHTS_FILE).stat().st_size // options.tensor_parallel_size
    num_kv_bytes = kv_cache_bytes(options, config, weight_bytes, _memory(build))
    arguments: dict[str, Any] = {
        "model": str(model),
        "served_model_name": name,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "dtype": dtype_of(options),
        "quantization": None if options.quantization == "none" else options.quantization,
        "max_num_seqs": options.max_num_seqs,
        "max_model_len": options.max_model_len,
        "tensor_parallel_size": options.tensor_parallel_size,
        "gpu_memory_utilization": options.memory_share,
        "enforce_eager": options.eager,
        "enable_prefix_caching": True,
        "logits_processors": [SAMPLER],
        "seed": 0,
    }
    if build == "cpu":
        arguments |= {"kv_cache_memory_bytes": num_kv_bytes, "block_size": CPU_BLOCK_TOKENS}
    return arguments


def set_environment(num_threads: int) -> None:
    """What vLLM reads of the environment, where nobody has set it; before it is imported."""
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ[ENGINE_VARIABLE] = str(os.getpid())
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads))


class VllmProcess:
    """A `DecodeEngine` over vLLM's AsyncLLM."""

    def __init__(self, llm: Any, vocabulary: Vocabulary) -> None:
        self._llm, self._numbers = llm, itertools.count()
        self._stop_ids = [*vocabulary.stop_ids, vocabulary.num_classes]  # the last: nothing could be drawn

    @classmethod
    async def open(cls, arguments: dict[str, Any], vocabulary: Vocabulary) -> "VllmProcess":
        """Raises BackendError."""
        # Not returned: vLLM keeps a frame of that thread, and with it what it returns.
        started: list[Any] = []
        await asyncio.to_thread(_start, arguments, started)
        llm = started.pop()
        llm._run_output_handler()  # else it begins with the first request, and a death before it is not seen
        return cls(llm, vocabulary)

    async def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        params = SamplingParams(
            temperature=0.0,  # the sampler draws; vLLM takes what it leaves
            max_tokens=request.max_ids,
            stop_token_ids=self._stop_ids,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args=request.sampling.written(),
            skip_clone=True,
        )
        prompt = tokens_input(list(request.prompt_ids))
        try:
            async with aclosing(self._llm.generate(prompt, params, str(next(self._numbers)))) as outputs:
                async for output in outputs:
                    yield output.outputs[0].token_ids
        except EngineDeadError as error:
            raise EngineDied from error

    async def wait_until_dead(self) -> None:
        await asyncio.wait([self._llm.output_handler])  # which ends when the process does

    async def aclose(self) -> None:
        llm, self._llm = self._llm, None
        llm.output_handler.cancel()  # else it takes the end for a death, and says so
        await asyncio.to_thread(llm.shutdown, STOP_TIMEOUT_S)
        del llm
        await asyncio.to_thread(gc.collect)  # it is part of a cycle, and complains if it is left to the end


def _exported(checkpoint: Checkpoint, directory: Path, dtype: Dtype) -> Path:
    path = directory / f"{lm_fingerprint(checkpoint.directory)}-{dtype}"
    try:
        export(checkpoint.directory, path, dtype)
    except OSError as error:
        raise BackendError(f"{path}: the language model cannot be written there: {error}") from error
    return path


def _start(arguments: dict[str, Any], started: list[Any]) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        started.append(AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments)))
    except Exception as error:
        why = " ".join(str(error).split())
        raise BackendError(f"vLLM did not start: {why}. The lines above are its own") from error


def _memory(build: Device) -> DeviceMemory:
    if build == "cuda":
        free, total = torch.cuda.mem_get_info()
        return DeviceMemory(total, free)
    from vllm.utils.cpu_resource_utils import get_memory_node_info

    found = get_memory_node_info()
    return DeviceMemory(found.total_memory, found.available_memory)
