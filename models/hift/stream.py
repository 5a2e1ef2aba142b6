"""The streaming vocoder as one call over streams that stand at different places."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor


class VocoderState(Protocol):
    """What one stream goes on from; never changed, only replaced."""

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
        """The state of a new stream; `seed` draws what is random in its source, if anything is."""
        ...

    def shape_of(self, piece: Piece[State]) -> Hashable:
        """What the pieces of one batch must have in common; None for a piece that gives no samples."""
        ...

    def step(self, pieces: Sequence[Piece[State]]) -> list[tuple[Tensor, State]]:
        """Pieces of one shape -> samples (N,) float32 and the next state of each."""
        ...


@dataclass(slots=True, eq=False)
class Sound(Generic[State]):
    """One stream on its way from mel to samples: what still waits, what is ready to be handed out."""

    state: State
    pending: list[tuple[Tensor, bool]] = field(default_factory=list)  # mel (M, T), is_last
    ready: list[Tensor] = field(default_factory=list)  # samples

    @property
    def num_bytes(self) -> int:
        return self.state.num_bytes + sum(mel.nbytes for mel, _ in self.pending)

    def take(self) -> Tensor:
        """The samples that are ready, which are this stream's no longer: (N,)."""
        samples = torch.cat(self.ready) if self.ready else torch.zeros(0)
        self.ready.clear()
        return samples


def vocode(vocoder: Vocoder[State], streams: Sequence[Sound[State]]) -> None:
    """Turns every stream's pending pieces into samples, one piece of each at a time, equal shapes together.

    A stream advances only when its piece is done: after an error, call again for what is left.
    """
    while heads := [stream for stream in streams if stream.pending]:
        groups: dict[Hashable, list[Sound[State]]] = defaultdict(list)
        for stream in heads:
            groups[vocoder.shape_of(Piece(stream.state, *stream.pending[0]))].append(stream)
        for stream in groups.pop(None, []):
            stream.pending.pop(0)
        for group in groups.values():
            made = vocoder.step([Piece(stream.state, *stream.pending[0]) for stream in group])
            for stream, (samples, state) in zip(group, made, strict=True):
                stream.state = state
                stream.ready.append(samples)
                stream.pending.pop(0)
