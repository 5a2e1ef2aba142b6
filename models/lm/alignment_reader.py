"""Attention of alignment heads where another engine runs the language model: a second pass."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from firstword.models.cuda import to_device
from firstword.models.lm.alignment import text_keys, text_query
from firstword.models.lm.plan import TextKeys, TextQuery
from firstword.models.lm.qwen2 import Qwen2LM


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
