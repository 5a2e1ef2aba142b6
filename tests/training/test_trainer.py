"""The loop of training: its two optimizers, and going on where it stopped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.training.recipe import tiny_settings
from training import trainer
from training.muon import Muon
from training.settings import TrainSettings

PLAN = TrainSettings(0, 8, 0.02, 2, 0.5, 0.01, 0.9, 0.98, 10.0, bf16=False, threads=1, muon=True)


@pytest.mark.parametrize("is_half", [True, False])
def test_an_update_has_the_directions_of_its_gradient_and_one_size_in_each(
    monkeypatch: pytest.MonkeyPatch, is_half: bool
) -> None:
    monkeypatch.setattr("training.muon.computes_bfloat16", lambda _: is_half)
    rows, columns = torch.linalg.qr(torch.randn(8, 8))[0], torch.linalg.qr(torch.randn(8, 8))[0]
    weight = nn.Parameter(torch.zeros(8, 4, 2))
    weight.grad = (rows @ torch.logspace(-1, 1, 8).diag() @ columns).view(8, 4, 2)
    Muon([weight], rate=1.0, weight_decay=0.0).step()
    step = -weight.detach().flatten(1)
    sizes = (rows.T @ step @ columns.T).diag()
    assert torch.linalg.svdvals(step).max() < 1.3 * 0.2 * 8**0.5
    assert sizes.min() > 0.5 * 0.2 * 8**0.5, "weak directions are followed like strong ones"


def quadratic() -> tuple[nn.Module, Callable[[float], trainer.Losses]]:
    torch.manual_seed(3)
    model = nn.ModuleDict({"inner": nn.Linear(6, 6), "head": nn.Linear(6, 2)})
    wanted, generator = nn.Linear(6, 2).requires_grad_(False), torch.Generator().manual_seed(4)

    def losses_of(_: float) -> trainer.Losses:
        x: Tensor = torch.randn(64, 6, generator=generator)
        return {"loss": (model["head"](model["inner"](x)) - wanted(x)).square().mean()}

    return model, losses_of


@pytest.mark.parametrize("muon", [True, False])
def test_training_learns_and_goes_on_where_it_stopped(tmp_path: Path, muon: bool) -> None:
    settings = tiny_settings(tmp_path)
    model, losses_of = quadratic()
    errors = [losses_of(0.0)["loss"].item()]
    for steps in (60, 240):
        model, losses_of = quadratic()  # what was learned is in the file alone
        dice = trainer.seeded(settings, "toy")
        trainer.train(settings, replace(PLAN, steps=steps, muon=muon), model, dice, losses_of)
        errors.append(losses_of(0.0)["loss"].item())
        state = torch.load(tmp_path / "toy.pt", weights_only=False)
        assert (state["step"], len(state["optimizers"])) == (steps, 1 + muon)
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.1 * errors[0]
