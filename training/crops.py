"""Pieces of one length out of the corpus, the utterances of a speaker standing one after the other."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from training.ragged import Array


class Crops:
    """utterances: speaker and columns of each; rates: how many entries of a column one speech token takes.

    A speaker comes as often as the fourth root of how much it says, since some teachers are a hundred times
    faster than others and the corpus has that much more of them.

    shipped: the speakers that half of all pieces are of.
    """

    def __init__(
        self,
        utterances: Sequence[tuple[str, tuple[Array, ...]]],
        rates: tuple[int, ...],
        shipped: Collection[str] = (),
    ) -> None:
        self._rates = rates
        self.streams: list[tuple[str, list[Array]]] = []
        for speaker in dict.fromkeys(name for name, _ in utterances):
            mine = [columns for name, columns in utterances if name == speaker]
            self.streams.append((speaker, [np.concatenate(one) for one in zip(*mine, strict=True)]))
        lengths = np.array([len(columns[0]) for _, columns in self.streams]) ** 0.25
        is_shipped = np.array([speaker in shipped for speaker, _ in self.streams])
        for group in (is_shipped, ~is_shipped):
            lengths[group] /= lengths[group].sum()
        self._shares = lengths / lengths.sum()

    def draw(
        self, number: int, num_tokens: int, rng: np.random.Generator
    ) -> Iterator[tuple[str, list[Array]]]:
        """-> speaker, and of each column what belongs to the same `num_tokens` tokens in a row."""
        for place in rng.choice(len(self.streams), size=number, p=self._shares):
            speaker, columns = self.streams[place]
            start = rng.integers(len(columns[0]) // self._rates[0] - num_tokens)
            both = zip(columns, self._rates, strict=True)
            yield speaker, [column[rate * start :][: rate * num_tokens] for column, rate in both]

    def batch(self, number: int, num_tokens: int, rng: np.random.Generator) -> tuple[list[str], list[Tensor]]:
        """As `draw` -> the speakers, and each column as one tensor (number, rate num_tokens, ...)."""
        speakers, pieces = zip(*self.draw(number, num_tokens, rng), strict=True)
        columns = zip(*pieces, strict=True)
        return list(speakers), [torch.from_numpy(np.stack(column)) for column in columns]
