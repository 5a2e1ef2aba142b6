"""Another speaker made of hibari by WORLD: pitch and formants moved, with the pitch its graph tells."""

import numpy as np

from training.teachers.hibari import Hibari
from training.teachers.spoken import SAMPLE_RATE_HZ, STEP_SAMPLES, Spoken, as_int16, voiced_only
from training.teachers.world import pyworld

_PERIOD_S = 0.01
_LOWEST_HZ = 71.0  # of the analysis
_NO_NOISE = 1e-3  # of the amplitude of a band
_UNVOICED_HZ = 500.0  # how fast WORLD lets its pulses come where there is no pitch


class Shifted:
    knows_phase = True

    def __init__(
        self, pitch: float, formants: float, range_: float = 1.0, coefficients: float | None = None
    ) -> None:
        """What the pitch, the frequencies of the formants and the pitch's range (of its logarithm) become
        in parts of hibari's.

        coefficients: how many an envelope is coded in, with pulses alone where there is pitch: it buzzes as
        the synthesizers of the nineties did. None: as natural as WORLD can.
        """
        self._pitch, self._formants, self._range = pitch, formants, range_
        self._coefficients = None if coefficients is None else int(coefficients)
        self._teacher = Hibari()

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError."""
        heard = self._teacher.speak(text)
        samples = heard.samples.astype(np.float64) / 32768
        contour = np.diff(heard.cycles, append=2 * heard.cycles[-1] - heard.cycles[-2])
        contour *= SAMPLE_RATE_HZ / STEP_SAMPLES  # (S,) Hz, through voiceless sounds too
        times = np.arange(0, len(samples) / SAMPLE_RATE_HZ, _PERIOD_S)
        at_steps = times * SAMPLE_RATE_HZ / STEP_SAMPLES - 0.5
        f0_hz = np.interp(at_steps, np.arange(len(contour)), contour)
        f0_hz[f0_hz < 60.0] = 0.0
        envelope = pyworld.cheaptrick(samples, f0_hz, times, SAMPLE_RATE_HZ, f0_floor=_LOWEST_HZ)
        noise = pyworld.d4c(samples, f0_hz, times, SAMPLE_RATE_HZ)
        if self._coefficients is not None:
            coded = pyworld.code_spectral_envelope(envelope, SAMPLE_RATE_HZ, self._coefficients)
            fft_size = 2 * (envelope.shape[1] - 1)
            envelope = pyworld.decode_spectral_envelope(coded, SAMPLE_RATE_HZ, fft_size)
            noise[f0_hz > 0] = _NO_NOISE
        bins = np.minimum((np.arange(envelope.shape[1]) / self._formants).astype(int), envelope.shape[1] - 1)
        moved = self._moved(f0_hz)
        made = pyworld.synthesize(
            moved,
            np.ascontiguousarray(envelope[:, bins]),
            np.ascontiguousarray(noise[:, bins]),
            SAMPLE_RATE_HZ,
            1000 * _PERIOD_S,
        )
        wanted = len(heard.samples)
        driven = _driven(moved, wanted)
        steps = np.where(driven == _UNVOICED_HZ, 0.0, driven)[STEP_SAMPLES // 2 :: STEP_SAMPLES]
        return Spoken(
            as_int16(np.pad(made, (0, max(0, wanted - len(made))))[:wanted]),
            heard.phones,
            heard.ends_s,
            heard.words,
            heard.num_words,
            voiced_only(steps.astype(np.float32), heard.phones, heard.ends_s),
            np.concatenate([[0.0], np.cumsum(driven) / SAMPLE_RATE_HZ])[:-1:STEP_SAMPLES],
            heard.says,
        )

    def _moved(self, f0_hz: np.ndarray) -> np.ndarray:
        """(T,) Hz -> (T,) Hz."""
        is_voiced = f0_hz > 0
        if not is_voiced.any():
            return f0_hz
        middle = np.exp(np.log(f0_hz[is_voiced]).mean())
        moved = np.zeros_like(f0_hz)
        moved[is_voiced] = middle * self._pitch * (f0_hz[is_voiced] / middle) ** self._range
        return moved


def _driven(f0_hz: np.ndarray, num_samples: int) -> np.ndarray:
    """How fast WORLD's pulses come at each sample: its interpolation of the frames, reproduced."""
    frames = np.arange(len(f0_hz)) * _PERIOD_S
    times = np.arange(num_samples) / SAMPLE_RATE_HZ
    is_voiced = np.interp(times, frames, (f0_hz > 0).astype(float)) > 0.5
    return np.where(is_voiced, np.interp(times, frames, f0_hz), _UNVOICED_HZ)
