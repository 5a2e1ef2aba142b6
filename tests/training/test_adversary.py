"""The vocoder's discriminators and what they are trained on."""

import torch

from training.adversary import Adversary


def test_one_backward_pass_trains_both_sides() -> None:
    """The discriminators learn from their own loss only, the vocoder from the other two only."""
    torch.manual_seed(0)
    adversary = Adversary(2)
    wanted, made = torch.randn(2, 6000) * 0.1, (torch.randn(2, 6000) * 0.1).requires_grad_()
    own, fooled, matched = adversary.losses(made, wanted)
    (of_made,) = torch.autograd.grad(own, made, allow_unused=True, retain_graph=True)
    assert of_made is None
    parameters = list(adversary.parameters())
    gradients = torch.autograd.grad(fooled + matched, [made, *parameters], allow_unused=True)
    assert gradients[0].abs().max() > 0
    assert all(gradient is None for gradient in gradients[1:])


def test_discriminators_learn_to_tell_noise_from_a_tone() -> None:
    torch.manual_seed(0)
    adversary = Adversary(2)
    tone = torch.sin(torch.arange(6000) / 20)[None] * 0.3
    noise = torch.randn(1, 6000) * 0.2
    optimizer = torch.optim.Adam(adversary.parameters(), 5e-3)
    before = adversary.losses(noise, tone)[0]
    for _ in range(12):
        own, _, _ = adversary.losses(noise, tone)
        optimizer.zero_grad()
        own.backward()
        optimizer.step()
    assert own < 0.6 * before
