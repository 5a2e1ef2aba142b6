"""Parts that the estimators share."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.memory import Memory


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


class CausalConv1d(nn.Conv1d):
    """A convolution that never looks ahead; what came before the given frames is the memory's.

    Time comes before channels, as the layers between the convolutions want it. A chunk is short, so one
    product of its windows is faster than a convolution, which first orders its weights anew each time;
    the windows' gradient is slow, so training convolves.
    """

    def forward(self, x: Tensor, memory: Memory) -> Tensor:  # type: ignore[override]
        """x (B, T, C_in) -> (B, T, C_out)."""
        kernel = self.kernel_size[0]
        x = memory.extend_left(x, kernel - 1, dim=1)
        if torch.is_grad_enabled():
            return super().forward(x.mT).mT
        windows = x.unfold(1, kernel, 1).flatten(2)  # (B, T, C_in K)
        return F.linear(windows, self.weight.flatten(1), self.bias)


class PointwiseConv1d(nn.Conv1d):
    """A convolution over one frame, time before channels."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(in_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C_in) -> (B, T, C_out)."""
        return F.linear(x, self.weight[:, :, 0], self.bias)


class Attention(nn.Module):
    """Multi-head attention without positions; `width` -> heads x head_dim -> `width`."""

    def __init__(self, width: int, num_heads: int, head_dim: int, has_bias: bool):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.key = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.value = nn.Linear(width, num_heads * head_dim, bias=has_bias)
        self.out = nn.Linear(num_heads * head_dim, width)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        q, k, v = (self._heads(part(x)) for part in (self.query, self.key, self.value))
        return self.out(memory.attend(q, k, v).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, D)


class GeluFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, has_tanh_gelu: bool):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self._approximate = "tanh" if has_tanh_gelu else "none"

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        return self.down(F.gelu(self.up(x), approximate=self._approximate))


class TransformerBlock(nn.Module):
    """Pre-norm attention and feed-forward of the U-Nets."""

    def __init__(self, width: int, num_heads: int, head_dim: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, num_heads, head_dim, has_bias=False)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = GeluFeedForward(width, 4 * width, has_tanh_gelu=False)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        x = x + self.attention(self.attention_norm(x), memory)
        return x + self.feedforward(self.feedforward_norm(x))


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """How many values a stream keeps for one network: of each token and frame, and left of convolutions."""

    values_per_token: int = 0
    values_per_frame: int = 0
    left_values: int = 0


def left_values(module: nn.Module) -> int:
    """Values that the causal convolutions within `module` keep of what is behind them."""
    convs = [part for part in module.modules() if isinstance(part, nn.Conv1d)]
    return sum(conv.in_channels * conv.dilation[0] * (conv.kernel_size[0] - 1) for conv in convs)
