"""The fade between two neighbouring pieces that overlap, level throughout."""

import torch
from torch import Tensor


def crossfaded(new: Tensor, tail: Tensor | None) -> Tensor:
    """new (..., T), tail (..., W) of the piece before -> (..., T) whose first W places fade from `tail`.

    Raised cosines that add up to 1. No tail: `new` itself, in memory of its own.
    """
    if tail is None:
        return new.clone()
    width = tail.shape[-1]
    count = min(width, new.shape[-1])
    ramp = (torch.arange(count, dtype=torch.float32, device=new.device) + 0.5) / width
    fade_in = 0.5 - 0.5 * torch.cos(torch.pi * ramp)
    head = new[..., :count] * fade_in + tail[..., :count] * (1 - fade_in)
    return torch.cat([head, new[..., count:]], dim=-1)
