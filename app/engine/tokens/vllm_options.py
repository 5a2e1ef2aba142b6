"""How vLLM's engine is set up, checked before it is started."""

from dataclasses import dataclass, replace

from firstword.app.engine.backend import BackendError, Device
from firstword.app.options import PrecisionChoice, VllmOptions
from firstword.models.config import Dtype, Qwen2LMConfig

BYTES_OF: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
DEFAULT_NUM_SEQS = 64  # in one step, where the number of streams is only measured later
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    total_bytes: int
    free_bytes: int


def resolve_options(
    options: VllmOptions, precision: PrecisionChoice, max_streams: int, build: Device
) -> VllmOptions:
    """Choose what is left to the program: the number format, the size of a step, compiled graphs."""
    auto_dtype: Dtype = precision if precision in ("bfloat16", "float16") else "float32"
    return replace(
        options,
        dtype=auto_dtype if options.dtype == "auto" else options.dtype,
        max_num_seqs=options.max_num_seqs or max_streams or DEFAULT_NUM_SEQS,
        eager=build == "cpu" if options.eager is None else options.eager,
    )


def dtype_of(options: VllmOptions) -> Dtype:
    assert options.dtype != "auto", "options that were not resolved"
    return options.dtype


def check_options(options: VllmOptions, config: Qwen2LMConfig, build: Device) -> None:
    """Raises BackendError for what this language model or this build of vLLM cannot do."""
    num_heads, size = config.qwen2.num_attention_heads, options.tensor_parallel_size
    if num_heads % size:
        possible = [str(number) for number in range(1, num_heads + 1) if num_heads % number == 0]
        raise BackendError(
            f"FIRSTWORD_VLLM_TENSOR_PARALLEL_SIZE is {size}, which does not divide the language model's "
            f"{num_heads} attention heads; set one of {', '.join(possible)}"
        )
    if options.quantization == "fp8" and build == "cpu":
        raise BackendError("FIRSTWORD_VLLM_QUANTIZATION is fp8, which needs a GPU; set it to none")


def kv_cache_bytes(
    options: VllmOptions, config: Qwen2LMConfig, weight_bytes: int, memory: DeviceMemory
) -> int:
    """What the share leaves for keys and values beside the weights.

    Raises BackendError, which says how much memory is missing, where that is not enough for one utterance.
    """
    share_bytes = int(options.memory_share * memory.total_bytes)
    qwen2 = config.qwen2
    num_kv_values = 2 * qwen2.num_hidden_layers * qwen2.num_key_value_heads * qwen2.head_dim  # of one id
    needed = weight_bytes + options.max_model_len * num_kv_values * BYTES_OF[dtype_of(options)]
    if needed > share_bytes:
        raise BackendError(
            f"the language model needs {_gib(weight_bytes)} for its weights and "
            f"{_gib(needed - weight_bytes)} for one utterance of {options.max_model_len} tokens; "
            f"FIRSTWORD_VLLM_MEMORY_SHARE={options.memory_share:g} of {_gib(memory.total_bytes)} is "
            f"{_gib(share_bytes)}: {_gib(needed - share_bytes)} are missing. Raise the share, lower "
            "FIRSTWORD_VLLM_MAX_MODEL_LEN, or take a smaller FIRSTWORD_VLLM_DTYPE than float32"
        )
    if share_bytes > memory.free_bytes:
        raise BackendError(
            f"FIRSTWORD_VLLM_MEMORY_SHARE={options.memory_share:g} of {_gib(memory.total_bytes)} is "
            f"{_gib(share_bytes)}, and {_gib(memory.free_bytes)} are free: "
            f"{_gib(share_bytes - memory.free_bytes)} are missing. Lower the share, or end what else runs"
        )
    return share_bytes - weight_bytes


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.2f} GiB"
