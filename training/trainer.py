"""The loop every network is trained in: schedule, average of the weights, checkpoints, log."""

import dataclasses
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from training.half import autocast
from training.muon import Muon
from training.progress import Progress
from training.settings import Settings, TrainSettings

_AVERAGE_DECAY = 0.999
_SAVE_EVERY_S = 240.0
# Parts of the names of matrices that are no maps from features to features: tables, first and last layers.
_AT_THE_EDGE = (
    *("embedding", "head", "phones", "table", "projection", "time", "bias", "estimator.out"),
    *("conv_pre", "conv_post", "classifier", "f0.layers.0"),
)

Values = TypeVar("Values")
Losses = dict[str, Tensor]  # "loss" is what is minimised, the others are logged beside it


@dataclass(slots=True)
class Dice:
    """All that is random in a stage, so that it can be kept with a checkpoint."""

    stage: str
    numpy: np.random.Generator
    torch: torch.Generator

    def state(self) -> dict[str, Any]:
        return {"numpy": self.numpy.bit_generator.state, "torch": self.torch.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.numpy.bit_generator.state = state["numpy"]
        self.torch.set_state(state["torch"])


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def on_device(values: Values) -> Values:
    """A dataclass of tensors, or a tuple of them, moved to where the training is."""
    if isinstance(values, tuple):
        return type(values)(value.to(device()) for value in values)
    moved = {
        field.name: getattr(values, field.name).to(device())
        for field in dataclasses.fields(values)  # type: ignore[arg-type]
        if isinstance(getattr(values, field.name), Tensor)
    }
    return dataclasses.replace(values, **moved)  # type: ignore[type-var]


def seeded(settings: Settings, stage: str) -> Dice:
    """Fixes torch's and Python's own generators too: networks are initialised from them."""
    seed = settings.seed + sum(stage.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    return Dice(stage, np.random.default_rng(seed), torch.Generator().manual_seed(seed))


def train(
    settings: Settings,
    plan: TrainSettings,
    model: nn.Module,
    dice: Dice,
    losses_of: Callable[[float], Losses],
    after: Callable[[int], dict[str, float]] | None = None,
    faster: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Trains `model` for plan.steps, going on from <folder>/<stage>.pt if it is there; ends with the average.

    losses_of: takes the share of the training that is done, draws a batch with `dice`. after: takes the
    step, called at each save with the averaged weights in place; what it returns is logged. faster: parts of
    parameters' names, and how many times plan.rate those have.
    """
    torch.set_num_threads(plan.threads)
    path = settings.path / f"{dice.stage}.pt"
    if device().type != "cpu":
        model.to(device())
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizers = _optimizers(model, plan, faster)
    average = _Average(model)
    done = 0
    if path.exists():
        state = torch.load(path, weights_only=False, map_location=device())
        average.values = state["average"]
        model.load_state_dict(state.get("model", average.values))
        if "step" in state:  # else weights to begin from
            for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            dice.restore(state["dice"])  # which rows come next is drawn anew, so it is another run
            done = state["step"]
    with Progress(settings, dice.stage, plan.steps) as progress:
        progress.note(f"{sum(parameter.numel() for parameter in parameters)} parameters, from step {done}")
        progress.at(done)
        saved_at = time.monotonic()
        for step in range(done, plan.steps):
            rate = plan.rate * schedule(step, plan)
            for group in chain.from_iterable(optimizer.param_groups for optimizer in optimizers):
                group["lr"] = rate * group.get("times", 1.0)
            model.train()
            with autocast(device().type, plan.bf16):
                losses = losses_of(step / plan.steps)
            model.zero_grad(set_to_none=True)
            losses["loss"].backward()
            norm = nn.utils.clip_grad_norm_(parameters, plan.clip)
            if norm.isfinite():
                for optimizer in optimizers:
                    optimizer.step()
                average.update(model, step)
            values = {name: float(value.detach()) for name, value in losses.items()}
            if time.monotonic() - saved_at > _SAVE_EVERY_S or step + 1 == plan.steps:
                saved_at = time.monotonic()
                _save(path, model, average, optimizers, dice, step + 1)
                if after is not None:
                    with average.in_place(model), torch.no_grad():
                        model.eval()
                        progress.note("  ".join(f"{k} {v:.4g}" for k, v in after(step + 1).items()))
            progress.step(**values, norm=float(norm), rate=rate)
    model.load_state_dict(average.values)
    model.cpu().eval()


def load_average(settings: Settings, stage: str, model: nn.Module) -> nn.Module:
    """The averaged weights of a stage, finished or not. Raises FileNotFoundError naming the stage."""
    path = settings.path / f"{stage}.pt"
    if not path.exists():
        raise FileNotFoundError(f"{path}: missing; run `python -m training {stage}` first")
    model.load_state_dict(torch.load(path, weights_only=False, map_location="cpu")["average"])
    return model.eval()


def is_trained(settings: Settings, stage: str, plan: TrainSettings) -> bool:
    """Whether the stage has done all its steps."""
    path = settings.path / f"{stage}.pt"
    if not path.exists():
        return False
    return bool(
        torch.load(path, weights_only=False, map_location="cpu", mmap=True).get("step", 0) >= plan.steps
    )


def schedule(step: int, plan: TrainSettings) -> float:
    """Rises for plan.warmup steps, stays, falls on a cosine over the last plan.fall of the steps."""
    rising = min(1.0, (step + 1) / plan.warmup)
    begin = plan.steps * (1 - plan.fall)
    if step < begin:
        return rising
    share = (step - begin) / max(1.0, plan.steps - begin)
    return rising * max(0.02, 0.5 * (1 + math.cos(math.pi * share)))


class _Average:
    """The exponential average of a model's weights."""

    def __init__(self, model: nn.Module) -> None:
        self.values = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(_AVERAGE_DECAY, (1 + step) / (20 + step))
        now = model.state_dict()
        floats = [name for name, value in now.items() if value.is_floating_point()]
        torch._foreach_lerp_(
            [self.values[name] for name in floats], [now[name] for name in floats], 1 - decay
        )

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(self.values)
        try:
            yield
        finally:
            model.load_state_dict(kept)


def _optimizers(
    model: nn.Module, plan: TrainSettings, faster: Mapping[str, float]
) -> list[torch.optim.Optimizer]:
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    inner = {
        name: parameter
        for name, parameter in named
        if plan.muon and parameter.ndim > 1 and not any(part in name for part in _AT_THE_EDGE)
    }
    groups = []
    for times in sorted({1.0, *faster.values()}):
        mine = [parameter for name, parameter in named if name not in inner and _times(name, faster) == times]
        matrices = [parameter for parameter in mine if parameter.ndim > 1]
        vectors = [parameter for parameter in mine if parameter.ndim <= 1]
        groups += [
            {"params": matrices, "weight_decay": plan.weight_decay, "times": times},
            {"params": vectors, "weight_decay": 0.0, "times": times},
        ]
    betas = (plan.beta1, plan.beta2)
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, plan.rate, betas=betas, fused=True)]
    if inner:
        optimizers.append(Muon(inner.values(), plan.rate, plan.weight_decay))
    return optimizers


def _times(name: str, faster: Mapping[str, float]) -> float:
    return next((times for part, times in faster.items() if part in name), 1.0)


def _save(
    path: Path,
    model: nn.Module,
    average: _Average,
    optimizers: list[torch.optim.Optimizer],
    dice: Dice,
    step: int,
) -> None:
    state = {
        "model": model.state_dict(),
        "average": average.values,
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "dice": dice.state(),
        "step": step,
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)
