"""Muon: descent by orthogonalised momentum for the matrices of a network (arXiv 2502.16982)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from training.half import computes_bfloat16

_MOMENTUM = 0.95
_RMS = 0.2  # of an update, what AdamW's are like: one rate serves both
_STEPS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration


class Muon(torch.optim.Optimizer):
    """For weights of two dimensions and more: (out, ...) is taken as a matrix of `out` rows."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.flatten(1).shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                updates = _orthogonal(torch.stack([self._momentum(one) for one in parameters]))
                scale = group["lr"] * _RMS * max(shape) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.sub_(update.view_as(parameter), alpha=scale)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        """Nesterov's, as a matrix."""
        gradient = parameter.grad
        assert gradient is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(gradient)
        state["momentum"].lerp_(gradient, 1 - _MOMENTUM)
        return gradient.lerp(state["momentum"], _MOMENTUM).flatten(1)


def _orthogonal(matrices: Tensor) -> Tensor:
    """(N, R, C) -> (N, R, C): the nearest with singular values of about one, by Newton and Schulz."""
    a, b, c = _COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    is_half = computes_bfloat16(matrices.device.type)
    x = (matrices.mT if is_tall else matrices).to(torch.bfloat16 if is_half else torch.float32)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if is_tall else x).to(matrices.dtype)
