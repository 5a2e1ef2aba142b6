"""Speech tokens to `mu`, the mean the flow starts from, for CosyVoice 2 and 3."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import FRAMES_PER_TOKEN, UNetFlowConfig
from firstword.models.cuda import to_device
from firstword.models.flow.kv_cache import ChunkKVCache, PagedKVCache
from firstword.models.layers import (
    ConformerLayer,
    ConvContext,
    InputEmbedding,
    NetworkContext,
)

UP_KERNEL_SIZE = 5
LOOKAHEAD_KERNEL_SIZE = 3
CONV_INDEX = 0  # tokens and frames have contexts of their own, with one causal convolution each


class Lookahead(nn.Module):
    """Lets token i see the `lookahead` tokens after it and two before it."""

    def __init__(self, width: int, hidden: int, lookahead: int):
        super().__init__()
        self._lookahead = lookahead
        self.conv1 = nn.Conv1d(width, hidden, lookahead + 1)
        self.conv2 = nn.Conv1d(hidden, width, LOOKAHEAD_KERNEL_SIZE)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, T + lookahead, C) -> (B, T, C)."""
        y = F.leaky_relu(self.conv1(x.mT))
        y = self.conv2(context.extend(CONV_INDEX, y, LOOKAHEAD_KERNEL_SIZE - 1)).mT
        return y + x[:, : y.shape[1]]


class UpsampleConformer(nn.Module):
    """Conformer at token rate, doubling in time, conformer at frame rate (arXiv 2412.10117, section 2.3)."""

    def __init__(self, config: UNetFlowConfig):
        super().__init__()
        layer = config.encoder
        width = layer.width
        self.embed = InputEmbedding(layer.input_size, width)
        self.lookahead = Lookahead(width, width, config.lookahead_tokens)
        self.layers = nn.ModuleList(ConformerLayer(layer, index) for index in range(layer.num_layers))
        self.up_conv = nn.Conv1d(width, width, UP_KERNEL_SIZE)
        self.up_embed = InputEmbedding(width, width)
        self.up_layers = nn.ModuleList(ConformerLayer(layer, index) for index in range(config.num_up_layers))
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(
        self, x: Tensor, is_token: Tensor, token_context: NetworkContext, frame_context: NetworkContext
    ) -> Tensor:
        """x (B, T + lookahead, C_in), is_token (B, T + lookahead) -> (B, 2 T, C).

        Where `is_token` is False the embedded vector is zero: no token has come there yet, or none will.
        """
        x = self.embed(x) * is_token[..., None]
        x = self.lookahead(x, token_context)
        for layer in self.layers:
            x = layer(x, token_context)
        x = x.repeat_interleave(FRAMES_PER_TOKEN, dim=1).mT  # (B, C, 2 T)
        x = self.up_conv(frame_context.extend(CONV_INDEX, x, UP_KERNEL_SIZE - 1)).mT
        x = self.up_embed(x)
        for layer in self.up_layers:
            x = layer(x, frame_context)
        return self.norm(x)


class ConformerFront(nn.Module):
    """CosyVoice 2: token embedding, upsampling conformer, projection to mel bins."""

    cache_class: ClassVar[type[ChunkKVCache]] = PagedKVCache

    def __init__(self, config: UNetFlowConfig, num_mels: int):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.encoder.input_size)
        self.encoder = UpsampleConformer(config)
        self.projection = nn.Linear(config.encoder.width, num_mels)

    def forward(self, tokens: Tensor, token_context: NetworkContext, frame_context: NetworkContext) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        x = self.embedding(tokens.clamp(min=0))
        return self.projection(self.encoder(x, tokens >= 0, token_context, frame_context)).mT


class EmbeddingFront(nn.Module):
    """CosyVoice 3: token embedding as wide as the mel, lookahead, each token twice."""

    cache_class: ClassVar[type[ChunkKVCache]] = PagedKVCache

    def __init__(self, vocab_size: int, num_mels: int, hidden: int, lookahead: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, num_mels)
        self.lookahead = Lookahead(num_mels, hidden, lookahead)

    def forward(self, tokens: Tensor, token_context: NetworkContext, frame_context: NetworkContext) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        x = self.embedding(tokens.clamp(min=0)) * (tokens >= 0)[..., None]
        return self.lookahead(x, token_context).repeat_interleave(FRAMES_PER_TOKEN, dim=1).mT


def without_lookahead(tokens: Tensor, lookahead: int) -> Tensor:
    """tokens (B, T) -> (B, T + lookahead): nothing comes after them."""
    return F.pad(tokens, (0, lookahead), value=-1)


def pack_tokens(rows: list[list[int]], width: int, device: torch.device) -> Tensor:
    """Rows of at most `width` ids -> (B, width), -1 where a row has none."""
    return to_device([row + [-1] * (width - len(row)) for row in rows], device)
