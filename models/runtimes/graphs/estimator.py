"""One pass of an estimator over a chunk of each stream at a fixed shape, its caches in fixed buffers.

For programs that are written or compiled ahead, and to measure; the service's graphs are in flow.py.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.flow.dit import DiT
from firstword.models.flow.unet import CausalUNet
from firstword.models.runtimes.graphs.shapes import StateShapes


@dataclass(frozen=True, slots=True, eq=False)
class ChunkBuffers:
    """conv_left (B, ...) by index; keys and values (B, H, frames, D) by layer."""

    conv_left: dict[int, Tensor]
    keys: dict[int, Tensor]
    values: dict[int, Tensor]

    @classmethod
    def empty(cls, shapes: StateShapes, rows: int, frames: int, like: Tensor) -> "ChunkBuffers":
        """All zero, in the dtype and on the device of `like`."""
        sizes = {layer: (rows, heads, frames, size) for layer, (heads, size) in shapes.layers.items()}
        return cls(
            {index: like.new_zeros(rows, *shape) for index, shape in shapes.conv_left.items()},
            {layer: like.new_zeros(size) for layer, size in sizes.items()},
            {layer: like.new_zeros(size) for layer, size in sizes.items()},
        )


class FixedChunkContext:
    """`NetworkContext` of a chunk of T frames of each row, over buffers that are written in place.

    start (B,): position of the chunk's first frame in its stream. slot (B,): where in the buffers its keys
    are written. mask (B, frames): what the row sees of them, the chunk included. What is left of a
    convolution is right for a chunk without padding, the only one that another follows.
    """

    def __init__(self, buffers: ChunkBuffers, start: Tensor, slot: Tensor, mask: Tensor):
        self._buffers, self._start, self._slot = buffers, start, slot
        self._mask = mask[:, None, None]  # (B, 1, 1, frames)
        self._rows = torch.arange(len(start), device=start.device)[:, None]

    def positions(self, length: int, device: torch.device) -> Tensor:
        return self._start[:, None] + torch.arange(length, device=device)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        left = self._buffers.conv_left[index]
        extended = torch.cat([left, x], dim=dim)
        left.copy_(extended.narrow(dim, extended.shape[dim] - frames, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        keys, values = self._buffers.keys[layer], self._buffers.values[layer]
        index = self._slot[:, None] + torch.arange(q.shape[2], device=q.device)  # (B, T)
        keys[self._rows, :, index] = k.transpose(1, 2)
        values[self._rows, :, index] = v.transpose(1, 2)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self._mask)


class EstimatorStep(nn.Module):
    """A pass over buffers that are its own for good; what changes is in the arguments."""

    def __init__(self, estimator: CausalUNet | DiT, buffers: ChunkBuffers):
        super().__init__()
        self.estimator = estimator
        self._state = buffers

    def forward(
        self,
        x: Tensor,
        mu: Tensor,
        t: Tensor,
        spks: Tensor,
        cond: Tensor,
        start: Tensor,
        slot: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M), start, slot (B,), mask (B, frames) -> (B, M, T)."""
        context = FixedChunkContext(self._state, start, slot, mask)
        return self.estimator(x, mu, t, spks, cond, context)
