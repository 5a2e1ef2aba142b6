"""Short-time Fourier transform of a few points as convolutions, with a Hann window (periodic)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


class ShortTimeFourier:
    """Analysis and synthesis with `n_fft` points and a hop of a quarter of it, all float32.

    A spectrum has n_fft / 2 + 1 real parts, then as many imaginary parts. Holds constants only.
    """

    def __init__(self, n_fft: int, device: torch.device | str = "cpu"):
        self.n_fft, self.hop = n_fft, n_fft // 4
        time = torch.arange(n_fft, dtype=torch.float64, device="cpu")
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * time / n_fft)
        bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64, device="cpu")[:, None]
        angles = 2 * math.pi * bins * time / n_fft  # (bins, n_fft)
        weight = torch.full_like(bins, 2.0)  # both halves of the spectrum, but for the two real bins
        weight[0], weight[-1] = 1.0, 1.0
        self._analysis = _bank(torch.cat([angles.cos(), -angles.sin()]) * window, device)
        self._synthesis = _bank(
            torch.cat([weight * angles.cos(), -weight * angles.sin()]) / n_fft * window, device
        )
        self._envelope = _bank((window * window)[None], device)

    def to(self, device: torch.device | str) -> "ShortTimeFourier":
        return ShortTimeFourier(self.n_fft, device)

    def analyse(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, n_fft + 2, (N - n_fft) / hop + 1)."""
        return F.conv1d(samples[:, None].float(), self._analysis, stride=self.hop)

    def overlap_add(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """spectrum (B, n_fft + 2, J) -> samples (B, hop (J - 1) + n_fft) not yet normalised, their envelope.

        Samples divided by the envelope are the signal; both add up across neighbouring pieces.
        """
        samples = F.conv_transpose1d(spectrum.float(), self._synthesis, stride=self.hop)[:, 0]
        ones = torch.ones(1, 1, spectrum.shape[-1], device=spectrum.device)
        return samples, F.conv_transpose1d(ones, self._envelope, stride=self.hop)[0]

    def centred(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, N + n_fft), reflected at both ends."""
        return F.pad(samples[:, None], (self.n_fft // 2, self.n_fft // 2), mode="reflect")[:, 0]


def _bank(rows: Tensor, device: torch.device | str) -> Tensor:
    return rows.to(torch.float32)[:, None].to(device)  # (rows, 1, n_fft)
