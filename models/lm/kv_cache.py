"""The language model's key/value cache: dense rows of many utterances, which join and leave at any step."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.cuda import to_device
from firstword.models.layers import masked_softmax, rotate, sinusoids

Array = npt.NDArray[np.float32]
QueryOf = Callable[[int, int, int], Array]
"""A row of a pass, one of its new positions and a head -> the query there (D,); `rotation` is still to do."""

FIRST_LENGTH = 256  # positions a row has before it grows


@dataclass(frozen=True, slots=True)
class CacheShape:
    num_layers: int
    num_heads: int  # of keys and values
    head_dim: int


class KeyValueCache:
    """Per layer (rows, H, length, D), grown by doubling. Rows 0 to len(lengths) - 1 are in use.

    All values beyond a row's length are finite: what attention masks is still multiplied by zero.
    """

    def __init__(
        self,
        shape: CacheShape,
        dtype: torch.dtype,
        device: torch.device,
        watched_layers: frozenset[int] = frozenset(),
        num_query_heads: int = 0,
    ):
        """watched_layers: whose queries a pass keeps. num_query_heads: 0, as many as of keys."""
        self.device = device
        self.watched_layers = watched_layers
        self.lengths: list[int] = []  # positions finished, for every row in use
        empty = torch.zeros(0, shape.num_heads, 0, shape.head_dim, dtype=dtype, device=device)
        self.keys = [empty] * shape.num_layers
        self.values = [empty] * shape.num_layers
        self._table: Tensor | None = None  # (length, W), sinusoids of the positions
        self._num_heads = shape.num_heads
        self._num_query_heads = num_query_heads or shape.num_heads
        self._arrays: dict[int, Array] = {}  # the watched keys' memory, where numpy can read it

    @property
    def num_bytes(self) -> int:
        table = 0 if self._table is None else self._table.nbytes
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values)) + table

    def reserve(self, num_rows: int, length: int) -> None:
        """Take memory for so many rows of so many positions at once."""
        self._reserve(num_rows, length)

    def add_row(self) -> int:
        """Add an empty row at the end. -> its index."""
        self._reserve(len(self.lengths) + 1, FIRST_LENGTH)
        self.lengths.append(0)
        return len(self.lengths) - 1

    def fill_row(self, row: int, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Copy each layer's keys and values (H, T, D) of the first T positions into an empty row."""
        length = keys[0].shape[1]
        self._reserve(len(self.lengths), length)
        for mine, given in zip((*self.keys, *self.values), (*keys, *values), strict=True):
            mine[row, :, :length] = given
        self.lengths[row] = length

    def remove_row(self, row: int) -> None:
        """Move the last row to index `row`, and clear the last one."""
        last = len(self.lengths) - 1
        assert 0 <= row <= last, row
        for tensor in (*self.keys, *self.values):
            tensor[row] = tensor[last]
            tensor[last] = 0
        self.lengths[row] = self.lengths[last]
        self.lengths.pop()

    def open_pass(self, rows: range, counts: Sequence[int]) -> "CachePass":
        """Open a pass over neighboring `rows`; row i gets `counts[i]` new positions, 0 for none."""
        assert len(rows) == len(counts), (rows, counts)
        starts = self.lengths[rows.start : rows.stop]
        self._reserve(len(self.lengths), max(starts) + max(counts))
        return CachePass(self, rows, starts, counts)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo every pass committed within the block if it raises."""
        before = [*self.lengths]
        try:
            yield
        except BaseException:
            self.lengths[:] = before
            raise

    def write(
        self, layer: int, rows: range, start: int, positions: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write k, v (B, H, T, D) at positions (B, T). -> all keys and values of the rows (B, H, length, D).

        start: the first row's first position.
        """
        if len(rows) == 1:  # a slice is written in a fraction of the time
            keys, values = self.keys[layer][rows.start], self.values[layer][rows.start]
            keys[:, start : start + k.shape[2]] = k[0]
            values[:, start : start + k.shape[2]] = v[0]
            return keys[None], values[None]
        index = torch.arange(len(rows), device=k.device)[:, None]
        keys = self.keys[layer][rows.start : rows.stop]
        values = self.values[layer][rows.start : rows.stop]
        keys[index, :, positions] = k.transpose(1, 2)
        values[index, :, positions] = v.transpose(1, 2)
        return keys, values

    def watched_keys(self, layer: int, row: int, head: int, start: int, stop: int) -> Array:
        """Return the keys of a watched layer that a head, of the queries, looks at (stop - start, D)."""
        group = head * self._num_heads // self._num_query_heads
        if layer in self._arrays:
            return self._arrays[layer][row, group, start:stop]
        return self.keys[layer][row, group, start:stop].float().cpu().numpy()

    def position_table(self, width: int, like: Tensor) -> Tensor:
        """Return the sinusoids of every position up to the capacity: (length, width)."""
        length = self.keys[0].shape[2]
        if self._table is None or len(self._table) < length:
            self._table = sinusoids(torch.arange(length, device=like.device), width, like.dtype)
        return self._table

    def _reserve(self, num_rows: int, length: int) -> None:
        had_rows, num_heads, had_length, head_dim = self.keys[0].shape
        if num_rows <= had_rows and length <= had_length:
            return
        num_rows = had_rows if num_rows <= had_rows else max(num_rows, 2 * had_rows)
        length = had_length if length <= had_length else max(length, 2 * had_length)
        grown = []
        for tensor in (*self.keys, *self.values):
            larger = tensor.new_zeros(num_rows, num_heads, length, head_dim)
            larger[:had_rows, :, :had_length] = tensor
            grown.append(larger)
        num_layers = len(self.keys)  # both are set or, if the memory does not suffice, neither
        self.keys, self.values = grown[:num_layers], grown[num_layers:]
        if self.device.type == "cpu" and self.keys[0].dtype is torch.float32:
            self._arrays = {layer: self.keys[layer].numpy() for layer in self.watched_layers}


class CachePass:
    """`AttentionContext` of one run of the network over some rows, padded on the right to the longest.

    Nothing of it counts until `commit`, which comes before the next pass is opened. A row whose count
    is 0 computes an unused value behind its end, which is cheaper than gathering the others.
    """

    def __init__(self, cache: KeyValueCache, rows: range, starts: Sequence[int], counts: Sequence[int]):
        self._cache = cache
        self.memory: object = cache.keys  # the same as long as keys and values lie where they lay
        self.rows = rows
        self.counts = counts
        self.starts = starts
        self.ends = [start + count for start, count in zip(starts, counts, strict=True)]  # after the pass
        self.num_visible = max(end for end, count in zip(self.ends, counts, strict=True) if count)
        self.query_of: dict[int, QueryOf] = {}  # by watched layer, of what this pass ran
        self.rotation: Array | None = None  # (2, positions, D): turns those queries, if they are not
        self._steps: Tensor | None = None  # (2, B), starts and counts
        self._positions: Tensor | None = None  # (B, T)
        self._mask: Tensor | None = None  # (B, 1, T, visible)
        self._own_table: Tensor | None = None  # (B, 1, T, W)

    def positions(self, length: int, device: torch.device) -> Tensor:
        if self._positions is None:
            assert length == max(self.counts), (length, self.counts)
            self._positions = self.steps[0, :, None] + torch.arange(length, device=device)
            if len(self.rows) > 1 or length > 1:  # a single token sees everything
                keys = torch.arange(self.num_visible, device=device)
                self._mask = (keys <= self._positions[..., None])[:, None]
        return self._positions

    def take(self, steps: Tensor) -> None:
        """Take starts and counts (2, B) that are on the device already."""
        self._steps = steps

    @property
    def steps(self) -> Tensor:
        """Starts and counts of the rows (2, B), on the device."""
        if self._steps is None:
            self._steps = to_device([self.starts, self.counts], self._cache.device)
        return self._steps

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        positions = self.positions(q.shape[2], q.device)
        keys, values = self._cache.write(layer, self.rows, self.starts[0], positions, k, v)
        keys, values = keys[:, :, : self.num_visible], values[:, :, : self.num_visible]
        if layer in self._cache.watched_layers:
            self.query_of[layer] = lambda row, index, head: q[row, head, index].float().cpu().numpy()
        if distance_query is None:
            return attend_grouped(q, keys, values, self._mask)
        table = self._cache.position_table(distance_query.shape[-1], distance_query)
        if self._own_table is None:
            self._own_table = table[positions][:, None]
        position_scores = rotate(distance_query, self._own_table) @ table[: self.num_visible].mT
        scores = q @ keys.mT + position_scores  # (B, H, T, visible)
        return masked_softmax(scores / math.sqrt(q.shape[-1]), self._mask) @ values

    def layer_views(self) -> list[tuple[Tensor, Tensor]]:
        """Each layer's keys and values of the rows (B, H, capacity, D), for a network that writes there."""
        part = slice(self.rows.start, self.rows.stop)
        cache = self._cache
        return [(keys[part], values[part]) for keys, values in zip(cache.keys, cache.values, strict=True)]

    def commit(self) -> None:
        """Count the new positions."""
        self._cache.lengths[self.rows.start : self.rows.stop] = self.ends


def attend_grouped(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """q (B, H, T, D), keys and values (B, G, L, D), mask (B, 1, T, L), None: all -> (B, H, T, D).

    The H / G queries of a key head are put one behind another in time, so no key is copied for them.
    """
    groups, length = keys.shape[1], q.shape[2]
    folded = q.unflatten(1, (groups, -1)).flatten(2, 3)  # (B, G, H / G * T, D)
    if mask is not None:
        mask = mask.repeat(1, 1, q.shape[1] // groups, 1)
    y = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask)
    return y.unflatten(2, (-1, length)).flatten(1, 2)
