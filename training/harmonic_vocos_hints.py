"""What hibari's decoder holds between its blocks, as a hint of what the blocks of Harmonic Vocos may make.

Regression on hidden values (arXiv 1412.6550) learns in minutes what samples alone take hours for. No copy of
hibari's weights comes of it: the network has fewer channels, so that the values are seen through a random
projection that is thrown away, and its last blocks and its head, where a linear map between two given values
would be hibari's own, are given no hint.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.harmonic_vocos.network import Backbone
from firstword.models.layers import FullContext
from training import trainer

FREE_BLOCKS = 2  # the last ones


@dataclass(frozen=True, slots=True)
class Hints:
    """A projection of hidden values (H, W, F), and the sizes of what it gives."""

    mean: NDArray[np.float32]  # (W, 1)
    projection: NDArray[np.float32]  # (C, W), orthogonal on values of one deviation
    deviations: Tensor  # (H, C, 1)
    step_deviations: Tensor  # (H, C, 1), of what a block adds; for the first as `deviations`

    def of(self, hidden: NDArray[np.float32]) -> NDArray[np.float16]:
        """(H, W, F) -> (F, H, C), the last H values that are fitted."""
        kept = hidden[len(hidden) - len(self.deviations) :]
        projected = self.projection @ (kept - self.mean)
        return projected.transpose(2, 0, 1).astype(np.float16)


def fit(hidden: NDArray[np.float32], channels: int, num_blocks: int, rng: np.random.Generator) -> Hints:
    """hidden (H, W, F), of many frames -> hints for a network of fewer channels.

    Principal components, turned at random. Raises ValueError where there are not fewer channels.
    """
    width = hidden.shape[1]
    if channels >= width:
        raise ValueError(f"harmonic_vocos: {channels} channels; expected fewer than the teacher's {width}")
    assert num_blocks > FREE_BLOCKS, num_blocks
    kept = hidden[-min(len(hidden), num_blocks - FREE_BLOCKS) :]
    flat = kept.transpose(1, 0, 2).reshape(width, -1)
    mean, size = flat.mean(1, keepdims=True), flat.std(1, keepdims=True)
    scaled = (flat - mean) / size
    _, directions = np.linalg.eigh(scaled @ scaled.T / scaled.shape[1])
    turn = np.linalg.qr(rng.normal(size=(channels, channels)))[0]
    projection = (turn @ directions[:, -channels:].T / size.T).astype(np.float32)
    seen = projection @ (kept - mean)
    steps = np.concatenate([seen[:1], np.diff(seen, axis=0)])
    deviations = (
        torch.from_numpy(values.std(2, keepdims=True)).to(trainer.device()) for values in (seen, steps)
    )
    return Hints(mean, projection, *deviations)


def through_blocks(net: Backbone, x: Tensor, hints: Tensor, is_forced: bool) -> tuple[Tensor, Tensor]:
    """x (B, C, T) and hints (B, H, C, T) -> what the last block makes, and what those with a hint do.

    is_forced: each block with a hint before it is given that, not what the block before it made.
    """
    context, number = FullContext(), hints.shape[1]
    first = len(net.blocks) - FREE_BLOCKS - number
    made = []
    for index, block in enumerate(net.blocks):
        if is_forced and first < index <= first + number:
            x = hints[:, index - first - 1]
        x = block(x, context)
        if first <= index < first + number:
            made.append(x)
    return x, torch.stack(made, dim=1)


def hint_error(made: Tensor, hints: Tensor, scales: Hints, is_forced: bool) -> Tensor:
    """made, hints (B, H, C, T) -> ()."""
    error = (made - hints) / (scales.step_deviations if is_forced else scales.deviations)
    return 0.5 * error.square().mean() + error.abs().mean()
