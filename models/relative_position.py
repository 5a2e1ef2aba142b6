"""Relative sinusoidal positions as a plain dot product.

A relative-attention score adds (q + v) . W R(i - j), with R(r) the interleaved sines and cosines of
the distance r (Transformer-XL, arXiv 1901.02860, section 3.3). By the addition theorems
W^T(q + v) . R(i - j) equals a rotation of W^T(q + v) by the query's position, times R(j): so keys at
any positions, with gaps and in any order, need no shifting of a distance table.
"""

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """positions (..., T) -> (..., T, width): sin(n w_k) at 2k, cos(n w_k) at 2k + 1, w_k = 10000^(-2k/width).

    Computed in float64: in float32 the angle of a far position is off by more than the score may be.
    """
    frequencies = torch.exp(
        torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
        * (-math.log(10_000.0) / width)
    )
    angles = positions.to(torch.float64)[..., None] * frequencies  # (..., T, width / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(dtype)


def rotate(query: Tensor, table: Tensor) -> Tensor:
    """query (..., T, W) at positions i, table (..., T, W) of those -> (..., T, W) to be dotted with R(j)."""
    a, b = query[..., 0::2], query[..., 1::2]
    sin, cos = table[..., 0::2], table[..., 1::2]
    return torch.stack([b * sin - a * cos, a * sin + b * cos], dim=-1).flatten(-2)
