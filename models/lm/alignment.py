"""Which text a speech token is about: the attention of a language model's alignment heads over its text.

A head of a layer is an alignment head where it looks at the text that is being spoken (trained to, or found
so). Read at the position whose logits a speech token is drawn from.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch

from firstword.models.config import AlignmentHeads
from firstword.models.lm.kv_cache import CachePass, KeyValueCache, to_device
from firstword.models.lm.plan import TextAttention, TextKeys, TextQuery
from firstword.models.lm.qwen2 import Qwen2LM


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


class AlignmentReader:
    """Reads over again what another engine speaks, to find what the alignment heads look for.

    That runs the layers up to the last such head once more. Threads may share it, not one of its streams.
    """

    def __init__(self, lm: Qwen2LM) -> None:
        """lm: has alignment heads, and loses the layers behind them."""
        num_layers = 1 + max(layer for layer, _ in lm.alignment_heads)
        lm.decoder.layers = lm.decoder.layers[:num_layers]
        lm.config = replace(lm.config, qwen2=replace(lm.config.qwen2, num_hidden_layers=num_layers))
        self._lm = lm

    def open(self) -> "AlignmentStream":
        return AlignmentStream(self._lm)


class AlignmentStream:
    """One utterance of an `AlignmentReader`."""

    def __init__(self, lm: Qwen2LM) -> None:
        self._lm = lm
        self._cache = lm.new_cache()
        self._cache.add_row()
        self._keys: TextKeys | None = None  # of the text read so far

    @property
    def num_read(self) -> int:
        return self._cache.lengths[0]

    @torch.inference_mode()
    def read(
        self, ids: Sequence[int], positions: Sequence[int], text_positions: Sequence[int]
    ) -> list[TextQuery]:
        """Read more ids. -> what is looked for at `positions`, in which speech tokens were drawn.

        Positions are among all ids of the utterance; text_positions: where the text stands that was read.
        """
        start, heads = self.num_read, self._lm.alignment_heads
        cache_pass = self._cache.open_pass(range(1), [len(ids)])
        self._lm(self._lm.embed(to_device([[*ids]], self._cache.device)), cache_pass)
        cache_pass.commit()
        if self._keys is None or self._keys.shape[1] != len(text_positions):
            self._keys = text_keys(self._cache, heads, 0, text_positions)
        keys = self._keys
        return [text_query(cache_pass, heads, 0, position - start, keys) for position in positions]
