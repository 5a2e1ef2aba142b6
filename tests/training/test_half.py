"""bfloat16 in training, on machines with and without arithmetic for it."""

from collections.abc import Iterator, Mapping

import pytest
import torch

from training.half import autocast, computes_bfloat16


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    computes_bfloat16.cache_clear()
    yield
    computes_bfloat16.cache_clear()


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"avx2": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_f": True, "avx512_vnni": True}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"neon": True, "bf16": True}, torch.bfloat16),
    ],
)
def test_half_is_bfloat16_only_where_it_is_not_emulated(
    monkeypatch: pytest.MonkeyPatch, capabilities: Mapping[str, bool], dtype: torch.dtype
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    weight = torch.ones(4, 4)
    with autocast("cpu", True):
        assert (weight @ weight).dtype == dtype
    with autocast("cpu", False):
        assert (weight @ weight).dtype == torch.float32
