"""One step of the language model of CosyVoice 2 and 3 at a fixed shape: a token of each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from firstword.models.config import AlignmentHeads
from firstword.models.lm.kv_cache import FIRST_LENGTH, CachePass, KeyValueCache, attend_grouped
from firstword.models.lm.qwen2 import Qwen2Decoder, Qwen2LM
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, bucket, doubled
from firstword.models.runtimes.torch.cuda_graphs.capture import Run, captured, recorded_or_eager


class FixedTokenContext:
    """`AttentionContext` of one new token of each row, over the first `num_visible` positions of buffers.

    keys, values: of each layer (at least B, G, capacity, D), written in place at `position` (B,) where
    `is_active` (B,); the other rows compute a value that nobody sees. `num_visible` covers every position.
    """

    def __init__(
        self,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        position: Tensor,
        is_active: Tensor,
        num_visible: int,
    ):
        self._keys, self._values = keys, values
        self._rows = torch.arange(len(position), device=position.device)
        self._position = position.clamp(max=keys[0].shape[2] - 1)
        self._is_active = is_active[:, None, None]
        self._num_visible = num_visible
        visible = torch.arange(num_visible, device=position.device)
        self._mask = (visible <= self._position[:, None])[:, None, None]  # (B, 1, 1, visible)

    def positions(self, length: int, device: torch.device) -> Tensor:
        assert length == 1, f"{length} tokens of a row"
        return self._position[:, None]

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert distance_query is None, "relative positions"
        keys, values = (
            self._written(buffers[layer][: len(self._rows)], new)
            for buffers, new in ((self._keys, k), (self._values, v))
        )
        return attend_grouped(q, keys, values, self._mask)

    def _written(self, buffer: Tensor, new: Tensor) -> Tensor:
        """buffer (B, G, capacity, D), new (B, G, 1, D) -> what is visible of it."""
        before = buffer[self._rows, :, self._position]  # (B, G, D)
        buffer[self._rows, :, self._position] = torch.where(self._is_active, new[:, :, 0], before)
        return buffer[:, :, : self._num_visible]


class DecoderStep(nn.Module):
    """A step of the decoder over buffers that are its own for good; what changes is in the arguments."""

    def __init__(
        self, decoder: Qwen2Decoder, keys: Sequence[Tensor], values: Sequence[Tensor], num_visible: int
    ):
        super().__init__()
        self.decoder = decoder
        self._keys, self._values, self._num_visible = list(keys), list(values), num_visible

    def forward(self, x: Tensor, position: Tensor, is_active: Tensor) -> Tensor:
        """x (B, 1, C), position (B,) of the new token, is_active (B,) -> hidden (B, 1, C)."""
        context = FixedTokenContext(self._keys, self._values, position, is_active, self._num_visible)
        return self.decoder(x, context)


LENGTHS = tuple(FIRST_LENGTH << power for power in range(4))  # positions that are recorded at the start


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run, and where its inputs are to be written."""

    run: Run
    x: Tensor  # (B, 1, C)
    position: Tensor  # (B,)
    is_active: Tensor  # (B,)


class GraphedLM:
    """A `SpeechLM` whose steps of one token are CUDA graphs; a prompt runs as the given one runs it.

    Rows are padded to a number of BATCHES and positions to a power of two. A graph belongs to the cache's
    memory: where that grew, it is recorded anew. Used by one thread at a time, which holds the one cache. A
    model with alignment heads, whose queries are looked at between layers, runs without graphs.

    max_rows: a cache has memory for so many rows from its beginning, all their graphs are recorded then, and
    what has none runs eagerly; 0: a graph is recorded when it is wanted.
    """

    def __init__(self, lm: Qwen2LM, max_rows: int = 0):
        self._lm, self._max_rows = lm, max_rows
        self.vocabulary = lm.vocabulary
        self.prompt_embeddings = lm.prompt_embeddings
        self.embed = lm.embed
        self.logits: Callable[[Tensor], Tensor] = lm.logits
        self._memory: tuple[int, ...] = ()  # of the cache that `_recorded` is of
        self._recorded: dict[tuple[int, int], _Recorded | None] = {}
        self._has_all = False  # no other is recorded

    @torch.inference_mode()
    def new_cache(self) -> KeyValueCache:
        """Return an empty cache; with max_rows it is the one that the graphs are of, and the last one."""
        cache = self._lm.new_cache()
        if self._max_rows and not self.alignment_heads:
            cache.reserve(self._max_rows, LENGTHS[-1])
            for rows in (rows for rows in BATCHES if rows <= self._max_rows):
                for visible in LENGTHS:
                    self._recorded_for(cache.keys, cache.values, rows, visible)
            self._has_all = True
        return cache

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return self._lm.alignment_heads

    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        keys, values = context.cache_buffers
        rows = bucket(BATCHES, context.rows.stop)
        if x.shape[1] > 1 or self.alignment_heads or rows is None:
            return self._lm(x, context)
        rows, visible = min(rows, keys[0].shape[0]), doubled(FIRST_LENGTH, context.num_visible)
        one = self._recorded_for(keys, values, rows, min(visible, keys[0].shape[2]))
        if one is None:
            return self._lm(x, context)
        part = slice(context.rows.start, context.rows.stop)
        one.x[part] = x
        one.is_active.zero_()  # rows beside the pass write nothing
        one.position[part], one.is_active[part] = context.steps
        return one.run()[part].clone()

    def _recorded_for(
        self, keys: Sequence[Tensor], values: Sequence[Tensor], rows: int, visible: int
    ) -> _Recorded | None:
        memory = (keys[0].data_ptr(), values[0].data_ptr(), *keys[0].shape)
        if memory != self._memory:
            self._recorded.clear()
            self._memory = memory
        key = rows, visible
        if key not in self._recorded and not self._has_all:
            record, what = partial(self._record, keys, values, *key), f"a step of {rows} utterances"
            self._recorded[key] = recorded_or_eager(record, what)
        return self._recorded.get(key)

    def _record(self, keys: Sequence[Tensor], values: Sequence[Tensor], rows: int, visible: int) -> _Recorded:
        device = keys[0].device
        step = DecoderStep(self._lm.decoder, keys, values, visible)
        x = keys[0].new_zeros(rows, 1, self._lm.config.qwen2.hidden_size)
        position = torch.zeros(rows, dtype=torch.long, device=device)
        is_active = torch.zeros(rows, dtype=torch.bool, device=device)  # so that recording writes nothing
        run = captured(lambda: step(x, position, is_active), device)
        return _Recorded(run, x, position, is_active)
