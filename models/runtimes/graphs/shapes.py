"""What a network of the flow keeps from chunk to chunk, as it asks for it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstword.models.flow.dit import DiT
from firstword.models.flow.encoder import ConformerFront, EmbeddingFront
from firstword.models.flow.unet import CausalUNet
from firstword.models.layers import FullContext


@dataclass(frozen=True, slots=True)
class StateShapes:
    """Of one row. conv_left: by a convolution's index. layers: heads and their size by an attention's.

    conv_dims: along which of its dimensions, the rows counted, a convolution sees time.
    """

    conv_left: dict[int, tuple[int, ...]]
    conv_dims: dict[int, int]
    layers: dict[int, tuple[int, int]]


class _ShapeContext(FullContext):
    """Notes what a network asks of its context."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes = StateShapes({}, {}, {})

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        left = list(x.shape[1:])
        left[dim - 1] = frames
        self.shapes.conv_left[index] = tuple(left)
        self.shapes.conv_dims[index] = dim
        return super().extend(index, x, frames, dim)

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        self.shapes.layers[layer] = (k.shape[1], k.shape[3])
        return super().attend(layer, q, k, v, distance_query)


@torch.inference_mode()
def state_shapes(estimator: CausalUNet | DiT, num_mels: int) -> StateShapes:
    """Run the estimator on a frame of silence to see what it keeps."""
    context = _ShapeContext()
    weight = next(estimator.parameters())
    mel, speaker = weight.new_zeros(1, num_mels, 1), weight.new_zeros(1, num_mels)
    estimator(mel, mel, weight.new_zeros(1), speaker, mel, context)
    return context.shapes


@torch.inference_mode()
def front_shapes(front: ConformerFront | EmbeddingFront, lookahead: int) -> tuple[StateShapes, StateShapes]:
    """Of the networks at the rate of tokens and of frames."""
    tokens, frames = _ShapeContext(), _ShapeContext()
    front(
        torch.zeros(1, 1 + lookahead, dtype=torch.long, device=front.embedding.weight.device), tokens, frames
    )
    return tokens.shapes, frames.shapes
