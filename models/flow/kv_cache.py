"""Key/value caches of the flow.

Keys and values at the attentions of one network, and what of them a speaker's streams share.

Keys and values of each attention in one piece, for a network that runs as a graph on a CPU.

A room holds the prompt, then a ring of slots, a chunk each. The graph writes the current chunk into its
slot in place and attends to the whole room, with a mask over what is not visible. A room grows in steps,
so that a short stream does not attend to the emptiness of a long one's.

What one stream keeps of its finished chunks for one network.

In streaming mode every mask is causal by chunks, so keys, values and left contexts of a finished
chunk never change: a chunk is solved once. A prompt's part is read-only and shared by all streams of
its speaker; a stream's own part is a ring of the last `window_chunks` chunks and the current one,
behind the one or two chunks that hold the rest of the prompt.
Attention does not care for the order of its keys, so that nothing in a ring is ever moved.
A network that runs as a graph keeps its keys and values in `Rooms` instead of pages.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from firstword.models.layers.attention import sinusoids


@dataclass(slots=True)
class KeyValues:
    """Keys and values at one attention site: (G, H, frames, D) each."""

    keys: Tensor
    values: Tensor

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def part(self, start: int, stop: int) -> "KeyValues":
        return KeyValues(self.keys[:, :, start:stop], self.values[:, :, start:stop])


@dataclass(frozen=True, slots=True)
class PromptCache:
    """The finished chunks of a speaker's prompt at every site; never written to again."""

    num_chunks: int = 0
    sites: tuple[KeyValues, ...] = ()
    lefts: tuple[Tensor, ...] = ()  # (G, C, frames) for each convolution
    positions: Tensor | None = None  # (frames, W), the keys' sinusoids; None: no relative positions

    @property
    def num_bytes(self) -> int:
        tensors = [*self.lefts] if self.positions is None else [*self.lefts, self.positions]
        return sum(site.num_bytes for site in self.sites) + sum(tensor.nbytes for tensor in tensors)


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


PAGE_CHUNKS = 4  # memory is taken in pages of so many chunks, and never moved


@dataclass(slots=True)
class ChunkCache:
    """One stream's memory of one network. Written in place, and finished by `commit`: until then the
    current chunk can be computed again, so a failed batch leaves nothing behind.
    """

    chunk_frames: int
    window_chunks: int | None  # own finished chunks that stay visible; None: all
    prompt: PromptCache = field(default_factory=PromptCache)
    pinned_chunks: int = 0  # the first own chunks, which hold the prompt's rest and stay visible too
    num_chunks: int = 0  # own chunks finished
    sites: list[list[KeyValues]] = field(default_factory=list)  # pages
    lefts: list[Tensor] = field(default_factory=list)
    positions: list[Tensor] = field(default_factory=list)  # pages of sinusoids (frames, W)
    rooms: Rooms = field(init=False)
    _next_lefts: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lefts = list(self.prompt.lefts)
        self.rooms = Rooms(self.prompt, self.chunk_frames, self._num_slots)

    @property
    def start(self) -> int:
        """Position of the current chunk's first frame, counted from the prompt's."""
        return (self.prompt.num_chunks + self.num_chunks) * self.chunk_frames

    @property
    def num_bytes(self) -> int:
        """Bytes of this stream alone, the shared prompt not counted but where rooms have copied it."""
        own_lefts = [] if self.num_chunks == 0 else self.lefts
        pages = sum(page.num_bytes for site in self.sites for page in site)
        return pages + self.rooms.num_bytes + sum(tensor.nbytes for tensor in (*own_lefts, *self.positions))

    def left(self, site: int, like: Tensor, frames: int, dim: int) -> Tensor:
        """The `frames` before the current chunk at a convolution, zeros at the very start.

        As long as that along `dim`, otherwise of the shape of `like`.
        """
        if site < len(self.lefts):
            return self.lefts[site]
        shape = list(like.shape)
        shape[dim] = frames
        return like.new_zeros(shape)

    def keep_left(self, site: int, left: Tensor) -> None:
        self._next_lefts[site] = left.clone()

    def extend(self, site: int, keys: Tensor, values: Tensor) -> list[KeyValues]:
        """Writes the current chunk's keys and values (G, H, n, D); -> all that it sees, itself included."""
        if site == len(self.sites):
            self.sites.append([])
        pages, count = self.sites[site], keys.shape[2]
        index, start = self._place
        if index == len(pages):
            shape = (*keys.shape[:2], self._page_frames(index), keys.shape[3])
            pages.append(KeyValues(keys.new_empty(shape), keys.new_empty(shape)))
        pages[index].keys[:, :, start : start + count] = keys
        pages[index].values[:, :, start : start + count] = values
        visible = [pages[i].part(a, b) for i, a, b in self._visible(count)]
        return [self.prompt.sites[site], *visible] if self.prompt.sites else visible

    def room(self, site: int, sizes: tuple[int, int, int]) -> KeyValues:
        """Where a graph keeps the keys and values of an attention: (G, H, room, D) each; sizes: G, H, D."""
        return self.rooms.site(site, sizes, self._num_used)

    def room_positions(self, count: int, width: int) -> tuple[Tensor, Tensor]:
        """Sinusoids (count, W) of the current chunk, and (room, W) of all in a room."""
        current = sinusoids(torch.arange(self.start, self.start + count), width, torch.float32)
        table = self.rooms.positions(width, self._num_used)
        table[self.place : self.place + count] = current
        return current, table

    def room_mask(self, count: int) -> Tensor:
        """(room,): 0 where the current chunk of `count` frames sees, else minus infinity."""
        return self.rooms.mask(self._num_used, self._slot, count)

    @property
    def place(self) -> int:
        """Of the current chunk's first frame in a room."""
        return self.rooms.start(self._slot)

    def extend_positions(self, count: int, width: int, like: Tensor) -> Tensor:
        """Sinusoids (count, W) of the current chunk, which are kept."""
        index, start = self._place
        if index == len(self.positions):
            self.positions.append(like.new_empty(self._page_frames(index), width))
        frames = torch.arange(self.start, self.start + count, device=like.device)
        current = sinusoids(frames, width, like.dtype)
        self.positions[index][start : start + count] = current
        return current

    def seen_positions(self, count: int) -> Tensor:
        """Sinusoids (keys, W) of what `extend` returns for `count` frames, in its order."""
        shared = [] if self.prompt.positions is None else [self.prompt.positions]
        return torch.cat([*shared, *(self.positions[i][a:b] for i, a, b in self._visible(count))])

    def commit(self) -> None:
        """The current chunk is finished."""
        self.lefts = [self._next_lefts[site] for site in range(len(self._next_lefts))]
        self._next_lefts = {}
        self.num_chunks += 1

    def as_prompt(self) -> PromptCache:
        """All finished chunks, read-only. Only for a cache without window that follows no prompt."""
        assert self.window_chunks is None, "a prompt is kept whole"
        assert self.prompt.num_chunks == 0, "a prompt follows nothing"
        if self.rooms.are_used:
            return self.rooms.as_prompt(self.num_chunks, tuple(self.lefts))
        frames = self.num_chunks * self.chunk_frames
        sites = tuple(
            KeyValues(
                torch.cat([page.keys for page in pages], dim=2)[:, :, :frames].clone(),
                torch.cat([page.values for page in pages], dim=2)[:, :, :frames].clone(),
            )
            for pages in self.sites
        )
        positions = torch.cat(self.positions)[:frames].clone() if self.positions else None
        return PromptCache(self.num_chunks, sites, tuple(self.lefts), positions)

    @property
    def _num_used(self) -> int:
        """Slots that are in use, the current chunk's with them."""
        used = self.num_chunks + 1
        return used if self._num_slots is None else min(used, self._num_slots)

    @property
    def _slot(self) -> int:
        """Place of the current chunk: behind what is pinned, a ring of the window and the current chunk."""
        if self.window_chunks is None or self.num_chunks < self.pinned_chunks:
            return self.num_chunks
        return self.pinned_chunks + (self.num_chunks - self.pinned_chunks) % (self.window_chunks + 1)

    @property
    def _num_slots(self) -> int | None:
        return None if self.window_chunks is None else self.pinned_chunks + self.window_chunks + 1

    @property
    def _place(self) -> tuple[int, int]:
        """The current chunk's page, and its first frame there."""
        page, chunk = divmod(self._slot, PAGE_CHUNKS)
        return page, chunk * self.chunk_frames

    def _page_frames(self, index: int) -> int:
        left = PAGE_CHUNKS if self._num_slots is None else self._num_slots - index * PAGE_CHUNKS
        return min(PAGE_CHUNKS, left) * self.chunk_frames

    def _visible(self, count: int) -> Iterator[tuple[int, int, int]]:
        """Pages and frame ranges in them that the current chunk of `count` frames sees."""
        used = self._num_used
        current, start = self._place
        for index in range(math.ceil(used / PAGE_CHUNKS)):
            stop = min(PAGE_CHUNKS, used - index * PAGE_CHUNKS) * self.chunk_frames
            if index != current:
                yield index, 0, stop
                continue
            yield index, 0, start + count
            if start + self.chunk_frames < stop:
                yield index, start + self.chunk_frames, stop
