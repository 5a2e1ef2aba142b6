"""From one sample rate to another while the samples come; pieces of any size give the same result."""

import numpy as np
import soxr

from app.audio.pcm import Samples


class Resampler:
    """soxr's HQ, which holds about 40 ms back, 80 ms on the way down to 8 kHz."""

    def __init__(self, source_rate_hz: int, sample_rate_hz: int) -> None:
        self._stream = soxr.ResampleStream(source_rate_hz, sample_rate_hz, num_channels=1, quality="HQ")

    def feed(self, samples: Samples) -> Samples:
        return self._resampled(samples, is_last=False)

    def finish(self) -> Samples:
        return self._resampled(np.empty(0, np.float32), is_last=True)

    def _resampled(self, samples: Samples, is_last: bool) -> Samples:
        resampled: Samples = self._stream.resample_chunk(samples, last=is_last)
        return resampled
