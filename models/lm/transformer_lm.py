"""The language model of CosyVoice 1 (arXiv 2407.05407): text encoder, speaker vector, causal decoder."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import AlignmentHeads, TransformerLMConfig
from firstword.models.cuda import to_device
from firstword.models.layers import AttentionContext, Conformer, FullContext, chunk_mask
from firstword.models.lm.kv_cache import CacheShape, KeyValueCache
from firstword.models.lm.plan import Vocabulary


class TransformerLM(nn.Module):
    def __init__(self, config: TransformerLMConfig):
        """Raises ValueError for a decoder that is not causal (chunk 1): it could not speak token by token."""
        super().__init__()
        if config.decoder.chunk != 1:
            raise ValueError(f"the decoder's chunk is {config.decoder.chunk}; expected 1, causal")
        self.config = config
        self.vocabulary = Vocabulary.of(config)
        width = config.decoder.input_size
        self.text_embedding = nn.Embedding(config.text_token_size, config.text_encoder.input_size)
        self.text_encoder = Conformer(config.text_encoder)
        self.text_projection = nn.Linear(config.text_encoder.width, width)
        self.speaker_projection = nn.Linear(config.speaker_embedding_size, width)
        self.special_embedding = nn.Embedding(2, width)  # sos, task
        self.speech_embedding = nn.Embedding(config.speech_token_size, width)
        self.decoder = Conformer(config.decoder)
        self.head = nn.Linear(config.decoder.width, self.vocabulary.num_classes)

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return ()

    def new_cache(self) -> KeyValueCache:
        decoder, weight = self.config.decoder, self.head.weight
        shape = CacheShape(decoder.num_layers, decoder.num_heads, decoder.width // decoder.num_heads)
        return KeyValueCache(shape, weight.dtype, weight.device)

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None = None) -> Tensor:
        """Embed sos, text, task, speech -> (1, T, C); a speaker's position comes behind sos."""
        first_text = self.vocabulary.first_text
        num_text_ids = sum(id >= first_text for id in ids)
        row = to_device([*ids], self.head.weight.device)[None]
        text = row[:, 1 : 1 + num_text_ids] - first_text
        parts = [self.embed(row[:, :1]), self.encode_text(text), self.embed(row[:, 1 + num_text_ids :])]
        if speaker is not None:
            parts.insert(1, self.speaker_vector(speaker[None])[:, None])
        return torch.cat(parts, dim=1)

    def encode_text(self, text: Tensor) -> Tensor:
        """text (B, T), the tokenizer's ids -> (B, T, C)."""
        context = FullContext(chunk_mask(text.shape[1], self.config.text_encoder.chunk, text.device))
        return self.text_projection(self.text_encoder(self.text_embedding(text), context))

    def speaker_vector(self, speaker: Tensor) -> Tensor:
        """speaker embedding (B, 192) -> (B, C)."""
        weight = self.speaker_projection.weight
        normalized = F.normalize(speaker.to(weight.device, torch.float32), dim=1)
        return self.speaker_projection(normalized.to(weight.dtype))

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T): speech, sos and task -> (B, T, C)."""
        names = self.vocabulary
        speech = self.speech_embedding(ids.clamp(max=names.num_speech_rows - 1))
        special = self.special_embedding((ids - names.sos).clamp(0, 1))
        return torch.where((ids >= names.sos)[..., None], special, speech)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        return self.decoder(x, context)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., C) -> (..., V)."""
        return self.head(hidden)
