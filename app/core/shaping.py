"""Shape the samples of an utterance on their way to the listener: silence, rate, fades and volume."""

import numpy as np

from firstword.app.audio.dsp import LeadingSilence, Samples, Tempo, within_full_scale

_FADE_S = 0.003  # at both ends of an utterance, so that joins never click


class UtteranceShaper:
    def __init__(
        self,
        sample_rate_hz: int,
        silence: LeadingSilence | None,
        rate: float = 1.0,
        gain: float = 1.0,
        volume: float = 1.0,
    ) -> None:
        """silence: trims the stream's. gain: the speaker's, a factor. volume: the request's; what is beyond
        full scale is clipped."""
        self.peak = 0.0  # before the volume
        self.num_trimmed = 0  # samples before the first that was given out
        self._silence = silence
        self._tempo = None if rate == 1 else Tempo(rate, sample_rate_hz)
        self._gain = np.float32(gain)
        self._volume = volume
        self._num_fade = round(_FADE_S * sample_rate_hz)
        self._is_first = True

    def shape(self, samples: Samples, is_last: bool) -> Samples:
        """samples (n,) -> (m,), possibly empty."""
        if self._gain != 1:
            samples = samples * self._gain
        if self._silence is not None:
            num_given = len(samples)
            samples = self._silence.trim(samples, is_last)
            self.num_trimmed += num_given - len(samples)  # in the end: held back samples come later
        if self._tempo is not None:
            samples = self._tempo.feed(samples)
            samples = np.concatenate([samples, self._tempo.finish()]) if is_last else samples
        if not len(samples):
            return samples
        samples = faded(samples, self._num_fade, self._is_first, is_last)
        self._is_first = False
        self.peak = max(self.peak, float(np.abs(samples).max()))
        return samples if self._volume == 1 else within_full_scale(samples * np.float32(self._volume))


def faded(samples: Samples, num_fade: int, is_first: bool, is_last: bool) -> Samples:
    """samples (n,) of an utterance, the first rising from zero and the last falling to it."""
    num_fade = min(num_fade, len(samples))
    if not num_fade or not (is_first or is_last):
        return samples
    samples = samples.copy()
    ramp = np.linspace(0, 1, num_fade, dtype=np.float32)
    if is_first:
        samples[:num_fade] *= ramp
    if is_last:
        samples[-num_fade:] *= ramp[::-1]
    return samples
