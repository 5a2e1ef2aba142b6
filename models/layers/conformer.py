"""Conformer layers.

Relative-attention transformer layers, the building blocks of CosyVoice 1's language model and of the
flow encoders. No convolution module and no macaron half: the published checkpoints have neither.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import ConformerConfig
from firstword.models.layers.attention import AttentionContext

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
