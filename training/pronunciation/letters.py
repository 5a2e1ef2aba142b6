"""A small network that reads words the dictionary does not have, letter by letter."""

import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.tokenizer.pronunciation import LETTERS, SOUNDS

SLOTS = 2  # sounds a letter may become: "x"
_KERNEL = 5


class LetterReader(nn.Module):
    """Convolutions over letters; each letter answers two marks or blanks (CTC, Graves 2006)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS) + 1, width)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, _KERNEL, padding=_KERNEL // 2) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.output = nn.Linear(width, SLOTS * (len(SOUNDS) + 1))

    def forward(self, letters: Tensor) -> Tensor:
        """letters (B, T), 1 + place in LETTERS, 0 behind the end -> logits (B, 2 T, marks); 0: blank."""
        is_letter = (letters > 0)[:, None].float()
        x = self.embedding(letters).mT * is_letter
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = (x + F.gelu(conv(norm(x.mT).mT))) * is_letter
        return self.output(x.mT).unflatten(-1, (SLOTS, -1)).flatten(1, 2)
