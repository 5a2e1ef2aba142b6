"""Whose voice speaks: an embedding, and the prompt that the networks continue, if there is one."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.config import FRAMES_PER_TOKEN, NUM_MELS, SPEAKER_EMBEDDING_SIZE


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """A speaker with an empty prompt (P = F = 0) has an embedding only: the published SFT speakers.

    What the prompt says stands in `prompt_text`, or, for a speaker read from `spk2info.pt`, which keeps no
    text, as text tokens in `prompt_text_ids`; `prompt_text` is then empty and not to be used.
    """

    prompt_text: str
    prompt_tokens: Tensor  # (P,) int64, speech tokens
    prompt_mel: Tensor  # (F, 80) float32; F = 2 P where tokens come 25 a second
    embedding: Tensor  # (192,) float32, not normalised
    prompt_text_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        assert self.prompt_tokens.ndim == 1, f"prompt_tokens {tuple(self.prompt_tokens.shape)}"
        assert self.prompt_mel.shape[1:] == (NUM_MELS,), f"prompt_mel {tuple(self.prompt_mel.shape)}"
        assert self.embedding.shape == (SPEAKER_EMBEDDING_SIZE,), f"embedding {tuple(self.embedding.shape)}"

    @classmethod
    def without_prompt(cls, embedding: Tensor) -> "Speaker":
        """embedding (192,) float32."""
        return cls("", torch.zeros(0, dtype=torch.int64), torch.zeros(0, NUM_MELS), embedding)

    @property
    def has_prompt(self) -> bool:
        return len(self.prompt_tokens) > 0


def align_prompt(tokens: Tensor, mel: Tensor) -> tuple[Tensor, Tensor]:
    """tokens (Ls,), mel (F, 80) -> (L,), (2 L, 80) with L the longest that both can fill, cut at the end."""
    length = min(len(mel) // FRAMES_PER_TOKEN, len(tokens))
    return tokens[:length], mel[: FRAMES_PER_TOKEN * length]
