"""What one stream keeps of its finished chunks for one network.

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

from models.flow.key_values import KeyValues, PromptCache
from models.flow.rooms import Rooms
from models.relative_position import sinusoids

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
