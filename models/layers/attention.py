"""Attention contexts and relative positions.

What a network sees beside the frames it is given: a convolution's left context, attention's keys.

A network's `forward` is written once, against `Memory`. `WholeMemory` gives it the sequence alone
(training, offline, recomputation); `models.lm.kv_cache` and `models.flow.chunk_cache` give it what
went before, kept from earlier calls.

Relative sinusoidal positions as a plain dot product.

A relative-attention score adds (q + v) . W R(i - j), with R(r) the interleaved sines and cosines of
the distance r (Transformer-XL, arXiv 1901.02860, section 3.3). By the addition theorems
W^T(q + v) . R(i - j) equals a rotation of W^T(q + v) by the query's position, times R(j): so keys at
any positions, with gaps and in any order, need no shifting of a distance table.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Memory(Protocol):
    def extend_left(self, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        """x (B, C, T) -> (B, C, frames + T), with the `frames` that came before it in front.

        dim: which one is time; 1: x (B, T, C) -> (B, frames + T, C).
        """
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None) -> Tensor:
        """Attention of q (B, H, T, D) over all that is visible, k and v (B, H_kv, T, D) the new part of it.

        distance_query (B, H, T, W): adds distance_query . R(i - j) to the score. -> (B, H, T, D)
        """
        ...

    def positions(self, length: int, device: torch.device) -> Tensor:
        """Where the `length` given frames stand in the whole: (B, T), or (1, T) if all rows agree."""
        ...


class WholeMemory:
    """The given sequence is all there is: zeros before it, attention within it under `mask`.

    mask: bool, broadcastable to (B, H, T, T), True where a query (row) may see a key; None: everywhere.
    """

    def __init__(self, mask: Tensor | None = None):
        self._mask = mask
        self._table: Tensor | None = None  # (T, W)

    def extend_left(self, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        return F.pad(x, (frames, 0) if dim == 2 else (0, 0, frames, 0))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None) -> Tensor:
        if distance_query is None:
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=self._mask, enable_gqa=k.shape[1] != q.shape[1]
            )
        length, width = distance_query.shape[-2:]
        if self._table is None or self._table.shape != (length, width):
            self._table = sinusoids(torch.arange(length, device=q.device), width, q.dtype)
        scores = q @ k.mT + rotate(distance_query, self._table) @ self._table.mT  # (B, H, T, T)
        return masked_softmax(scores / math.sqrt(q.shape[-1]), self._mask) @ v

    def positions(self, length: int, device: torch.device) -> Tensor:
        return torch.arange(length, device=device)[None]


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last dimension, zero where `mask` is False; a row that sees nothing is all zero."""
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, float("-inf")).softmax(-1).masked_fill(~mask, 0.0)


def chunk_mask(length: int, chunk: int, device: torch.device | None = None) -> Tensor | None:
    """(T, T): query i sees key j iff j < (i // chunk + 1) * chunk; None for chunk 0, where all see all."""
    if chunk == 0:
        return None
    index = torch.arange(length, device=device)
    return index[None, :] < ((index // chunk + 1) * chunk)[:, None]


def padding_mask(lengths: Tensor, length: int) -> Tensor:
    """lengths (B,) -> (B, 1, 1, T): True for the keys that are no padding."""
    return (torch.arange(length, device=lengths.device) < lengths[:, None])[:, None, None, :]


def visibility(length: int, chunk: int, lengths: Tensor | None, device: torch.device) -> Tensor | None:
    """What queries see in a padded batch: chunk by chunk, and no padding. Broadcastable to (B, H, T, T)."""
    causal = chunk_mask(length, chunk, device)
    if lengths is None:
        return causal
    padding = padding_mask(lengths, length)
    return padding if causal is None else causal & padding


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
