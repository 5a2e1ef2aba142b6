"""What one stream keeps of its finished chunks for one network.

In streaming mode every mask is causal by chunks, so keys, values and left contexts of a finished
chunk never change: a chunk is solved once. A prompt's part is read-only and shared by all streams of
its speaker; a stream's own part is a ring of the last `window_chunks` chunks and the current one,
behind the one or two chunks that hold the rest of the prompt.
Attention does not care for the order of its keys, so that nothing in a ring is ever moved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.relative_position import sinusoids

PAGE_CHUNKS = 4  # memory is taken in pages of so many chunks, and never moved


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
    _next_lefts: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lefts = list(self.prompt.lefts)

    @property
    def start(self) -> int:
        """Position of the current chunk's first frame, counted from the prompt's."""
        return (self.prompt.num_chunks + self.num_chunks) * self.chunk_frames

    @property
    def num_bytes(self) -> int:
        """Bytes of this stream alone, the shared prompt not counted."""
        own_lefts = [] if self.num_chunks == 0 else self.lefts
        pages = sum(page.num_bytes for site in self.sites for page in site)
        return pages + sum(tensor.nbytes for tensor in (*own_lefts, *self.positions))

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

    def past(self, site: int, like: Tensor) -> KeyValues:
        """All that the current chunk sees but itself, joined: like `like` (G, H, T, D) but for the frames."""
        nothing = like[:, :, :0]
        pages = self.sites[site] if site < len(self.sites) else []
        parts = [KeyValues(nothing, nothing), *self.prompt.sites[site : site + 1]]
        parts += [pages[i].part(start, stop) for i, start, stop in self._visible(0) if start < stop]
        keys, values = ([getattr(part, what) for part in parts] for what in ("keys", "values"))
        return KeyValues(torch.cat(keys, dim=2), torch.cat(values, dim=2))

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
        """Sinusoids (keys, W) of all that the current chunk of `count` frames sees, in the order of `extend`.

        count 0: of all but itself, in the order of `past`.
        """
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
        used = self.num_chunks + 1
        if self._num_slots is not None:
            used = min(used, self._num_slots)
        current, start = self._place
        for index in range(math.ceil(used / PAGE_CHUNKS)):
            stop = min(PAGE_CHUNKS, used - index * PAGE_CHUNKS) * self.chunk_frames
            if index != current:
                yield index, 0, stop
                continue
            yield index, 0, start + count
            if start + self.chunk_frames < stop:
                yield index, start + self.chunk_frames, stop
