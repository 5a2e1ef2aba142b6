"""A small network that reads words the dictionary does not have, letter by letter."""

import torch.nn.functional as F
from torch import Tensor, nn

from training.text.arpabet import MARKS

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
SLOTS = 2  # marks a letter may become: "x"
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
        self.output = nn.Linear(width, SLOTS * (len(MARKS) + 1))

    def forward(self, letters: Tensor) -> Tensor:
        """letters (B, T), 1 + place in LETTERS, 0 behind the end -> logits (B, 2 T, marks); 0: blank."""
        is_letter = (letters > 0)[:, None].float()
        x = self.embedding(letters).mT * is_letter
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = (x + F.gelu(conv(norm(x.mT).mT))) * is_letter
        return self.output(x.mT).unflatten(-1, (SLOTS, -1)).flatten(1, 2)


def letters_of(word: str) -> list[int]:
    return [1 + LETTERS.index(letter) for letter in word.lower() if letter in LETTERS]


def collapse(best: list[int]) -> tuple[str, ...]:
    """The best class of every slot -> marks: repetitions are one, blanks none."""
    kept = [mark for place, mark in enumerate(best) if mark and (place == 0 or mark != best[place - 1])]
    return tuple(MARKS[mark - 1] for mark in kept)
