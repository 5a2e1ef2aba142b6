"""The language model of CosyVoice 2 and 3 at fixed shapes: an id of each row, or several of one row."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from firstword.models.lm.kv_cache import attend_grouped
from firstword.models.lm.qwen2 import Qwen2Decoder


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


class FixedRunContext:
    """`AttentionContext` of a run of T new ids of one row, over its first `num_visible` positions of buffers.

    keys, values: of each layer (rows, G, capacity, D), written in place in `row` (1,) from `start` (1,) on;
    what stands there behind the run's own ids is written again before it is seen.
    """

    def __init__(
        self,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        row: Tensor,
        start: Tensor,
        num_visible: int,
    ):
        self._keys, self._values, self._row = keys, values, row
        self._start, self._num_visible = start, num_visible
        self._positions: Tensor | None = None  # (1, T)
        self._mask: Tensor | None = None  # (1, 1, T, visible)

    def positions(self, length: int, device: torch.device) -> Tensor:
        self._positions = self._start[:, None] + torch.arange(length, device=device)
        visible = torch.arange(self._num_visible, device=device)
        self._mask = (visible <= self._positions[..., None])[:, None]
        return self._positions

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert distance_query is None, "relative positions"
        keys, values = (
            self._written(buffers[layer], new) for buffers, new in ((self._keys, k), (self._values, v))
        )
        return attend_grouped(q, keys, values, self._mask)

    def _written(self, buffer: Tensor, new: Tensor) -> Tensor:
        """buffer (rows, G, capacity, D), new (1, G, T, D) -> what is visible of the row (1, G, L, D)."""
        buffer[self._row[:, None], :, self._positions] = new.transpose(1, 2)
        return buffer[:, :, : self._num_visible].index_select(0, self._row)
