"""What the decoder and the training loss ask of a language model; CosyVoice 1's and Qwen2's both give it."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from models.lm.kv_cache import KeyValueCache
from models.lm.vocabulary import Vocabulary
from models.memory import Memory


class SpeechLM(Protocol):
    @property
    def vocabulary(self) -> Vocabulary: ...

    def new_cache(self) -> KeyValueCache:
        """An empty cache in the network's dtype, on its device."""
        ...

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None) -> Tensor:
        """What an utterance begins with, all its ids at once: sos first. -> (1, T, C).

        speaker (192,): adds one position where the network has a use for it, else it is ignored.
        """
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) of the joint vocabulary -> (B, T, C). For CosyVoice 1 no text ids."""
        ...

    def __call__(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., C) -> (..., V)."""
        ...
