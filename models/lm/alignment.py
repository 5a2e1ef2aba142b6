"""Which text a speech token is about: the attention of a language model's alignment heads over its text.

A head of a layer is an alignment head where it looks at the text that is being spoken (trained to, or found
so). Read at the position whose logits a speech token is drawn from.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from firstword.models.lm.kv_cache import KeyValueCache

TextAttention = npt.NDArray[np.float32]  # (text tokens run so far,), sums to 1
AlignmentHeads = tuple[tuple[int, int], ...]  # layer and head, from 0


def text_attention(
    cache: KeyValueCache,
    heads: AlignmentHeads,
    queries: Mapping[int, Tensor],
    row: int,
    text_positions: Sequence[int],
) -> TextAttention:
    """Return the mean of the heads' attention over the text positions alone.

    queries: by layer, those of the last position of the row (H, D), rotated. row: of the cache.
    """
    if not text_positions:  # what is spoken is still the prompt's
        return np.zeros(0, np.float32)
    first, last = text_positions[0], text_positions[-1]
    total: TextAttention = np.zeros(len(text_positions), np.float32)
    for layer, head in heads:
        query = queries[layer]
        keys = cache.keys[layer][row]  # (G, length, D)
        group = head * len(keys) // len(query)
        scores = keys[group, first : last + 1] @ query[head]  # (last + 1 - first,)
        values = scores.float().cpu().numpy() / np.sqrt(query.shape[-1])
        if len(text_positions) <= last - first:  # speech lies between
            values = values[np.asarray(text_positions) - first]
        weights = np.exp(values - values.max())
        total += weights / weights.sum()
    total /= len(heads)
    return total
