"""The distance of complex spectra, for a vocoder whose pulses are driven with the teacher's own phase.

The published losses compare magnitudes, because nobody knows the phase of a recording's harmonics. The
teachers' graphs tell it; in service the phase begins anywhere, as always.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.config import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from training import trainer

_RESOLUTIONS = ((2048, 480), (1024, 240), (512, 120))  # n_fft, hop
_POWER = 0.4  # magnitudes are compressed, so that weak harmonics count
_ENOUGH_VOICED = 0.95  # of a window
_FLOOR = 1e-5  # of a bin's power


class AlignedLoss:
    """L1 of compressed complex spectra where the window is voiced throughout, relative to their size."""

    def __init__(self, top_hz: float) -> None:
        self._top = top_hz / (SAMPLE_RATE_HZ / 2)
        self._windows = {n_fft: torch.hann_window(n_fft).to(trainer.device()) for n_fft, _ in _RESOLUTIONS}

    def __call__(self, made: Tensor, wanted: Tensor, f0: Tensor, is_known: Tensor) -> Tensor:
        """made, wanted (B, N); f0 (B, T); is_known (B,): rows whose phase is the teacher's -> ()."""
        voiced = ((f0 > 0) & is_known[:, None]).float().repeat_interleave(SAMPLES_PER_FRAME, dim=1)
        error = made.new_zeros(())
        for n_fft, hop in _RESOLUTIONS:
            top = int(self._top * (n_fft // 2 + 1))
            a, b = (self._spectrum(samples, n_fft, hop)[:, :top] for samples in (made, wanted))
            share = F.avg_pool1d(F.pad(voiced[:, None], (n_fft // 2, n_fft // 2)), n_fft, hop)
            counts = (share > _ENOUGH_VOICED).float()  # (B, 1, frames)
            size = (b.abs() * counts).sum() + 1e-3 * (counts.sum() * top + 1)
            error = error + ((a - b).abs() * counts).sum() / size
        return error / len(_RESOLUTIONS)

    def _spectrum(self, samples: Tensor, n_fft: int, hop: int) -> Tensor:
        """(B, N) -> (B, bins, frames), complex."""
        spectrum = torch.stft(samples, n_fft, hop, window=self._windows[n_fft], return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square() + _FLOOR
        return spectrum * power ** ((_POWER - 1) / 2)
