"""A recording someone gave us, made fit for the extractors: mono, checked, without silence at its ends."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr
import torch
from torch import Tensor

from models.frontend.errors import PromptError

MIN_SAMPLE_RATE_HZ = 16_000
TRIM_FRAME_MS = 20
TRIM_MARGIN_MS = 100
TRIM_RANGE_DB = 40.0  # what is this far below the loudest frame is not speech
SILENCE_DB = -60.0  # nor is anything below this level, relative to full scale


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Finite mono float32 samples (n,), n > 0, within about ±1."""

    samples: npt.NDArray[np.float32]
    sample_rate_hz: int

    @classmethod
    def from_channels(cls, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> "Recording":
        """samples (n,) or (channels, n), the channels are averaged.

        Raises PromptError for a sample rate below 16 kHz, no samples, and NaN or infinity.
        """
        assert samples.dtype == np.float32, f"samples of {samples.dtype}, expected float32"
        assert samples.ndim in (1, 2), f"samples of shape {samples.shape}, expected (n,) or (channels, n)"
        if sample_rate_hz < MIN_SAMPLE_RATE_HZ:
            raise PromptError(f"recorded at {sample_rate_hz} Hz; record at {MIN_SAMPLE_RATE_HZ} Hz or more")
        if samples.size == 0:
            raise PromptError("the recording is empty")
        if not np.isfinite(samples).all():
            raise PromptError("the recording holds samples that are not numbers; encode it again")
        mono = samples if samples.ndim == 1 else samples.mean(axis=0)
        return cls(mono, sample_rate_hz)

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz

    def trimmed(self) -> "Recording":
        """Without the silence at both ends; silence in between stays.

        The level of a frame of 20 ms is its RMS without its mean. Frames within 40 dB of the loudest and
        above -60 dBFS are speech. What lies more than 100 ms before the first or behind the last is cut.
        Raises PromptError where no frame is speech.
        """
        frame_samples = self.sample_rate_hz * TRIM_FRAME_MS // 1000
        margin_samples = self.sample_rate_hz * TRIM_MARGIN_MS // 1000
        levels_db = _levels_db(self.samples, frame_samples)
        loudest_db = float(levels_db.max())
        if loudest_db < SILENCE_DB:
            raise PromptError(f"the recording is silent: nowhere louder than {SILENCE_DB:.0f} dBFS")
        (speech,) = np.nonzero(levels_db >= max(loudest_db - TRIM_RANGE_DB, SILENCE_DB))
        start = max(0, int(speech[0]) * frame_samples - margin_samples)
        stop = (int(speech[-1]) + 1) * frame_samples + margin_samples
        return Recording(self.samples[start:stop], self.sample_rate_hz)

    def resampled(self, sample_rate_hz: int) -> Tensor:
        """-> (n * sample_rate_hz / self.sample_rate_hz,) float32, by soxr's HQ where the rates differ."""
        samples = self.samples
        if sample_rate_hz != self.sample_rate_hz:
            samples = soxr.resample(samples, self.sample_rate_hz, sample_rate_hz, quality="HQ")
        return torch.from_numpy(samples.copy())  # never the caller's memory


def _levels_db(samples: npt.NDArray[np.float32], frame_samples: int) -> npt.NDArray[np.float64]:
    """samples (n,) -> (ceil(n / frame_samples),) dBFS; the last frame may be shorter."""
    starts = np.arange(0, len(samples), frame_samples)
    counts = np.diff(starts, append=len(samples))
    wide = samples.astype(np.float64)
    means = np.add.reduceat(wide, starts) / counts
    deviations = wide - means.repeat(counts)
    powers = np.add.reduceat(deviations**2, starts) / counts
    levels_db: npt.NDArray[np.float64] = 10 * np.log10(np.maximum(powers, 1e-20))
    return levels_db
