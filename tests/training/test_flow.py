"""How a flow begins its training."""

from pathlib import Path

import torch

from firstword.models.layers import FullContext
from tests.training.recipe import tiny_settings
from training import flow
from training.networks.flow import initialise


@torch.no_grad()
def test_a_fresh_flow_answers_nearly_what_it_is_given_less_the_noise(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, plain = (flow.build(tiny_settings(tmp_path)).eval() for _ in range(2))
    mean = torch.full((80, 1), -6.0)
    initialise(model, mean[:, 0])
    mu = model.mu(torch.randint(6561, (2, 33)), is_streaming=True)
    assert float((mu - mean).abs().mean()) < 1.0
    noise, mu = torch.randn(2, 80, 40), mean + 2 * torch.randn(2, 80, 40)

    def likeness(network: flow.Flow) -> float:
        t, cond = torch.tensor([0.0, 0.5]), torch.zeros(2, 80, 40)
        velocity = network.estimator(noise, mu, t, torch.zeros(2, 80), cond, FullContext())
        return float(torch.corrcoef(torch.stack([velocity.flatten(), (mu - noise).flatten()]))[0, 1])

    assert likeness(model) > 0.5
    assert abs(likeness(plain)) < 0.2
