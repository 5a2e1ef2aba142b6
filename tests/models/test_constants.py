"""What no reference case reaches: epsilons, the kinds of GELU, slopes, clip and clamp."""

import math

import pytest
import torch
from torch import nn

from firstword.models.flow.dit import modulated_norm
from firstword.models.flow.encoder import ConformerFront
from firstword.models.hift.hift import Snake
from firstword.models.layers import GeluFeedForward
from tests.models.networks import small_flow, small_hift


def test_conformer_layers_have_tiny_epsilons_and_the_outer_norms_the_usual_one() -> None:
    front = small_flow("unet").front
    assert isinstance(front, ConformerFront)
    for layer in (*front.encoder.layers, *front.encoder.up_layers):
        assert {norm.eps for norm in layer.modules() if isinstance(norm, nn.LayerNorm)} == {1e-12}
    outer = (front.encoder.embed.norm, front.encoder.up_embed.norm, front.encoder.norm)
    assert {norm.eps for norm in outer} == {1e-5}


def test_unet_norms_have_the_usual_epsilon() -> None:
    norms = [norm for norm in small_flow("unet").estimator.modules() if isinstance(norm, nn.LayerNorm)]
    assert norms
    assert {norm.eps for norm in norms} == {1e-5}


def test_dit_norm_has_its_own_epsilon() -> None:
    x = 1e-3 * torch.tensor([[[1.0, -1.0]]])
    expected = x / math.sqrt(1e-6 + 1e-6)
    torch.testing.assert_close(modulated_norm(x, torch.zeros(1), torch.zeros(1)), expected)


@pytest.mark.parametrize("has_tanh", [False, True])
def test_gelu_is_exact_in_the_unet_and_by_tanh_in_the_dit(has_tanh: bool) -> None:
    feedforward = GeluFeedForward(1, 1, has_tanh)
    for layer in (feedforward.up, feedforward.down):
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)
    x = torch.linspace(-3, 3, 25)[:, None, None]
    exact = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    by_tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    torch.testing.assert_close(feedforward(x), by_tanh if has_tanh else exact)
    assert float((exact - by_tanh).abs().max()) > 1e-4
    kind = "dit" if has_tanh else "unet"
    used = [part for part in small_flow(kind).estimator.modules() if isinstance(part, GeluFeedForward)]
    assert {part.has_tanh_gelu for part in used} == {has_tanh}


@pytest.mark.parametrize("is_causal", [False, True])
@torch.inference_mode()
def test_magnitude_is_clipped_at_100_and_samples_at_099(is_causal: bool) -> None:
    hift = small_hift(is_causal)
    bias = hift.generator.conv_post.bias
    assert bias is not None
    before = bias.clone()
    try:
        bias[:9] += 50.0
        mel, source = torch.zeros(1, 80, 20), torch.zeros(1, 20 * 480)
        spectra: list[torch.Tensor] = []
        handle = hift.generator.register_forward_hook(lambda _, __, out: spectra.append(out))
        samples = hift.decode(mel, source)
        handle.remove()
    finally:
        bias.copy_(before)
    real, imaginary = spectra[0].chunk(2, dim=1)
    torch.testing.assert_close((real.square() + imaginary.square()).sqrt(), torch.full_like(real, 100.0))
    assert float(samples.abs().max()) <= 0.99 + 1e-6
    if not is_causal:  # this network's phases happen not to reach the limit
        assert float(samples.abs().max()) == pytest.approx(0.99)


def test_snake_of_a_vanishing_alpha_is_the_identity_in_half_precision() -> None:
    snake = Snake(1).to(torch.float16)
    snake.alpha.data.fill_(1e-9)
    x = torch.linspace(-2, 2, 5, dtype=torch.float16)[None, None]
    torch.testing.assert_close(snake(x), x)
