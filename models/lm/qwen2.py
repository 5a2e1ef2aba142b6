"""The language model of CosyVoice 2 and 3 (CosyVoice 2, arXiv 2412.10117): Qwen2 over text and speech ids.

Qwen2 (arXiv 2407.10671): RMSNorm, rotary positions, grouped queries, SwiGLU.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import AlignmentHeads, Qwen2Config, Qwen2LMConfig
from firstword.models.cuda import to_device
from firstword.models.layers import AttentionContext
from firstword.models.lm.kv_cache import CacheShape, KeyValueCache
from firstword.models.lm.plan import Vocabulary


class Qwen2Attention(nn.Module):
    def __init__(self, config: Qwen2Config, layer: int):
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        key_size = config.num_key_value_heads * config.head_dim
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, key_size)
        self.value = nn.Linear(config.hidden_size, key_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C), rotation (2, B, 1, T, D) -> (B, T, C)."""
        q, k = self.query(x), self.key(x)
        turned = rotate_halves(self._heads(torch.cat([q, k], dim=-1)), rotation)  # in one call: a single
        q, k = turned.tensor_split((q.shape[-1] // self.head_dim,), dim=1)  # token costs what its calls cost
        y = context.attend(self.layer, q, k, self._heads(self.value(x)))
        return self.out(y.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, T, D)


class Qwen2MLP(nn.Module):
    def __init__(self, config: Qwen2Config):
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Qwen2Layer(nn.Module):
    def __init__(self, config: Qwen2Config, layer: int):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attention = Qwen2Attention(config, layer)
        self.mlp_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = Qwen2MLP(config)

    def forward(self, x: Tensor, rotation: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C), rotation (2, B, 1, T, D) -> (B, T, C)."""
        x = x + self.attention(self.attention_norm(x), rotation, context)
        return x + self.mlp(self.mlp_norm(x))


class Qwen2Decoder(nn.Module):
    """The layers and the final norm. Norms and rotations are computed in float32 whatever the weights are."""

    def __init__(self, config: Qwen2Config):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Qwen2Layer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> (B, T, C)."""
        positions = context.positions(x.shape[1], x.device)  # (B or 1, T)
        rotation = rotary_table(positions, self.config.head_dim, self.config.rope_theta)
        for layer in self.layers:
            x = layer(x, rotation, context)
        return self.norm(x)


def rotary_table(positions: Tensor, head_dim: int, theta: float) -> Tensor:
    """positions (B, T) -> cosines and sines of n theta^(-2k / D) as `rotate_halves` takes them.

    Stacked (2, B, 1, T, D) float32: each twice, the first half of the sines negative.
    """
    angles = rotary_angles(positions, head_dim, theta)[:, None]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])


def rotary_angles(positions: Tensor, head_dim: int, theta: float) -> Tensor:
    """positions (...) -> n theta^(-2k / D), (..., D / 2) float32."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    return positions[..., None] * (1.0 / theta**exponents)


def rotate_halves(x: Tensor, rotation: Tensor) -> Tensor:
    """x (B, H, T, D): dims k and k + D / 2 are one pair, turned by the angle of its position."""
    cos, sin = rotation
    wide = x.float()
    return torch.addcmul(wide * cos, wide.roll(x.shape[-1] // 2, dims=-1), sin).to(x.dtype)


class Qwen2LM(nn.Module):
    def __init__(self, config: Qwen2LMConfig):
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary.of(config)
        width = config.qwen2.hidden_size
        self.text_embedding = nn.Embedding(config.qwen2.vocab_size, width)
        if not config.has_cosyvoice3_vocabulary:
            self.special_embedding = nn.Embedding(2, width)  # sos, task
        self.speech_embedding = nn.Embedding(self.vocabulary.num_speech_rows, width)
        self.decoder = Qwen2Decoder(config.qwen2)
        self.head = nn.Linear(width, self.vocabulary.num_classes, bias=not config.has_cosyvoice3_vocabulary)

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return self.config.alignment_heads

    def new_cache(self) -> KeyValueCache:
        qwen2, weight = self.config.qwen2, self.head.weight
        shape = CacheShape(qwen2.num_hidden_layers, qwen2.num_key_value_heads, qwen2.head_dim)
        watched = frozenset(layer for layer, _ in self.alignment_heads)
        return KeyValueCache(shape, weight.dtype, weight.device, watched, qwen2.num_attention_heads)

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None = None) -> Tensor:
        """ids of the joint vocabulary -> (1, T, C); these models take no speaker."""
        return self.embed(to_device([*ids], self.head.weight.device)[None])

    def embed(self, ids: Tensor) -> Tensor:
        """ids (...) of the joint vocabulary -> (..., C)."""
        names = self.vocabulary
        if ids.device.type == "cpu" and (ids < names.num_speech_rows).all():  # elsewhere, asking would wait
            return self.speech_embedding(ids)
        speech = self.speech_embedding(ids.clamp(max=names.num_speech_rows - 1))
        text = self.text_embedding((ids - names.first_text).clamp(min=0))
        x = torch.where((ids >= names.first_text)[..., None], text, speech)
        if self.config.has_cosyvoice3_vocabulary:
            return x
        number = ids - names.sos
        special = number.clamp(0, 1)
        return torch.where((special == number)[..., None], self.special_embedding(special), x)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        return self.decoder(x, context)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., C) -> (..., V)."""
        return self.head(hidden)
