"""The streaming vocoder as one call over streams that stand at different places."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torch import Tensor


class VocoderState(Protocol):
    @property
    def num_bytes(self) -> int: ...


State = TypeVar("State", bound=VocoderState)


@dataclass(frozen=True, slots=True, eq=False)
class Piece(Generic[State]):
    """New mel frames (M, T) of one stream; T may be 0."""

    state: State
    mel: Tensor
    is_last: bool


class Vocoder(Protocol[State]):
    def start(self, seed: int) -> State:
        """The state of a new stream; `seed` draws its noise, where the noise is not fixed."""
        ...

    def shape_of(self, piece: Piece[State]) -> Hashable:
        """What the pieces of one batch must have in common; None for a piece that gives no samples."""
        ...

    def step(self, pieces: Sequence[Piece[State]]) -> list[Tensor]:
        """Pieces of one shape -> samples (N,) float32 of each. Changes the states only at its end."""
        ...


def vocode(vocoder: Vocoder[State], pieces: Sequence[Piece[State]]) -> list[Tensor]:
    """Pieces of any shapes -> samples (N,) float32 of each, in order; equal shapes go together."""
    samples = [piece.mel.new_zeros(0) for piece in pieces]
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        groups[vocoder.shape_of(piece)].append(index)
    groups.pop(None, None)
    for indices in groups.values():
        made = vocoder.step([pieces[index] for index in indices])
        for index, row in zip(indices, made, strict=True):
            samples[index] = row
    return samples
