"""One pass of an estimator over a chunk of each stream at a fixed shape, its state in fixed buffers.

For what is compiled ahead or measured; the service's graphs are in flow.py.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.flow.dit import DiT
from firstword.models.flow.unet import CausalUNet
from firstword.models.state import NetworkState


class ChunkPosition(NamedTuple):
    """Where the chunk of each row is, in tensors that stay.

    start (B,): position of its first frame in its stream. slot (B,): where in the buffers its keys are
    written. mask (B, frames): what the row sees of them, the chunk included.
    """

    start: Tensor
    slot: Tensor
    mask: Tensor


class FixedChunkContext:
    """`NetworkContext` of a chunk of T frames of each row, over a state that is written in place.

    What is left of a convolution is right for a chunk without padding, the only one that another follows.
    """

    def __init__(self, state: NetworkState, position: ChunkPosition):
        self._state, self._start, self._slot = state, position.start, position.slot
        self._mask = position.mask[:, None, None]  # (B, 1, 1, frames)
        self._rows = torch.arange(len(position.start), device=position.start.device)[:, None]

    def positions(self, length: int, device: torch.device) -> Tensor:
        return self._start[:, None] + torch.arange(length, device=device)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        left = self._state[f"left_{index}"]
        extended = torch.cat([left, x], dim=dim)
        left.copy_(extended.narrow(dim, extended.shape[dim] - frames, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert distance_query is None, "relative positions"
        keys, values = self._state[f"keys_{layer}"], self._state[f"values_{layer}"]
        index = self._slot[:, None] + torch.arange(q.shape[2], device=q.device)  # (B, T)
        keys[self._rows, :, index] = k.transpose(1, 2)
        values[self._rows, :, index] = v.transpose(1, 2)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self._mask)


class EstimatorStep(nn.Module):
    """A pass over a state that is its own for good; what changes is in the arguments."""

    def __init__(self, estimator: CausalUNet | DiT, state: NetworkState):
        super().__init__()
        self.estimator = estimator
        self._state = state

    def forward(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, position: ChunkPosition
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> (B, M, T)."""
        return self.estimator(x, mu, t, spks, cond, FixedChunkContext(self._state, position))
