"""An equalizer between a vocoder and the listener: what a registered speaker sounds like on average.

A vocoder that was trained on few voices gives others the spectrum of those it knows, whatever the mel says.
How loud each band is on average, in the recording and in what is spoken, tells what is missing; a filter of
minimum phase adds it, without any delay. `mel_match` does what can be done before the vocoder.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from firstword.models.config import MelConfig
from firstword.models.frontend.features import mel_centers_hz
from firstword.models.frontend.speaker import EQUALIZER_SHAPE

(NUM_TAPS,) = EQUALIZER_SHAPE
_FFT_SIZE = 4096  # of the filter's design
_BLOCK = 512  # samples; transforms of their multiples are fast
_MOST_GAIN = 15.0 * math.log(10) / 20  # 15 dB, of the natural logarithm
_QUIET_SHARE = 0.3  # of the frames; they do not count
_BLUR = 1.0  # bins, a standard deviation: what is finer are the harmonics of a pitch
_FADE_HZ = 1000.0  # above the mel's highest frequency, to no change


def fit_equalizer(recorded: Tensor, spoken: Sequence[Tensor], config: MelConfig) -> Tensor:
    """Return the taps (NUM_TAPS,) of the filter that gives what is spoken the recording's average spectrum.

    Log-mels (80, F): of the recording, and of several samples of what the vocoder makes for that speaker. How
    loud that is stays as it is.
    """
    made = torch.stack([_average(mel) for mel in spoken]).mean(0)
    bins = torch.arange(len(made))
    blur = torch.exp(-(((bins[:, None] - bins) / _BLUR) ** 2) / 2)
    gains = blur @ (_average(recorded) - made) / blur.sum(1)
    gains = gains.clamp(-_MOST_GAIN, _MOST_GAIN)
    gains = gains - (made + gains).logsumexp(0) + made.logsumexp(0)
    hz = np.linspace(0, config.sample_rate_hz / 2, _FFT_SIZE // 2 + 1)
    fade = np.clip(1 - (hz - config.highest_hz) / _FADE_HZ, 0, 1)
    wanted = np.interp(hz, mel_centers_hz(config).numpy(), gains.numpy()) * fade
    return _minimum_phase(torch.from_numpy(wanted)).float()


@dataclass(slots=True, eq=False)
class Equalizer:
    """Filters one stream, piece by piece: together they are what the whole would give."""

    taps: Tensor  # (NUM_TAPS,)
    before: Tensor  # (NUM_TAPS - 1,) samples

    @classmethod
    def start(cls, taps: Tensor) -> "Equalizer":
        return cls(taps, taps.new_zeros(len(taps) - 1))

    def __call__(self, samples: Tensor) -> Tensor:
        """samples (N,) -> (N,), on the taps' device."""
        num_before = len(self.before)
        joined = torch.cat([self.before, samples])
        self.before = joined[len(samples) :]
        size = -(-len(joined) // _BLOCK) * _BLOCK
        spectrum = torch.fft.rfft(joined, size) * torch.fft.rfft(self.taps, size)
        return torch.fft.irfft(spectrum, size)[num_before : len(joined)]

    @property
    def num_bytes(self) -> int:
        return self.before.nbytes


def _average(mel: Tensor) -> Tensor:
    """Of the frames of a log-mel that are not quiet: (80,)."""
    loudness = mel.mean(0)
    return mel[:, loudness >= loudness.quantile(_QUIET_SHARE)].mean(1)


def _minimum_phase(gains: Tensor) -> Tensor:
    """gains (_FFT_SIZE / 2 + 1,), natural logarithms -> the first NUM_TAPS taps of the filter that has them.

    By the cepstrum (Oppenheim and Schafer, Discrete-Time Signal Processing, 13.8).
    """
    cepstrum = torch.fft.irfft(gains, _FFT_SIZE)
    half = _FFT_SIZE // 2
    cepstrum[1:half] *= 2
    cepstrum[half + 1 :] = 0
    return torch.fft.irfft(torch.fft.rfft(cepstrum).exp(), _FFT_SIZE)[:NUM_TAPS]
