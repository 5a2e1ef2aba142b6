"""The language model of CosyVoice 2 and 3: a Qwen2 decoder over text and speech ids
(CosyVoice 2, arXiv 2412.10117).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.config import Qwen2LMConfig
from models.lm.kv_cache import CacheShape, KeyValueCache
from models.lm.qwen2 import Qwen2Decoder
from models.lm.transfer import to_device
from models.lm.vocabulary import Vocabulary
from models.memory import Memory


class Qwen2LM(nn.Module):
    def __init__(self, config: Qwen2LMConfig):
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary.of(config)
        width = config.qwen2.hidden_size
        self.text_embedding = nn.Embedding(config.qwen2.vocab_size, width)
        if not config.has_special_rows:
            self.special_embedding = nn.Embedding(2, width)  # sos, task
        self.speech_embedding = nn.Embedding(self.vocabulary.num_speech_rows, width)
        self.decoder = Qwen2Decoder(config.qwen2)
        self.head = nn.Linear(width, self.vocabulary.num_classes, bias=not config.has_special_rows)

    def new_cache(self) -> KeyValueCache:
        qwen2, weight = self.config.qwen2, self.head.weight
        shape = CacheShape(qwen2.num_hidden_layers, qwen2.num_key_value_heads, qwen2.head_dim)
        return KeyValueCache(shape, weight.dtype, weight.device)

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None = None) -> Tensor:
        """ids of the joint vocabulary -> (1, T, C); these models take no speaker."""
        return self.embed(to_device([*ids], self.head.weight.device)[None])

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) of the joint vocabulary -> (B, T, C)."""
        names = self.vocabulary
        speech = self.speech_embedding(ids.clamp(max=names.num_speech_rows - 1))
        text = self.text_embedding((ids - names.first_text).clamp(min=0))
        x = torch.where((ids >= names.first_text)[..., None], text, speech)
        if self.config.has_special_rows:
            return x
        special = self.special_embedding((ids - names.sos).clamp(0, 1))
        is_special = (ids == names.sos) | (ids == names.task)
        return torch.where(is_special[..., None], special, x)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        return self.decoder(x, memory)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., C) -> (..., V)."""
        return self.head(hidden)
