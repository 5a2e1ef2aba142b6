"""How a batch of streams, each with its own past, runs through a network: what the layers ask for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.flow.kv_cache import ChunkCache, KeyValues
from firstword.models.layers.attention import rotate


@dataclass(frozen=True, slots=True)
class StreamPass:
    """One pass of one stream's chunk, `length` frames of `rows`; sites are counted from the pass's first."""

    cache: ChunkCache
    rows: slice
    length: int
    first_conv: int
    first_attention: int

    def positions(self) -> Tensor:
        """Where the chunk's frames stand in the whole: (length,)."""
        return torch.arange(self.cache.start, self.cache.start + self.length)

    def left(self, conv: int, like: Tensor) -> Tensor:
        """What lies before the chunk, of the shape of `like` (G, frames, C)."""
        return self.cache.left(self.first_conv + conv, like, like.shape[1], dim=1)

    def keep(self, lefts: Sequence[Tensor], num_attentions: int) -> None:
        """After the run: what the chunk leaves behind at each convolution, and in so many rooms."""
        for conv, left in enumerate(lefts):
            self.cache.keep_left(self.first_conv + conv, left)
        for attention in range(num_attentions):
            self.cache.rooms.settle(self.first_attention + attention)

    def room(self, attention: int, sizes: tuple[int, int, int]) -> KeyValues:
        """All keys and values of an attention, to be written in place: (G, H, room, D); sizes: G, H, D."""
        return self.cache.room(self.first_attention + attention, sizes)

    def room_positions(self, width: int) -> tuple[Tensor, Tensor]:
        """Sinusoids of the chunk (length, W), and of all in a room (room, W)."""
        return self.cache.room_positions(self.length, width)

    def room_mask(self) -> Tensor:
        """What is added to scores so that nothing but the visible counts: (1, 1, length, room)."""
        return self.cache.room_mask(self.length).repeat(self.length, 1)[None, None]

    def places(self, rows: int, heads: int) -> Tensor:
        """Where the chunk's keys and values go in a room, as indices of its first three dimensions:
        (rows, heads, length, 3).
        """
        frames = torch.arange(self.cache.place, self.cache.place + self.length)
        return torch.stack(
            torch.meshgrid(torch.arange(rows), torch.arange(heads), frames, indexing="ij"), dim=-1
        ).contiguous()


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

    def open_passes(self, num_convs: int, num_attentions: int) -> "list[StreamPass]":
        """For a network that runs stream by stream and asks for all its sites at once: the next so many."""
        conv, attention = self._conv_site, self._attention_site
        self._conv_site, self._attention_site = conv + num_convs, attention + num_attentions
        rows = (
            slice(start, start + self._group)
            for start in range(0, len(self._caches) * self._group, self._group)
        )
        return [
            StreamPass(cache, own, length, conv, attention)
            for cache, own, length in zip(self._caches, rows, self._lengths, strict=True)
        ]

    def positions(self, length: int, device: torch.device) -> Tensor:
        starts = torch.tensor([cache.start for cache in self._caches], device=device)
        rows = starts[:, None] + torch.arange(length, device=device)
        return rows.repeat_interleave(self._group, dim=0)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        site, self._conv_site = self._conv_site, self._conv_site + 1
        parts = x.split(self._group)
        lefts = [cache.left(site, part, frames, dim) for cache, part in zip(self._caches, parts, strict=True)]
        extended = torch.cat([torch.cat(lefts), x], dim=dim)
        for cache, row, length in zip(self._caches, extended.split(self._group), self._lengths, strict=True):
            cache.keep_left(site, row.narrow(dim, length, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
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
            cache, (count, width) = self._caches[index], distance_query.shape[2:]
            own = cache.extend_positions(count, width, distance_query)
            self._positions.append((own, cache.seen_positions(count)))
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
