"""Discriminators for the vocoder, over spectra at several resolutions, narrow enough for a CPU.

After UnivNet (arXiv 2106.07889) and Vocos (arXiv 2306.00814).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

_RESOLUTIONS = ((2048, 480), (1024, 240), (512, 120))  # n_fft, hop
_SLOPE = 0.1
_POWER = 0.3  # magnitudes are compressed, so that weak parts are seen
_FLOOR = 1e-5  # of a bin's power


class Judgement(NamedTuple):
    """What one discriminator says of a batch."""

    scores: Tensor  # (B, n)
    features: list[Tensor]  # of its layers


class SpectrumDiscriminator(nn.Module):
    """Two-dimensional convolutions over a compressed magnitude spectrum."""

    window: Tensor

    def __init__(self, n_fft: int, hop: int, channels: int) -> None:
        super().__init__()
        self._n_fft, self._hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        strides = (1, 2, 2, 2, 1)
        self.convs = nn.ModuleList(
            nn.Conv2d(channels if place else 1, channels, (9, 3), (stride, 1), (4, 1))
            for place, stride in enumerate(strides)
        )
        self.score = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, samples: Tensor) -> Judgement:
        """samples (B, N)."""
        spectrum = torch.stft(samples, self._n_fft, self._hop, window=self.window, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square() + _FLOOR
        x, features = (power ** (_POWER / 2))[:, None], []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), _SLOPE)
            features.append(x)
        return Judgement(self.score(x).flatten(1).float(), features)


class Adversary(nn.Module):
    """All discriminators, trained on least squares (arXiv 1611.04076): 1 for a teacher, 0 for the vocoder."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.discriminators = nn.ModuleList(
            SpectrumDiscriminator(n_fft, hop, channels) for n_fft, hop in _RESOLUTIONS
        )

    def forward(self, samples: Tensor) -> list[Judgement]:
        return [judge(samples) for judge in self.discriminators]

    def losses(self, made: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """made, wanted (B, N) -> the discriminators' own loss, then the vocoder's two, all means over them.

        The own loss has no gradient for `made`, the other two none for the discriminators: one backward
        pass over their sum trains both sides.
        """
        real = self(wanted)
        own = [
            (a.scores - 1).square().mean() + b.scores.square().mean()
            for a, b in zip(real, self(made.detach()), strict=True)
        ]
        frozen = {name: value.detach() for name, value in self.named_parameters()}
        judged: list[Judgement] = functional_call(self, frozen, (made,))
        fooled = [(one.scores - 1).square().mean() for one in judged]
        matched = [_distance(a, b) for a, b in zip(judged, real, strict=True)]
        return torch.stack(own).mean(), torch.stack(fooled).mean(), torch.stack(matched).mean()


def _distance(made: Judgement, wanted: Judgement) -> Tensor:
    """Return the distance of the features, relative to their size; layers count equally."""
    pairs = zip(made.features, wanted.features, strict=True)
    sides = [(a.float(), b.detach().float()) for a, b in pairs]
    return torch.stack([(a - b).abs().mean() / (b.abs().mean() + 1e-4) for a, b in sides]).mean()
