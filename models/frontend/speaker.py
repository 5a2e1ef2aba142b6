"""The features of a speaker: an embedding, and the prompt that the networks continue, if there is one."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS, SPEAKER_EMBEDDING_SIZE

MEL_MAP_SHAPE: Final = (NUM_MELS, NUM_MELS + 1)  # a matrix and an offset
EQUALIZER_SHAPE: Final = (512,)


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerFeatures:
    """What the networks read of a speaker; with an empty prompt (P = F = 0) an embedding only: SFT speakers.

    The transcript of the prompt stands in `prompt_text`, or as text tokens in `prompt_text_ids`, as
    `spk2info.pt` keeps it; `prompt_text` is then not used.
    """

    prompt_text: str
    prompt_tokens: Tensor  # (P,) int64, speech tokens
    prompt_mel: Tensor  # (F, 80) float32; F = 2 P where tokens come 25 a second
    embedding: Tensor  # (192,) float32, not normalized
    prompt_text_ids: tuple[int, ...] | None = None
    mel_map: Tensor | None = None  # (80, 81) float32, by `mel_match`: makes the flow's mel like the prompt's
    equalizer: Tensor | None = None  # (512,) float32, by `equalizer`: taps for the samples, with a map only

    def __post_init__(self) -> None:
        assert self.prompt_tokens.ndim == 1, f"prompt_tokens {tuple(self.prompt_tokens.shape)}"
        assert self.prompt_mel.shape[1:] == (NUM_MELS,), f"prompt_mel {tuple(self.prompt_mel.shape)}"
        assert self.embedding.shape == (SPEAKER_EMBEDDING_SIZE,), f"embedding {tuple(self.embedding.shape)}"
        assert self.mel_map is None or self.mel_map.shape == MEL_MAP_SHAPE, f"mel_map {self.mel_map.shape}"
        assert self.equalizer is None or self.equalizer.shape == EQUALIZER_SHAPE, (
            f"equalizer {tuple(self.equalizer.shape)}"
        )

    @classmethod
    def without_prompt(cls, embedding: Tensor) -> "SpeakerFeatures":
        """embedding (192,) float32."""
        return cls("", torch.zeros(0, dtype=torch.int64), torch.zeros(0, NUM_MELS), embedding)

    @property
    def has_prompt(self) -> bool:
        return len(self.prompt_tokens) > 0


def align_prompt(tokens: Tensor, mel: Tensor) -> tuple[Tensor, Tensor]:
    """Cut tokens (Ls,) and mel (F, 80) to (L,) and (2 L, 80), L the longest that both can fill."""
    length = min(len(mel) // FRAMES_PER_TOKEN, len(tokens))
    return tokens[:length], mel[: FRAMES_PER_TOKEN * length]
