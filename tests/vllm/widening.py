"""The same language model with wider heads: on a CPU vLLM has none as narrow as the reference's."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from firstword.models.lm.qwen2 import Qwen2LM

MIN_HEAD_DIM = 32


def widened(lm: Qwen2LM) -> Qwen2LM:
    """Equal to `lm` up to rounding: every vector `times` as wide, zeros in what is new.

    A rotary pair k of D / 2 goes to k * times, whose frequency theta^(-2 k times / (D times)) is the same.
    """
    qwen2 = lm.config.qwen2
    times = max(1, MIN_HEAD_DIM // qwen2.head_dim)
    sizes = replace(
        qwen2, hidden_size=qwen2.hidden_size * times, rms_norm_eps=qwen2.rms_norm_eps / times
    )  # a mean over zeros too is smaller
    wide = Qwen2LM(replace(lm.config, qwen2=sizes)).requires_grad_(False).eval()
    widen = _widening(qwen2.hidden_size, qwen2.head_dim, times)
    wide.load_state_dict({name: widen(name, value) for name, value in lm.state_dict().items()})
    return wide


def _widening(hidden_size: int, head_dim: int, times: int) -> Callable[[str, Tensor], Tensor]:
    pairs = torch.arange(head_dim // 2) * times
    places = torch.cat([pairs, pairs + head_dim * times // 2])  # of a head's old dims in the new ones

    def in_heads(x: Tensor) -> Tensor:
        """x (..., H D) -> (..., H D times)."""
        heads = x.unflatten(-1, (-1, head_dim))
        wide = heads.new_zeros(*heads.shape[:-1], head_dim * times)
        wide[..., places] = heads
        return wide.flatten(-2)

    def padded(x: Tensor) -> Tensor:
        """x (..., C) -> (..., C times)."""
        return torch.nn.functional.pad(x, (0, hidden_size * (times - 1)))

    def widen(name: str, value: Tensor) -> Tensor:
        if "norm" in name:
            return padded(value) / math.sqrt(times)
        if any(f"attention.{part}." in name for part in ("query", "key", "value")):
            scale = math.sqrt(times) if "query" in name else 1.0  # scores are divided by more
            rows = in_heads(value.T if value.dim() == 2 else value) * scale
            return padded(rows.T) if value.dim() == 2 else rows
        if name.endswith("attention.out.weight"):
            return padded(in_heads(value).T).T
        if name.endswith("mlp.down.weight"):
            return padded(value.T).T
        return value if name.endswith("bias") else padded(value)

    return widen
