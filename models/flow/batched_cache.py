"""The context of a network that runs over the current chunks of several streams at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.cuda import to_device
from firstword.models.flow.kv_cache import CacheSlot, ChunkKVCache, KeyValues
from firstword.models.layers import rotate, sinusoids


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One stream's current chunk, `length` frames of the batch's `rows`, at one solver step."""

    cache: ChunkKVCache
    step: int
    rows: slice
    length: int


class BatchedCache:
    """`NetworkContext` of the current chunks of several streams at one solver step.

    A stream owns `group` neighboring rows (two with guidance). Row i's first `lengths[i]` frames are real,
    the rest is padding that nobody sees. Each step has cache slots of its own, since at another time t a
    layer sees other values.
    """

    def __init__(self, caches: Sequence[ChunkKVCache], lengths: Sequence[int], group: int = 1, step: int = 0):
        self._caches = caches
        self._lengths = lengths
        self._group = group
        self._rows = [slice(start, start + group) for start in range(0, group * len(caches), group)]
        self._step = step
        self._attended: set[int] = set()
        self._extended: set[int] = set()
        self._positions: list[tuple[Tensor, Tensor]] = []  # of each stream: its chunk, all it sees

    def streams(self) -> list[StreamChunk]:
        """For a network that runs stream by stream."""
        return [
            StreamChunk(cache, self._step, rows, length)
            for cache, rows, length in zip(self._caches, self._rows, self._lengths, strict=True)
        ]

    def positions(self, length: int, device: torch.device) -> Tensor:
        starts = to_device([cache.start for cache in self._caches], device)
        rows = starts[:, None] + torch.arange(length, device=device)
        return rows.repeat_interleave(self._group, dim=0)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        assert index not in self._extended, f"two convolutions have the index {index}"
        self._extended.add(index)
        slot, states = (self._step, index), [cache.conv_state for cache in self._caches]
        parts = x.split(self._group)
        left = [state.left_of(slot, part, frames, dim) for state, part in zip(states, parts, strict=True)]
        extended = torch.cat([torch.cat(left), x], dim=dim)
        for state, row, length in zip(states, extended.split(self._group), self._lengths, strict=True):
            state.keep(slot, row.narrow(dim, length, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert layer not in self._attended, f"two attentions have the index {layer}"
        self._attended.add(layer)
        done = []
        streams = zip(self._caches, self._rows, self._lengths, strict=True)
        for index, (cache, rows, count) in enumerate(streams):
            seen = write_chunk(cache, (self._step, layer), k[rows, :, :count], v[rows, :, :count])
            bias = None
            if distance_query is not None:
                query = distance_query[rows, :, :count]  # (1, H, n, W)
                if index == len(self._positions):
                    self._positions.append(write_positions(cache, count, query.shape[-1], query))
                own, keys = self._positions[index]
                bias = rotate(query, own) @ keys.mT / math.sqrt(q.shape[-1])  # (1, H, n, keys)
            y = attend_parts(q[rows, :, :count], seen, bias)
            cache.commit_layer((self._step, layer))
            done.append(F.pad(y, (0, 0, 0, q.shape[2] - count)) if count < q.shape[2] else y)
        return done[0] if len(done) == 1 else torch.cat(done)


def write_chunk(cache: ChunkKVCache, slot: CacheSlot, keys: Tensor, values: Tensor) -> list[KeyValues]:
    """Write the current chunk's keys and values (G, H, n, D); -> all that it sees, itself included."""
    rows, heads, count, size = keys.shape
    buffers = cache.buffers(slot, (rows, heads, size))
    index, start = cache.current
    buffers[index].keys[:, :, start : start + count] = keys
    buffers[index].values[:, :, start : start + count] = values
    return [buffers[i].part(first, stop) for i, first, stop in cache.visible(count)]


def write_positions(cache: ChunkKVCache, count: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Write the sinusoids of the current chunk's `count` frames; -> those (count, W), and of all it sees."""
    own = sinusoids(torch.arange(cache.start, cache.start + count, device=like.device), width, like.dtype)
    buffers = cache.position_buffers(width)
    index, start = cache.current
    buffers[index][start : start + count] = own
    return own, torch.cat([buffers[i][first:stop] for i, first, stop in cache.visible(count)])


def attend_parts(q: Tensor, parts: list[KeyValues], bias: Tensor | None = None) -> Tensor:
    """Attention of q (G, H, T, D) over keys in several buffers, without joining them (split KV).

    bias (G, H, T, keys): added to the scores after they are scaled. Each part is attended to on its own, and
    the results are weighted by their share of the whole softmax (log-sum-exp merge).
    """
    sizes = [part.num_frames for part in parts]
    biases = [None] * len(parts) if bias is None else bias.split(sizes, dim=-1)
    done = [attend_part(q, part, part_bias) for part, part_bias in zip(parts, biases, strict=True)]
    if len(done) == 1:
        return done[0][0]
    shares = torch.stack([log_sum for _, log_sum in done]).softmax(0).to(q.dtype)  # (parts, G, H, T)
    return (torch.stack([part_y for part_y, _ in done]) * shares[..., None]).sum(0)


CPU_KERNEL = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
"""The kernel behind torch's own attention on a CPU; its public form does not return the denominator.

It is a private operator: a torch that has it no more is served by products and softmax, as other devices
are, which is slower by a factor of four for a ten-second window (twenty in bfloat16).
"""


def attend_part(q: Tensor, part: KeyValues, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """-> attention over one part (G, H, T, D), and the logarithm of its softmax's denominator (G, H, T)."""
    if q.device.type == "cpu" and CPU_KERNEL is not None:
        y, log_sum = CPU_KERNEL(q, part.keys, part.values, attn_mask=bias)
        return y, log_sum
    scores = (q @ part.keys.mT).float() / math.sqrt(q.shape[-1])
    scores = scores if bias is None else scores + bias
    log_sum = scores.logsumexp(-1)
    return (scores - log_sum[..., None]).exp().to(q.dtype) @ part.values, log_sum
