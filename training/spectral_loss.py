"""How far the spectra of samples are from those of other samples, by their magnitudes alone."""

from typing import NamedTuple

import torch
from torch import Tensor

from firstword.models.config import SAMPLE_RATE_HZ, MelConfig
from firstword.models.frontend.features import MelExtractor
from training import trainer
from training.features import MEL

_RESOLUTIONS = ((2048, 300), (1024, 150), (512, 75), (256, 40))  # n_fft, hop: no multiple of another
_FLOOR = 1e-5  # of a bin's power: far below what is heard, above the teachers' rounding to 16 bits
_BANDS = ((4_000, 1.0), (8_000, 0.7), (SAMPLE_RATE_HZ // 2, 0.4))  # up to Hz, a bin's weight
_SHORT_MELS = ((1024, 256, 80), (512, 128, 64))  # n_fft, hop, bins, beside the flow's own mel


class SpectralErrors(NamedTuple):
    convergence: Tensor  # ()
    magnitude: Tensor  # (), of the logarithms, low bands first
    mel: Tensor  # (), of the flow's log-mel
    short_mel: Tensor  # (), of log-mels of shorter windows
    made_mel: Tensor  # (B, 80, T), the flow's log-mel of what was made


class SpectralLoss:
    """Multi-resolution spectra (arXiv 1910.11480), the mel of the flow and mels of shorter windows."""

    def __init__(self) -> None:
        device = trainer.device()
        self._windows = {n_fft: torch.hann_window(n_fft).to(device) for n_fft, _ in _RESOLUTIONS}
        self._weights = {n_fft: _band_weights(n_fft).to(device) for n_fft, _ in _RESOLUTIONS}
        self._mel = MelExtractor(MEL, device)
        self._short_mels = [
            MelExtractor(MelConfig(SAMPLE_RATE_HZ, n_fft, hop, n_fft, num_mels=bins), device)
            for n_fft, hop, bins in _SHORT_MELS
        ]

    def __call__(self, made: Tensor, wanted: Tensor) -> SpectralErrors:
        """made, wanted (B, N)."""
        convergence, magnitude = made.new_zeros(()), made.new_zeros(())
        for n_fft, hop in _RESOLUTIONS:
            a, b = (self._magnitudes(x, n_fft, hop) for x in (made, wanted))
            convergence = convergence + (a - b).norm() / b.norm()
            magnitude = magnitude + ((a.log() - b.log()).abs() * self._weights[n_fft]).mean()
        made_mel = self._mel(made)
        short = [(mel(made) - mel(wanted)).abs().mean() for mel in self._short_mels]
        return SpectralErrors(
            convergence / len(_RESOLUTIONS),
            magnitude / len(_RESOLUTIONS),
            (made_mel - self._mel(wanted)).abs().mean(),
            torch.stack(short).mean(),
            made_mel,
        )

    def _magnitudes(self, samples: Tensor, n_fft: int, hop: int) -> Tensor:
        """(B, N) -> (B, bins, frames)."""
        spectrum = torch.stft(samples, n_fft, hop, window=self._windows[n_fft], return_complex=True)
        return (spectrum.real.square() + spectrum.imag.square() + _FLOOR).sqrt()


def _band_weights(n_fft: int) -> Tensor:
    """-> (bins, 1), 1 in the mean."""
    hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, n_fft // 2 + 1)
    weights = torch.zeros(len(hz))
    for top_hz, weight in reversed(_BANDS):
        weights[hz <= top_hz] = weight
    return (weights / weights.mean())[:, None]
