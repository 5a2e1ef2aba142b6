"""What one stream keeps of its finished chunks for one network, and how a batch of streams attends to it.

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
import torch.nn.functional as F
from torch import Tensor

from models.relative_position import rotate, sinusoids

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

    def extend_positions(self, count: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Sinusoids (count, W) of the current chunk, and (keys, W) of what `extend` returns, in its order."""
        index, start = self._place
        if index == len(self.positions):
            self.positions.append(like.new_empty(self._page_frames(index), width))
        frames = torch.arange(self.start, self.start + count, device=like.device)
        current = sinusoids(frames, width, like.dtype)
        self.positions[index][start : start + count] = current
        shared = [] if self.prompt.positions is None else [self.prompt.positions]
        return current, torch.cat([*shared, *(self.positions[i][a:b] for i, a, b in self._visible(count))])

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


class BatchMemory:
    """`Memory` over the current chunks of several streams, each with its own past.

    A stream owns `group` neighbouring rows (two where it is guided). Row i's first
    `lengths[i]` frames are real, what follows is padding that nobody sees. Sites are numbered in the
    order in which the networks ask.
    """

    def __init__(self, caches: list[ChunkCache], lengths: list[int], group: int = 1):
        self._caches = caches
        self._lengths = lengths
        self._group = group
        self._attention_site = 0
        self._conv_site = 0
        self._positions: list[tuple[Tensor, Tensor]] = []  # of each stream: its chunk, all it sees

    def positions(self, length: int, device: torch.device) -> Tensor:
        starts = torch.tensor([cache.start for cache in self._caches], device=device)
        rows = starts[:, None] + torch.arange(length, device=device)
        return rows.repeat_interleave(self._group, dim=0)

    def extend_left(self, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        site, self._conv_site = self._conv_site, self._conv_site + 1
        parts = x.split(self._group)
        lefts = [cache.left(site, part, frames, dim) for cache, part in zip(self._caches, parts, strict=True)]
        extended = torch.cat([torch.cat(lefts), x], dim=dim)
        for cache, row, length in zip(self._caches, extended.split(self._group), self._lengths, strict=True):
            cache.keep_left(site, row.narrow(dim, length, frames))
        return extended

    def attend(self, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None) -> Tensor:
        site, self._attention_site = self._attention_site, self._attention_site + 1
        parts = []
        for index, (cache, count) in enumerate(zip(self._caches, self._lengths, strict=True)):
            rows = slice(index * self._group, (index + 1) * self._group)
            seen = cache.extend(site, k[rows, :, :count], v[rows, :, :count])
            bias = None
            if distance_query is not None:
                bias = self._position_scores(index, distance_query[rows, :, :count]) / math.sqrt(q.shape[-1])
            y = attend_parts(q[rows, :, :count], seen, bias)
            parts.append(F.pad(y, (0, 0, 0, q.shape[2] - count)) if count < q.shape[2] else y)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _position_scores(self, index: int, distance_query: Tensor) -> Tensor:
        """distance_query (1, H, n, W) -> scores with every visible key (1, H, n, keys), not yet scaled."""
        if index == len(self._positions):
            count, width = distance_query.shape[2:]
            self._positions.append(self._caches[index].extend_positions(count, width, distance_query))
        own, keys = self._positions[index]
        return rotate(distance_query, own) @ keys.mT


def attend_parts(q: Tensor, parts: list[KeyValues], bias: Tensor | None = None) -> Tensor:
    """Attention of q (G, H, T, D) over keys that lie in several places, without joining them first.

    bias (G, H, T, keys): added to the scores after they are scaled. Each place is attended to on its
    own, and the results are weighed by their share of the whole softmax.
    """
    sizes = [part.keys.shape[2] for part in parts]
    biases = [None] * len(parts) if bias is None else bias.split(sizes, dim=-1)
    done = [attend_part(q, part, part_bias) for part, part_bias in zip(parts, biases, strict=True)]
    if len(done) == 1:
        return done[0][0]
    shares = torch.stack([log_sum for _, log_sum in done]).softmax(0).to(q.dtype)  # (parts, G, H, T)
    return (torch.stack([part_y for part_y, _ in done]) * shares[..., None]).sum(0)


def attend_part(q: Tensor, part: KeyValues, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """-> attention over one place (G, H, T, D), and the logarithm of its softmax's denominator (G, H, T).

    On the CPU by the kernel behind torch's own attention, whose public form keeps the denominator to
    itself: four times as fast as products and softmax for a ten-second window, twenty times in bfloat16.
    """
    if q.device.type == "cpu":
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        y, log_sum = kernel(q, part.keys, part.values, attn_mask=bias)
        return y, log_sum
    scores = (q @ part.keys.mT).float() / math.sqrt(q.shape[-1])
    scores = scores if bias is None else scores + bias
    log_sum = scores.logsumexp(-1)
    return (scores - log_sum[..., None]).exp().to(q.dtype) @ part.values, log_sum
