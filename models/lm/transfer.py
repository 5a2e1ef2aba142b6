"""Numbers of the host as tensors on the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

Numbers = Sequence[int] | Sequence[float] | Sequence[bool] | Sequence[Sequence[int]]


def to_device(numbers: Numbers, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Without waiting: `torch.tensor(..., device=...)` would wait for all that the device has to do."""
    return torch.tensor(numbers, dtype=dtype).to(device, non_blocking=True)
