"""State of streams in pages of memory that recorded graphs read and write themselves.

A page holds a chunk: keys and values of every attention and solver step, of all networks of the flow. A
stream has a list of pages, a prompt's are shared by its streams. What a convolution saw before the current
chunk is in a slot; a chunk reads one and writes another, so that it can be computed again. Page 0 and slot 1
are scratch for rows without a stream, slot 0 is the zeros before a beginning.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.flow.kv_cache import CacheWindow, ChunkRing, PromptCache
from firstword.models.layers import rotate, sinusoids
from firstword.models.runtimes.torch.cuda_graphs.paged_attention import (
    attend_over_pages,
    gathered,
    write_own,
)
from firstword.models.state import StateLayout

SCRATCH_PAGE = 0
ZERO_SLOT, SCRATCH_SLOT = 0, 1


class OutOfPages(RuntimeError):
    """All memory for streams on the GPU is in use."""


class Page:
    """Belongs to whoever refers to it; free again when nobody does."""

    __slots__ = ("_free", "index", "num_bytes")

    def __init__(self, index: int, free: "deque[int]", num_bytes: int) -> None:
        self.index, self._free, self.num_bytes = index, free, num_bytes

    def __del__(self) -> None:
        self._free.append(self.index)


class PagePool:
    """Numbers of pages, from `first` on. Threads may share it."""

    def __init__(self, first: int, count: int, num_bytes: int) -> None:
        """num_bytes: of a page."""
        self._free = deque(range(first, first + count))
        self.count, self.num_bytes = count, num_bytes

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self) -> Page:
        """Raises OutOfPages."""
        try:
            return Page(self._free.popleft(), self._free, self.num_bytes)
        except IndexError:
            raise OutOfPages(
                f"all {self.count} pages of the GPU's memory for streams are in use; "
                "lower FIRSTWORD_MAX_STREAMS or FIRSTWORD_WINDOW_S"
            ) from None


@dataclass(frozen=True, slots=True)
class PagedPrompt(PromptCache):
    """A prompt's pages, and the slot of its convolutions; shared, never written to again."""

    pages: tuple[Page, ...] = ()
    left: Page | None = None

    @property
    def num_bytes(self) -> int:
        return sum(page.num_bytes for page in self.pages) + (0 if self.left is None else self.left.num_bytes)


class PageTable(ChunkRing):
    """Which pages a stream sees, in the order of its ring."""

    copies_prompt = False

    def __init__(self, window: CacheWindow, prompt: PromptCache, like: Tensor | None = None):
        super().__init__(window, prompt)
        self._shared = prompt.pages if isinstance(prompt, PagedPrompt) else ()
        self._pages: dict[int, Page] = {}  # by the place in the ring
        self._left = prompt.left if isinstance(prompt, PagedPrompt) else None
        self._next_left: Page | None = None

    @property
    def num_bytes(self) -> int:
        contexts = [one for one in (self._left, self._next_left) if one is not None]
        return sum(page.num_bytes for page in (*self._pages.values(), *contexts))

    def take(self, pages: PagePool, slots: PagePool) -> None:
        """Take what the current chunk writes, unless an attempt that failed took it. Raises OutOfPages."""
        if self.ring_index not in self._pages:
            self._pages[self.ring_index] = pages.take()
        if self._next_left is None:
            self._next_left = slots.take()

    @property
    def own(self) -> int:
        """The page of the current chunk."""
        return self._pages[self.ring_index].index

    @property
    def slots(self) -> tuple[int, int]:
        """Slots that the current chunk's convolutions read and write."""
        assert self._next_left is not None, "nothing was taken"
        return ZERO_SLOT if self._left is None else self._left.index, self._next_left.index

    def visible(self) -> list[tuple[int, int]]:
        """Pages that the current chunk sees, with the position of each one's first frame; itself last."""
        frames = self.chunk_frames
        found = [(page.index, number * frames) for number, page in enumerate(self._shared)]
        current = len(self._shared) + self.num_chunks
        for place in range(self.num_ring_chunks):
            if place != self.ring_index:
                number = self.chunk_at(place)
                found.append((self._pages[place].index, (len(self._shared) + number) * frames))
        return [*found, (self.own, current * frames)]

    def commit(self) -> None:
        if self._next_left is not None:
            self._left, self._next_left = self._next_left, None
        super().commit()

    def copy_prefix(self) -> PagedPrompt:
        """Share all finished chunks."""
        pages = tuple(self._pages[place] for place in range(self.num_chunks)) if self._pages else ()
        return PagedPrompt(self.num_chunks, pages=pages, left=self._left)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where a chunk of each of B streams is, of networks of one rate. P: pages that a stream sees at most.

    start (B,): position of the first frame. own, reads, writes (B,): page and slots. pages (B, P); counts
    (B, P): how many frames of each are visible; firsts (B, P): the position of each one's first.
    """

    start: Tensor
    own: Tensor
    reads: Tensor
    writes: Tensor
    pages: Tensor
    counts: Tensor
    firsts: Tensor


class NetworkPages:
    """One network's state: every page's keys and values, every slot's left contexts. steps: of the solver."""

    def __init__(
        self, layout: StateLayout, frames: int, group: int, steps: int, counts: tuple[int, int], like: Tensor
    ) -> None:
        """frames: of a chunk. group: rows of a stream. counts: pages and slots, scratch among them."""
        sizes = set(layout.attentions.values())
        assert len(sizes) <= 1, f"layers of several sizes: {sizes}"
        self.heads, self.size = next(iter(sizes), (0, 0))
        self.frames, self.group, self.steps = frames, group, steps
        self.layers = {layer: number for number, layer in enumerate(sorted(layout.attentions))}
        num_pages, num_slots = counts
        rows = num_pages * 2 * group * self.heads
        self.keys_values = like.new_zeros(steps, len(self.layers), rows, frames, self.size)
        self.left_shapes = {one.index: one.shape for one in layout.left}
        self.left_sizes = {one.index: one.num_values for one in layout.left}
        self.left = like.new_zeros(num_slots, steps, group, sum(self.left_sizes.values()))

    @staticmethod
    def page_bytes(layout: StateLayout, frames: int, group: int, steps: int, element_bytes: int) -> int:
        values = sum(heads * size for heads, size in layout.attentions.values())
        return 2 * steps * group * frames * values * element_bytes


class PagedContexts:
    """Makes the `NetworkContext` of each solver step; what the steps share is computed once."""

    def __init__(self, network: NetworkPages, places: Places, dtype: torch.dtype) -> None:
        self.network, self.places = network, places
        batch, device = len(places.start), places.start.device
        self.own = places.own.contiguous()
        stride = 2 * network.group * network.heads
        inner = torch.arange(stride, device=device).view(2, 1, stride // 2)  # (2, 1, G H)
        self.seen_rows = (places.pages[None, :, None] * stride + inner[..., None]).flatten()  # (2 B G H P,)
        frame = torch.arange(network.frames, device=device)
        is_seen = (frame < places.counts[..., None]).flatten(1)  # (B, P F)
        bias = torch.zeros(is_seen.shape, dtype=dtype, device=device).masked_fill(~is_seen, -math.inf)
        self.bias = bias.repeat_interleave(network.group, dim=0)[:, None, None]  # (B G, 1, 1, P F)
        self.positions = (places.start[:, None] + frame).repeat_interleave(network.group, dim=0)  # (B G, F)
        self.num_rows = batch * network.group
        self._frame = frame
        self._tables: dict[int, tuple[Tensor, Tensor]] = {}

    def tables(self, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Sinusoids of the chunk's frames (B, 1, F, W), and of all visible ones (B, 1, P F, W)."""
        if width not in self._tables:
            seen = (self.places.firsts[..., None] + self._frame).flatten(1)  # (B, P F)
            own = self.places.start[:, None] + self._frame
            self._tables[width] = (
                sinusoids(own, width, dtype)[:, None],
                sinusoids(seen, width, dtype)[:, None],
            )
        return self._tables[width]

    def at(self, step: int) -> "PagedContext":
        return PagedContext(self, step)


class PagedContext:
    """`NetworkContext` of a chunk of F frames of each row, at one solver step. `finish` keeps what is left.

    That is right for a chunk without padding, the only one that another follows.
    """

    def __init__(self, shared: PagedContexts, step: int) -> None:
        self._shared, self._step, self._network = shared, step, shared.network
        self._left: dict[int, Tensor] = {}
        self._next: dict[int, Tensor] = {}
        if sizes := self._network.left_sizes:
            left = self._network.left[:, step].index_select(0, shared.places.reads)  # (B, G, N)
            shapes = self._network.left_shapes
            for index, part in zip(sizes, left.split([*sizes.values()], dim=-1), strict=True):
                self._left[index] = part.reshape(shared.num_rows, *shapes[index])

    def positions(self, length: int, device: torch.device) -> Tensor:
        assert length == self._network.frames, f"{length} frames in pages of {self._network.frames}"
        return self._shared.positions

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        extended = torch.cat([self._left[index], x], dim=dim)
        self._next[index] = extended.narrow(dim, extended.shape[dim] - frames, frames)
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        """q, k, v (B G, H, F, D) -> (B G, H, F, D)."""
        shared, slab, bias = self._shared, self._slab(layer), self._shared.bias
        write_own(slab, shared.own, torch.stack([k, v]))
        keys, values = gathered(slab, shared.seen_rows, k.shape[1], len(k))
        if distance_query is not None:
            own, table = shared.tables(distance_query.shape[-1], q.dtype)
            bias = bias + rotate(distance_query, own) @ table.mT / math.sqrt(q.shape[-1])
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=bias)

    def attend_joined(self, layer: int, qkv: Tensor) -> Tensor:
        """As `attend`, as one kernel; qkv (B G, F, 3, H, D) -> (B G, F, H D)."""
        shared = self._shared
        return attend_over_pages(qkv, self._slab(layer), shared.own, shared.seen_rows, shared.bias)

    def _slab(self, layer: int) -> Tensor:
        """-> keys and values of all pages (pages 2 G H, F, D)."""
        return self._network.keys_values[self._step, self._network.layers[layer]]

    def finish(self) -> None:
        """Write what the convolutions leave for the next chunk."""
        if not self._next:
            return
        network, shared = self._network, self._shared
        parts = [self._next[index].reshape(shared.num_rows, -1) for index in network.left_sizes]
        new = torch.cat(parts, dim=1).view(-1, network.group, sum(network.left_sizes.values()))
        network.left[:, self._step].index_copy_(0, shared.places.writes, new)


def rows_of(tables: Sequence[PageTable], num_frames: Sequence[int], num_pages: int) -> list[list[int]]:
    """Numbers of each stream: start, own page, slots read and written, then pages, counts and firsts."""
    rows = []
    for table, count in zip(tables, num_frames, strict=True):
        visible = table.visible()
        missing = num_pages - len(visible)
        pages = [page for page, _ in visible] + [SCRATCH_PAGE] * missing
        counts = [table.chunk_frames] * (len(visible) - 1) + [count] + [0] * missing
        firsts = [first for _, first in visible] + [0] * missing
        rows.append([table.start, table.own, *table.slots, *pages, *counts, *firsts])
    return rows


def scratch_row(num_pages: int, frames: int) -> list[int]:
    """A row without a stream: it writes where nobody reads, and sees something."""
    pages = [SCRATCH_PAGE] * num_pages
    counts, firsts = [frames] + [0] * (num_pages - 1), [0] * num_pages
    return [0, SCRATCH_PAGE, ZERO_SLOT, SCRATCH_SLOT, *pages, *counts, *firsts]


def places_of(numbers: Tensor, num_pages: int, frames_per_position: int) -> Places:
    """numbers (B, 4 + 3 P) as `rows_of`, in frames -> of a network with a position for so many frames."""
    start, own, reads, writes = numbers[:, :4].unbind(1)
    pages, counts, firsts = numbers[:, 4:].split(num_pages, dim=1)
    each = frames_per_position
    if each > 1:
        start, counts, firsts = start // each, counts // each, firsts // each
    return Places(start, own, reads, writes, pages, counts, firsts)
