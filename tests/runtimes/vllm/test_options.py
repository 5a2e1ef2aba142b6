"""What vLLM's engine is given is checked before it is started."""

from dataclasses import replace

import pytest

from firstword.app.engine.backend import BackendError
from firstword.app.options import VllmOptions
from firstword.models.config import Qwen2Config, Qwen2LMConfig
from firstword.models.runtimes.vllm.options import (
    DeviceMemory,
    check_options,
    kv_cache_bytes,
    resolve_options,
)

GIB = 1 << 30
FULL = Qwen2LMConfig(6561, Qwen2Config(151_936, 896, 4864, 24, 14, 2), has_cosyvoice3_vocabulary=False)
WEIGHT_BYTES = 2 * GIB
KV_BYTES_PER_TOKEN = 2 * 24 * 2 * 64 * 4
OPTIONS = VllmOptions(
    dtype="float32",
    max_num_seqs=8,
    max_model_len=8192,
    memory_share=0.5,
    eager=True,
)


def test_the_share_less_the_weights_is_the_cache() -> None:
    memory = DeviceMemory(16 * GIB, 16 * GIB)
    assert kv_cache_bytes(OPTIONS, FULL, WEIGHT_BYTES, memory) == 6 * GIB


def test_too_small_a_share_says_how_much_is_missing() -> None:
    needed = WEIGHT_BYTES + OPTIONS.max_model_len * KV_BYTES_PER_TOKEN
    memory = DeviceMemory(4 * GIB, 4 * GIB)
    missing = f"{(needed - 2 * GIB) / GIB:.2f} GiB are missing"
    with pytest.raises(BackendError, match=missing) as raised:
        kv_cache_bytes(OPTIONS, FULL, WEIGHT_BYTES, memory)
    assert "2.00 GiB for its weights" in str(raised.value)
    assert kv_cache_bytes(OPTIONS, FULL, WEIGHT_BYTES, DeviceMemory(2 * needed, 2 * needed)) > 0


def test_a_share_that_others_hold_says_how_much_is_missing() -> None:
    with pytest.raises(BackendError, match=r"3.00 GiB are free: 5.00 GiB are missing"):
        kv_cache_bytes(OPTIONS, FULL, WEIGHT_BYTES, DeviceMemory(16 * GIB, 3 * GIB))


def test_heads_that_cannot_be_spread_are_refused() -> None:
    for size in (1, 2, 7, 14):
        check_options(replace(OPTIONS, tensor_parallel_size=size), FULL, "cuda")
    with pytest.raises(BackendError, match="14 attention heads; set one of 1, 2, 7, 14"):
        check_options(replace(OPTIONS, tensor_parallel_size=4), FULL, "cuda")


def test_fp8_needs_a_gpu() -> None:
    check_options(replace(OPTIONS, quantization="fp8"), FULL, "cuda")
    with pytest.raises(BackendError, match="needs a GPU"):
        check_options(replace(OPTIONS, quantization="fp8"), FULL, "cpu")


def test_what_is_left_to_the_program_is_chosen() -> None:
    chosen = resolve_options(VllmOptions(), "bfloat16", 5, "cuda")
    assert (chosen.dtype, chosen.max_num_seqs, chosen.eager) == ("bfloat16", 5, False)
    chosen = resolve_options(VllmOptions(), "int8", 0, "cpu")
    assert (chosen.dtype, chosen.max_num_seqs, chosen.eager) == ("float32", 64, True)
    assert resolve_options(OPTIONS, "bfloat16", 5, "cpu") == OPTIONS
