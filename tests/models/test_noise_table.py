"""The fixed noise of CosyVoice 3's vocoder, and of the flows, at the published sizes."""

from dataclasses import replace

import torch

from firstword.models.config import (
    NOISE_FRAMES,
    CFMConfig,
    DiTConfig,
    DiTFlowConfig,
    MelConfig,
    ModelConfig,
    Qwen2Config,
    Qwen2LMConfig,
)
from firstword.models.flow.solver import fixed_noise, noise_between
from firstword.models.hift.hift import causal_noise_table
from tests.models.networks import small_hift_config

PUBLISHED = ModelConfig(
    family="cosyvoice3",
    sample_rate_hz=24_000,
    token_rate_hz=25,
    lm=Qwen2LMConfig(6561, Qwen2Config(151_936, 896, 4864, 24, 14, 2), has_cosyvoice3_vocabulary=True),
    flow=DiTFlowConfig(6561, 1024, DiTConfig(1024, 22, 16, 64, 2, 50), CFMConfig()),
    vocoder=replace(small_hift_config(is_causal=True), base_channels=512, f0_channels=512),
    mel=MelConfig(24_000, 1920, 480, 1920, fmax_hz=None),
)


def test_causal_noise_table_has_the_published_values() -> None:
    table = causal_noise_table(PUBLISHED)
    assert table.shape == (7_200_000, 9)
    first = [
        0.9228260,
        0.4774475,
        0.8270518,
        0.2834572,
        0.7934816,
        0.1734348,
        0.8523750,
        0.9228546,
        0.7310200,
    ]
    torch.testing.assert_close(table[0], torch.tensor(first), atol=1e-6, rtol=0)
    torch.testing.assert_close(table[-1, -1], torch.tensor(0.6562206), atol=1e-6, rtol=0)


def test_flow_noise_has_the_published_values() -> None:
    noise = fixed_noise()
    first = torch.tensor([-1.1258398, -1.1523602, -0.2505786, -0.4338788, 0.8487104])
    last = torch.tensor([-0.0321569, -0.9826010, -0.0832944])
    torch.testing.assert_close(noise[0, :5], first, atol=1e-6, rtol=0)
    torch.testing.assert_close(noise[-1, -3:], last, atol=1e-6, rtol=0)
    assert abs(float(noise.double().sum()) + 1291.20139) < 1e-2
    assert abs(float(noise.double().square().sum()) - 1_199_689.953) < 0.5


def test_flow_noise_starts_again_after_its_end() -> None:
    noise = fixed_noise()
    wrapped = noise_between(noise, NOISE_FRAMES - 10, NOISE_FRAMES + 40)
    assert wrapped.shape == (80, 50)
    assert torch.equal(wrapped[:, :10], noise[:, -10:])
    assert torch.equal(wrapped[:, 10:], noise[:, :40])
