"""The fixed noise of CosyVoice 3's vocoder, drawn as the published code draws it when it is built.

There the table is whatever torch's global generator gives after the flow has been initialised, which
starts it from seed 0. The same draws are repeated here on a generator of their own.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from models.config import NUM_MELS, DiTFlowConfig, HiFTConfig, ModelConfig
from models.flow.solver import NOISE_FRAMES
from models.hift.f0 import LOOKAHEAD_FRAMES

TABLE_S = 300


def causal_noise_table(config: ModelConfig) -> Tensor:
    """-> (300 s of samples, tones), uniform in [0, 1), float32 on the CPU.

    Follows the initialisation of torch's own layers: the values hold for the published sizes with any
    torch whose default initialisation is that of 2.x.
    """
    assert isinstance(config.flow, DiTFlowConfig), "only CosyVoice 3 has a noise table"
    generator = torch.Generator().manual_seed(0)
    _skip_normal(generator, NUM_MELS * NOISE_FRAMES)
    _skip_normal(generator, config.flow.vocab_size * NUM_MELS)  # token embedding
    _skip_layer(generator, (NUM_MELS, config.flow.speaker_embedding_size))
    for shape in _f0_shapes(config.hift):
        _skip_layer(generator, shape)
    tones = config.hift.num_harmonics + 1
    torch.rand(1, tones, generator=generator, device="cpu")  # initial phases, which have no effect
    samples = TABLE_S * config.hift.sample_rate_hz
    return torch.rand(samples, tones, generator=generator, device="cpu")


def _f0_shapes(config: HiFTConfig) -> Iterator[tuple[int, ...]]:
    channels = config.f0_channels
    yield channels, config.num_mels, LOOKAHEAD_FRAMES + 1
    for _ in range(4):
        yield channels, channels, 3
    yield 1, channels


def _skip_normal(generator: torch.Generator, count: int) -> None:
    torch.empty(count, device="cpu").normal_(generator=generator)


def _skip_layer(generator: torch.Generator, shape: tuple[int, ...]) -> None:
    """Weight, then bias, of a linear layer or convolution: uniform, one draw an element."""
    torch.empty(shape, device="cpu").uniform_(generator=generator)
    torch.empty(shape[0], device="cpu").uniform_(generator=generator)
