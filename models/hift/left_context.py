"""What a causal convolution of the vocoder sees to its left: nothing, or what earlier calls kept."""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class LeftContext(Protocol):
    @property
    def is_first(self) -> bool:
        """True where the given frames are the first of the utterance."""
        ...

    def extend(self, x: Tensor, frames: int, first_frames: int | None = None) -> Tensor:
        """x (B, C, T) -> (B, C, frames + T); at the very start `first_frames` zeros, if given, instead."""
        ...


class ZeroContext:
    """The given frames are all there is."""

    is_first = True

    def extend(self, x: Tensor, frames: int, first_frames: int | None = None) -> Tensor:
        return F.pad(x, (frames if first_frames is None else first_frames, 0))


class KeptContext:
    """Continues a batch of streams that stand at the same kind of place: all at their start, or none.

    rows: each stream's kept frames, one tensor (C, frames) a convolution in the order of the calls;
    empty at the start. `kept` is what to keep for the next call, in the same form.
    """

    def __init__(self, rows: Sequence[Sequence[Tensor]]):
        self._rows = rows
        self.is_first = not rows[0]
        self.kept: list[list[Tensor]] = [[] for _ in rows]

    def extend(self, x: Tensor, frames: int, first_frames: int | None = None) -> Tensor:
        site = len(self.kept[0])
        if self.is_first:
            extended = F.pad(x, (frames if first_frames is None else first_frames, 0))
        else:
            left = torch.stack([row[site] for row in self._rows])
            extended = torch.cat([left, x], dim=-1)
        for kept, row in zip(self.kept, extended, strict=True):
            kept.append(row[:, row.shape[-1] - frames :].clone())
        return extended
