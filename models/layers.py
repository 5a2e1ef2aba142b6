"""Layers that networks share: contexts, relative positions, conformer layers, and parts of the estimators.

A network's `forward` is written once, against `AttentionContext` and `ConvContext`. `FullContext` gives it
the given sequence alone (training, offline); `firstword.models.lm.kv_cache` and
`firstword.models.flow.batched_cache` give it what earlier calls left, each layer's under its own index.

A relative-attention score adds (q + v) . W R(i - j), with R(r) the interleaved sines and cosines of
the distance r (Transformer-XL, arXiv 1901.02860, section 3.3). By the addition theorems
W^T(q + v) . R(i - j) equals a rotation of W^T(q + v) by the query's position, times R(j): so keys at
any positions, with gaps and in any order, need no shifting of a distance table.

The conformer layers are those of CosyVoice 1's language model and of the flow encoders. They have no
convolution module and no macaron half: the published checkpoints have neither.
"""

import math
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import ConformerConfig


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
                q, k, v, attn_mask=self._mask, enable_gqa=bool(k.shape[1] != q.shape[1])
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


LAYER_NORM_EPS = 1e-12
OUTER_NORM_EPS = 1e-5


class RelativeAttention(nn.Module):
    """Multi-head attention with learned content and position biases (Transformer-XL, arXiv 1901.02860)."""

    def __init__(self, width: int, num_heads: int, layer: int):
        super().__init__()
        self.num_heads = num_heads
        self.layer = layer
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, width // num_heads))
        self.position_bias = nn.Parameter(torch.zeros(num_heads, width // num_heads))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        q = self.query(x).unflatten(-1, (self.num_heads, -1))  # (B, T, H, D)
        k = self.key(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, D)
        v = self.value(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        position_weight = self.position.weight.unflatten(0, (self.num_heads, -1))  # (H, D, C)
        distance_query = (q + self.position_bias).transpose(1, 2) @ position_weight  # (B, H, T, C)
        content_query = (q + self.content_bias).transpose(1, 2)
        y = context.attend(self.layer, content_query, k, v, distance_query)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, activation: Literal["silu", "relu"]):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.has_silu = activation == "silu"

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        hidden = self.up(x)
        return self.down(F.silu(hidden) if self.has_silu else F.relu(hidden))


class ConformerLayer(nn.Module):
    def __init__(self, config: ConformerConfig, layer: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, eps=LAYER_NORM_EPS)
        self.attention = RelativeAttention(config.width, config.num_heads, layer)
        self.feedforward_norm = nn.LayerNorm(config.width, eps=LAYER_NORM_EPS)
        self.feedforward = FeedForward(config.width, config.feedforward_size, config.activation)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        x = x + self.attention(self.attention_norm(x), context)
        return x + self.feedforward(self.feedforward_norm(x))


class InputEmbedding(nn.Module):
    """Linear, layer norm, ReLU where the checkpoint has it, times sqrt(width)."""

    def __init__(self, input_size: int, width: int, has_relu: bool = False):
        super().__init__()
        self.linear = nn.Linear(input_size, width)
        self.norm = nn.LayerNorm(width, eps=OUTER_NORM_EPS)
        self._has_relu = has_relu
        self._scale = math.sqrt(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, input_size) -> (B, T, width)."""
        x = self.norm(self.linear(x))
        return (F.relu(x) if self._has_relu else x) * self._scale


class Conformer(nn.Module):
    """Input embedding, layers, final norm."""

    def __init__(self, config: ConformerConfig):
        super().__init__()
        self.embed = InputEmbedding(config.input_size, config.width, config.has_input_relu)
        self.layers = nn.ModuleList(ConformerLayer(config, layer) for layer in range(config.num_layers))
        self.norm = nn.LayerNorm(config.width, eps=OUTER_NORM_EPS)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, input_size) -> (B, T, width)."""
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, context)
        return self.norm(x)


def time_sinusoids(t: Tensor, width: int) -> Tensor:
    """t (B,) in 0..1 -> (B, width): sines, then cosines, of 1000 t, float32."""
    half = width // 2
    exponents = torch.arange(half, dtype=torch.float32, device=t.device) * (-math.log(10_000) / (half - 1))
    angles = 1000 * t.float()[:, None] * exponents.exp()
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class SpeakerProjection(nn.Linear):
    """A speaker embedding of any length to the width of the mel."""

    def forward(self, embedding: Tensor) -> Tensor:
        """embedding (B, 192) -> (B, M), in the weights' dtype."""
        return super().forward(F.normalize(embedding.float(), dim=1).to(self.weight.dtype))


class TimeEmbedding(nn.Module):
    def __init__(self, sinusoid_width: int, width: int):
        super().__init__()
        self.sinusoid_width = sinusoid_width
        self.linear1 = nn.Linear(sinusoid_width, width)
        self.linear2 = nn.Linear(width, width)

    def forward(self, t: Tensor) -> Tensor:
        """t (B,) -> (B, width)."""
        x = time_sinusoids(t, self.sinusoid_width).to(self.linear1.weight.dtype)
        return self.linear2(F.silu(self.linear1(x)))


class GeluFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, has_tanh_gelu: bool):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.has_tanh_gelu = has_tanh_gelu

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.has_tanh_gelu else "none"))
