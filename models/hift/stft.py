"""Short-time Fourier transform of a few points with a periodic Hann window.

Written as matrix products, which stay float32 on every device; convolutions on a GPU may not."""

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
        frames = samples.float().unfold(1, self.n_fft, self.hop)  # (B, J, n_fft)
        return (frames @ self._analysis.mT).mT

    def overlap_add(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """spectrum (B, n_fft + 2, J) -> samples (B, hop (J - 1) + n_fft) not yet normalised, their envelope.

        Samples divided by the envelope (as many,) are the signal; both add up across neighbouring pieces.
        """
        samples = self._overlapped(spectrum.float().mT @ self._synthesis)
        return samples, self._overlapped(self._envelope.expand(1, spectrum.shape[-1], -1))[0]

    def _overlapped(self, frames: Tensor) -> Tensor:
        """frames (B, J, n_fft), a hop apart -> their sum (B, hop (J - 1) + n_fft)."""
        hops = frames.unflatten(-1, (-1, self.hop))  # (B, J, n_fft / hop, hop)
        count, overlap = hops.shape[1:3]
        total = frames.new_zeros(len(frames), count + overlap - 1, self.hop)
        for index in range(overlap):
            total[:, index : index + count] += hops[:, :, index]
        return total.flatten(1)

    def centred(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, N + n_fft), reflected at both ends."""
        return F.pad(samples[:, None], (self.n_fft // 2, self.n_fft // 2), mode="reflect")[:, 0]


def _bank(rows: Tensor, device: torch.device | str) -> Tensor:
    return rows.to(device, torch.float32)  # (rows, n_fft)
