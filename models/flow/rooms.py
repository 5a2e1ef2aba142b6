"""Keys and values of each attention in one piece, for a network that runs as a graph on a CPU.

A room holds the prompt, then a ring of slots, a chunk each. The graph writes the current chunk into its
slot in place and attends to the whole room, with a mask over what is not visible. A room grows in steps,
so that a short stream does not attend to the emptiness of a long one's.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from models.flow.key_values import KeyValues, PromptCache

_FIRST_GROWTH = 4  # slots; before it a room has the one that the first audio needs


class Rooms:
    """Of one stream. max_slots: None where the ring never closes."""

    def __init__(self, prompt: PromptCache, chunk_frames: int, max_slots: int | None):
        self._prompt, self._chunk_frames, self._max_slots = prompt, chunk_frames, max_slots
        self._sites: list[_Pair] = []
        self._positions: _Room | None = None

    @property
    def are_used(self) -> bool:
        return bool(self._sites)

    @property
    def num_bytes(self) -> int:
        table = 0 if self._positions is None else self._positions.num_bytes
        return table + sum(site.keys.num_bytes + site.values.num_bytes for site in self._sites)

    def start(self, slot: int) -> int:
        return (self._prompt.num_chunks + slot) * self._chunk_frames

    def site(self, index: int, sizes: tuple[int, int, int], num_used: int) -> KeyValues:
        """Keys and values of an attention, (G, H, room, D) each. What was never written is 0.

        sizes: G, H, D. num_used: how many slots it has room for at least.
        """
        rows, heads, size = sizes
        if index == len(self._sites):
            rooms = (_Room((rows, heads), size, self._capacity, old) for old in self._shared(index, sizes))
            self._sites.append(_Pair(*rooms))
        site, num_frames = self._sites[index], self._num_frames(num_used)
        if num_used == 1 and self._prompt.sites:
            return KeyValues(site.keys.lend(num_frames), site.values.lend(num_frames))
        return KeyValues(site.keys.of(num_frames), site.values.of(num_frames))

    def settle(self, index: int) -> None:
        """After a run that has written an attention's room."""
        self._sites[index].keys.settle()
        self._sites[index].values.settle()

    def positions(self, width: int, num_used: int) -> Tensor:
        """(room, W), to be written by the caller where the current chunk lies."""
        if self._positions is None:
            shared = torch.empty(0, width) if self._prompt.positions is None else self._prompt.positions
            self._positions = _Room((), width, self._capacity, shared)
        return self._positions.of(self._num_frames(num_used))

    def mask(self, num_used: int, slot: int, count: int) -> Tensor:
        """(room,): minus infinity behind the slots in use and behind the `count` frames in `slot`, else 0."""
        mask = torch.zeros(self._num_frames(num_used))
        mask[self.start(num_used) :] = -torch.inf
        mask[self.start(slot) + count : self.start(slot + 1)] = -torch.inf
        return mask

    def as_prompt(self, num_chunks: int, lefts: tuple[Tensor, ...]) -> PromptCache:
        """Its first slots, as what streams share."""
        frames = num_chunks * self._chunk_frames
        sites = tuple(KeyValues(site.keys.begin(frames), site.values.begin(frames)) for site in self._sites)
        positions = None if self._positions is None else self._positions.begin(frames)
        return PromptCache(num_chunks, sites, lefts, positions)

    def _shared(self, index: int, sizes: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
        if self._prompt.sites:
            return self._prompt.sites[index].keys, self._prompt.sites[index].values
        rows, heads, size = sizes
        return torch.empty(rows, heads, 0, size), torch.empty(rows, heads, 0, size)

    @property
    def _capacity(self) -> int | None:
        return None if self._max_slots is None else self.start(self._max_slots)

    def _num_frames(self, num_used: int) -> int:
        slots = 1
        while slots < num_used:
            slots = _FIRST_GROWTH if slots == 1 else slots + max(_FIRST_GROWTH, slots // 2)
        return self.start(slots if self._max_slots is None else min(slots, self._max_slots))


class _Room:
    """values (..., room, D), contiguous: a prompt's, then its own.

    With a capacity, in frames, it grows where it lies: to ask the system for memory costs more than to move
    what is in it.
    """

    def __init__(self, rows: tuple[int, ...], size: int, capacity: int | None, prompt: Tensor):
        self._rows, self._size, self._capacity = rows, size, capacity
        self._prompt = prompt
        self._first: Tensor | None = None  # of the first slot, while the room was only lent
        self._lent: Tensor | None = None
        self._memory: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def num_bytes(self) -> int:
        return sum(kept.nbytes for kept in (self.values, self._first) if kept is not None)

    def lend(self, num_frames: int) -> Tensor:
        """For one run, after which `settle` keeps the first slot alone: the first audio waits for no copy of
        the prompt that lasts.
        """
        self._lent = torch.empty(*self._rows, num_frames, self._size)
        self._fill(self._lent, self._prompt)
        return self._lent

    def settle(self) -> None:
        if self._lent is not None:
            self._first, self._lent = self._lent[..., self._prompt.shape[-2] :, :].clone(), None

    def of(self, num_frames: int) -> Tensor:
        """(..., num_frames, D): what there is, and zeros."""
        shape = (*self._rows, num_frames, self._size)
        if self.values is not None and self.values.shape == shape:
            return self.values
        before = [self._prompt, *([] if self._first is None else [self._first])]
        if self.values is not None:
            before = [self.values if self._capacity is None else self.values.clone()]
        self.values, self._first = self._taken(shape), None
        self._fill(self.values, *before)
        return self.values

    def begin(self, num_frames: int) -> Tensor:
        """A copy of so many frames."""
        assert self.values is not None, "nothing was written"
        return self.values[..., :num_frames, :].clone()

    def _taken(self, shape: tuple[int, ...]) -> Tensor:
        if self._capacity is None:
            return torch.empty(shape)
        if self._memory is None:
            self._memory = torch.empty(math.prod(self._rows) * self._capacity * self._size)
        return self._memory[: math.prod(shape)].view(shape)

    @staticmethod
    def _fill(room: Tensor, *parts: Tensor) -> None:
        start = 0
        for part in parts:
            room[..., start : start + part.shape[-2], :] = part
            start += part.shape[-2]
        room[..., start:, :] = 0


@dataclass(frozen=True, slots=True)
class _Pair:
    keys: _Room
    values: _Room
