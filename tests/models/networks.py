"""Small networks with random weights, the same in every run."""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from firstword.models.config import (
    CFMConfig,
    ConformerConfig,
    DiTConfig,
    DiTFlowConfig,
    HarmonicVocosConfig,
    HiFTConfig,
    UNetConfig,
    UNetFlowConfig,
)
from firstword.models.flow.flow import Flow
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT

VOCAB_SIZE = 120
FLOWS = ("unet", "dit")
WIDE_UNET = "wide unet"  # whose attention is wider than what it adds to, as published
UNGUIDED_FLOWS = ("unguided unet", "unguided dit")  # of the same weights
NUM_STEPS = 3  # of the solver: what is asserted here holds for any number, and each is work

_ENCODER = ConformerConfig(64, 64, 4, 128, 2, chunk=25)
_UNET = UNetConfig(320, 80, (32,), 16, 1, 2, 2, chunk=50)


def small_flow_config(kind: str) -> UNetFlowConfig | DiTFlowConfig:
    cfm = CFMConfig(num_steps=NUM_STEPS)
    if kind in UNGUIDED_FLOWS:
        cfm = replace(cfm, inference_cfg_rate=0.0)
    if kind.endswith("unet"):
        unet = replace(_UNET, num_heads=4) if kind == WIDE_UNET else _UNET
        return UNetFlowConfig(VOCAB_SIZE, _ENCODER, unet, cfm)
    return DiTFlowConfig(VOCAB_SIZE, 64, DiTConfig(64, 3, 4, 16, 2, 50), cfm)


@cache
def small_flow(kind: str) -> Flow:
    """Its attention is made sharp, so that what a frame sees matters to it."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        flow = Flow(small_flow_config(kind))
        for name, parameter in flow.named_parameters():
            if ".query.weight" in name or ".key.weight" in name:
                nn.init.normal_(parameter, std=0.35)
            elif "content_bias" in name or "position_bias" in name:
                nn.init.normal_(parameter, std=0.2)
    return flow.requires_grad_(False).eval()


def small_hift_config(is_causal: bool) -> HiFTConfig:
    return HiFTConfig(
        sample_rate_hz=24_000,
        base_channels=32,
        upsample_rates=(8, 5, 3),
        upsample_kernel_sizes=(16, 11, 7),
        resblock_kernel_sizes=(3, 7, 11),
        resblock_dilation_sizes=((1, 3, 5),) * 3,
        source_resblock_kernel_sizes=(7, 7, 11),
        source_resblock_dilation_sizes=((1, 3, 5),) * 3,
        f0_channels=32,
        is_causal=is_causal,
        lookahead_frames=4 if is_causal else 0,
    )


@cache
def small_hift(is_causal: bool) -> HiFT:
    """Its F0 is around 150 Hz, so that it is voiced."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        hift = HiFT(small_hift_config(is_causal))
        hift.f0.classifier.bias.data += 150.0
        if is_causal:
            hift.noise = torch.rand(480 * 3000)
    return hift.requires_grad_(False).eval().to(torch.float32)


@cache
def small_vocos() -> HarmonicVocos:
    """Its F0 moves with the mel, around 200 Hz."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        vocos = HarmonicVocos(HarmonicVocosConfig(24_000, 32, 64, 3, 16, 2, 4, 1200, 300))
        vocos.f0_net.head.bias.data += 1.5
    return vocos.requires_grad_(False).eval()


def random_ids(seed: int, count: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCAB_SIZE, (count,), generator=generator).tolist()


def small_speaker(seed: int, num_tokens: int) -> SpeakerFeatures:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.tensor(random_ids(seed, num_tokens), dtype=torch.int64)
    mel: Tensor = torch.randn(2 * num_tokens, 80, generator=generator)
    return SpeakerFeatures("", tokens, mel, torch.randn(192, generator=generator))
