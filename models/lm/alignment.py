"""Which text a speech token is about: the attention of a language model's alignment heads over its text.

A head of a layer is an alignment head where it looks at the text that is being spoken (trained to, or found
so). Read at the position whose logits a speech token is drawn from.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

import numpy as np

from firstword.models.config import AlignmentHeads
from firstword.models.lm.kv_cache import CachePass, KeyValueCache
from firstword.models.lm.plan import Plan, TextAttention, TextKeys, TextQuery


def text_keys(
    cache: KeyValueCache, heads: AlignmentHeads, row: int, text_positions: Sequence[int]
) -> TextKeys:
    """Return a copy of what each head looks at: (heads, text tokens, D). row: of the cache."""
    if not text_positions:  # what is spoken is still the prompt's
        return np.empty((len(heads), 0, 0), np.float32)
    first = text_positions[0]
    chosen = np.asarray(text_positions) - first
    keys = (cache.watched_keys(layer, row, head, first, text_positions[-1] + 1) for layer, head in heads)
    return np.stack([of_head[chosen] for of_head in keys])


def text_query(
    cache_pass: CachePass, heads: AlignmentHeads, row: int, index: int, keys: TextKeys
) -> TextQuery:
    """row: of the pass. index: of the position that attends, among those that the pass ran for the row."""
    queries = np.array([cache_pass.query_of[layer](row, index, head) for layer, head in heads])
    if cache_pass.rotation is None:
        return TextQuery(queries, keys)
    return TextQuery(queries, keys, cache_pass.rotation[:, cache_pass.starts[row] + index])


class ObservedRow(Protocol):
    """A row of a decoder."""

    index: int  # of the cache
    text_keys: TextKeys | None

    @property
    def plan(self) -> Plan: ...

    @property
    def wants_attention(self) -> bool: ...


class AlignmentObserver:
    """Notes, after each run of a decoder, what the alignment heads look for in the rows that want to know."""

    def __init__(self, cache: KeyValueCache, heads: AlignmentHeads):
        self._cache, self._heads = cache, heads

    def after_run(
        self, rows: Sequence[ObservedRow], cache_pass: CachePass, positions: Sequence[int]
    ) -> list[TextQuery | None]:
        """positions: of each row's last id, among those that the pass ran for it. None: not wanted, or no
        heads."""
        return [
            self._query(row, cache_pass, position) if self._heads and row.wants_attention else None
            for row, position in zip(rows, positions, strict=True)
        ]

    def _query(self, row: ObservedRow, cache_pass: CachePass, position: int) -> TextQuery:
        text = row.plan.text_positions
        if row.text_keys is None or row.text_keys.shape[1] != len(text):
            row.text_keys = text_keys(self._cache, self._heads, row.index, text)
        return text_query(cache_pass, self._heads, row.index - cache_pass.rows.start, position, row.text_keys)


def text_attention(queries: Sequence[TextQuery]) -> list[TextAttention]:
    """Return each one's attention (heads, text tokens) over the text alone; each head's sum to 1."""
    found: list[TextAttention] = []
    for _, group in groupby(queries, key=lambda query: id(query.keys)):
        alike = list(group)
        keys = alike[0].keys
        if not keys.shape[1]:
            found += [np.empty(keys.shape[:2], np.float32)] * len(alike)
            continue
        asked = np.stack([query.queries for query in alike], axis=1)  # (heads, n, D)
        rotations = [query.rotation for query in alike if query.rotation is not None]
        if rotations:
            cos, sin = np.stack(rotations, axis=1)  # (n, D)
            half = asked.shape[-1] // 2
            asked = asked * cos + np.roll(asked, half, axis=-1) * sin
        scores = asked @ keys.transpose(0, 2, 1)  # (heads, n, T)
        weights = np.exp((scores - scores.max(-1, keepdims=True)) * asked.shape[-1] ** -0.5)
        weights /= weights.sum(-1, keepdims=True)
        found += list(weights.transpose(1, 0, 2))
    return found
