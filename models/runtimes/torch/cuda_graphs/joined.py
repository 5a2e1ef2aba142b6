"""Linear layers of one input as one product, over the same memory."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def joined(linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of all of them, whose own become views of it: weights are not kept twice."""
    weight = _joined(linears, "weight")
    assert weight is not None, "no weights"
    return weight, _joined(linears, "bias")


def _joined(linears: Sequence[nn.Linear], name: str) -> Tensor | None:
    parts = [getattr(linear, name) for linear in linears]
    if parts[0] is None:
        assert all(part is None for part in parts), "some have a bias"
        return None
    with torch.inference_mode(False), torch.no_grad():
        whole = torch.cat(parts)
        views = whole.split([len(part) for part in parts])
        for linear, part, view in zip(linears, parts, views, strict=True):
            setattr(linear, name, nn.Parameter(view, requires_grad=part.requires_grad))
    return whole
