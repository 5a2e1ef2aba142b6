"""Which text a speech token is about: the attention of a language model's alignment heads over its text.

A head of a layer is an alignment head where it looks at the text that is being spoken (trained to, or found
so). Read at the position whose logits a speech token is drawn from.
"""

from collections.abc import Sequence

import numpy as np

from firstword.models.config import AlignmentHeads
from firstword.models.lm.kv_cache import CachePass, KeyValueCache
from firstword.models.lm.plan import TextAttention


def text_attention(
    cache: KeyValueCache,
    cache_pass: CachePass,
    heads: AlignmentHeads,
    row: int,
    index: int,
    text_positions: Sequence[int],
) -> TextAttention:
    """Return the heads' attention over the text positions alone.

    row: of the cache. index: of the position that attends, among those that the pass ran for the row.
    """
    attention: TextAttention = np.empty((len(heads), len(text_positions)), np.float32)
    if not text_positions:  # what is spoken is still the prompt's
        return attention
    first, last = text_positions[0], text_positions[-1]
    has_speech_between = len(text_positions) <= last - first
    for number, (layer, head) in enumerate(heads):
        query = cache_pass.query_of[layer](row - cache_pass.rows.start, index, head)  # (D,)
        scores = cache.watched_keys(layer, row, head, first, last + 1) @ query  # (last + 1 - first,)
        if has_speech_between:
            scores = scores[np.asarray(text_positions) - first]
        weights = np.exp((scores - scores.max()) * len(query) ** -0.5, out=attention[number])
        weights /= weights.sum()
    return attention
