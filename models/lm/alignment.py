"""Which text a speech token is about: the attention of a language model's alignment heads over its text.

A head of a layer is an alignment head where it looks at the text that is being spoken (trained to, or found
so). Read at the position whose logits a speech token is drawn from.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from firstword.models.lm.kv_cache import Array, KeyValueCache

TextAttention = npt.NDArray[np.float32]  # (heads, text tokens run so far); each head's sum to 1


class TokenDetail(NamedTuple):
    """What is known of a drawn speech token beside its id.

    logprob: by the model's distribution over what it may draw, where it was asked for. attention: what text
    it is about, where the model has alignment heads.
    """

    logprob: float | None = None
    attention: TextAttention | None = None


AlignmentHeads = tuple[tuple[int, int], ...]  # layer and head, from 0


def text_attention(
    cache: KeyValueCache,
    heads: AlignmentHeads,
    queries: Mapping[int, Array],
    row: int,
    text_positions: Sequence[int],
) -> TextAttention:
    """Return the heads' attention over the text positions alone.

    queries: by layer, those of the last position of the row (H, D), rotated. row: of the cache.
    """
    if not text_positions:  # what is spoken is still the prompt's
        return np.zeros((len(heads), 0), np.float32)
    first, last = text_positions[0], text_positions[-1]
    attention: TextAttention = np.empty((len(heads), len(text_positions)), np.float32)
    for index, (layer, head) in enumerate(heads):
        query = queries[layer]
        keys = cache.watched_keys(layer, row, head * cache.num_heads // len(query), first, last + 1)
        scores = keys @ query[head] / np.sqrt(query.shape[-1])  # (last + 1 - first,)
        if len(text_positions) <= last - first:  # speech lies between
            scores = scores[np.asarray(text_positions) - first]
        weights = np.exp(scores - scores.max())
        attention[index] = weights / weights.sum()
    return attention
