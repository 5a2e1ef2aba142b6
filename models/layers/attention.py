"""Contexts of attentions and causal convolutions, visibility masks and relative positions.

A network's `forward` is written once, against `AttentionContext` and `ConvContext`. `FullContext` gives it
the given sequence alone (training, offline); `firstword.models.lm.kv_cache` and
`firstword.models.flow.batched_cache` give it what earlier calls left, each layer's under its own index.

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


class AttentionContext(Protocol):
    """What the attentions of a network see beside the frames they are given."""

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        """Attention of q (B, H, T, D) over all that is visible, k and v (B, H_kv, T, D) the new part of it.

        layer: the attention's index within its network, given to it at construction.
        distance_query (B, H, T, W): adds distance_query . R(i - j) to the score. -> (B, H, T, D)
        """
        ...

    def positions(self, length: int, device: torch.device) -> Tensor:
        """Positions of the `length` given frames in the sequence: (B, T), or (1, T) if all rows agree."""
        ...


class ConvContext(Protocol):
    """What the causal convolutions of a network see before the frames they are given."""

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        """x (B, C, T) -> (B, C, frames + T), with the `frames` before it in front; zeros at the start.

        index: the convolution's index within its network, given to it at construction.
        dim: the time dimension; 1: x (B, T, C) -> (B, frames + T, C).
        """
        ...


class NetworkContext(AttentionContext, ConvContext, Protocol):
    """The context of a network that has both attentions and causal convolutions."""


class FullContext:
    """Context of a whole sequence: zeros before it, attention within it under `mask`.

    mask: bool, broadcastable to (B, H, T, T), True where a query (row) may see a key; None: everywhere.
    """

    def __init__(self, mask: Tensor | None = None):
        self._mask = mask
        self._table: Tensor | None = None  # (T, W)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        return pad_left(x, frames, dim)

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
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


def pad_left(x: Tensor, frames: int, dim: int) -> Tensor:
    """Put `frames` zeros before x along `dim`, 1 or 2 of three."""
    return F.pad(x, (frames, 0) if dim == 2 else (0, 0, frames, 0))


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
