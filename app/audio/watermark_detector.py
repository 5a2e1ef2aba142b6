"""Find a watermark in a recording, knowing its key alone: at any offset, and if wanted at any speed.

The recording is whitened, folded into one period and correlated with each noise of the key; every lag of the
first noise is tried with every shift of the others, and the best word whose check holds is the answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import (
    DETECTOR_HZ,
    FIRST_LINE,
    HIGH_HZ,
    LAST_LINE,
    LAYOUTS,
    LOW_HZ,
    PERIOD,
    SHIFT,
    SHIFT_BITS,
    noise_lines,
    window,
    windowed,
)

FALSE_ALARMS: Final = 1e-6  # of a whole recording, all that is searched in it together
TAIL: Final = 0.75  # that scores of unmarked speech lie above what a normal distribution says, as measured
MAX_SPEED_CHANGE: Final = 0.04

_WINDOW_S, _STEP_S, _WHOLE_S = 10, 5, 20  # of a recording that is longer than the last
_HOP = 240
_SEGMENT_S = 0.5  # within which a drift of the speed is neglected
_NUM_LAGS, _NUM_SHIFTS = 20, 2  # the best of which are tried with one another
_SPEED_S = 6.0  # of a recording that are searched for its speed
_COARSE = 12_288  # lags of the period in the search for the speed
_COARSE_LINES = 6100  # up to 5.9 kHz
_RATE_STEP = 2.5e-4
_DRIFT_S = 1.1e-4  # between two speeds that are tried, from one end of the recording to the other
_NUM_REFINED = 24


@dataclass(frozen=True, slots=True)
class Detection:
    """payload: None: nothing was found. score: in standard deviations. speed: 1.03 plays 3 % too fast."""

    score: float
    threshold: float
    payload: int | None
    speed: float = 1.0
    start_s: float = 0.0  # of the part that it was found in


@dataclass(frozen=True, slots=True)
class _Best:
    score: float
    payload: int | None


class Detector:
    """Looks for the marks of one key. Samples are mono at DETECTOR_HZ."""

    def __init__(self, key: bytes, payload_bits: int = 24) -> None:
        self._layout = LAYOUTS[payload_bits]
        lines = noise_lines(key, self._layout).conj()
        self._lines = np.zeros((len(lines), PERIOD // 2 + 1), np.complex64)
        self._lines[:, FIRST_LINE:LAST_LINE] = lines
        self._coarse_lines = lines[:, : _COARSE_LINES - FIRST_LINE].astype(np.complex64)

    def threshold(self, num_searches: int, false_alarms: float = FALSE_ALARMS) -> float:
        """Return the score that unmarked speech passes with this probability, in so many searches together.

        The union of both polarities, all lags and all payloads, each a normal variable, and TAIL above it.
        """
        chances = 2.0 * PERIOD * 2.0**self._layout.payload_bits * num_searches
        return -NormalDist().inv_cdf(false_alarms / chances) + TAIL

    def detect(self, samples: Samples, searches_speeds: bool = False) -> Detection:
        """Search all of a recording; searches_speeds: where nothing is found, at other speeds as well."""
        windows = list(_windows(len(samples)))
        share = FALSE_ALARMS / 2 if searches_speeds else FALSE_ALARMS
        whitened = whiten(samples)
        threshold = self.threshold(len(windows), share)
        best, start = _Best(-1.0, None), 0
        for begin, end in windows:
            found = self._decode(_folded(whitened[begin:end], PERIOD))
            if (found.payload is not None, found.score) > (best.payload is not None, best.score):
                best, start = found, begin
        if best.payload is not None and best.score >= threshold:
            return Detection(best.score, threshold, best.payload, 1.0, start / DETECTOR_HZ)
        if searches_speeds and len(samples) > DETECTOR_HZ:
            return self._at_any_speed(whitened, share)
        return Detection(best.score, threshold, None)

    def _at_any_speed(self, whitened: Samples, false_alarms: float) -> Detection:
        start, part = _liveliest(whitened, round(_SPEED_S * DETECTOR_HZ))
        duration_s = len(part) / DETECTOR_HZ
        num_drifts = 2 * round(_RATE_STEP / 2 * duration_s / _DRIFT_S) + 1
        drifts_s = _DRIFT_S * (np.arange(num_drifts) - num_drifts // 2)
        num_rates = round(MAX_SPEED_CHANGE / _RATE_STEP)
        rates = 1 + _RATE_STEP * np.arange(-num_rates, num_rates + 1)
        threshold = self.threshold(len(rates) * num_drifts, false_alarms)
        low = _low_passed(part)
        scores = np.stack([self._coarse_scores(low, rate, drifts_s) for rate in rates])
        best, speed = _Best(-1.0, None), 1.0
        for index in np.argsort(scores, axis=None)[-_NUM_REFINED:]:
            rate, drift_s = rates[index // num_drifts], drifts_s[index % num_drifts]
            for finer_s in (-_DRIFT_S / 2, 0.0, _DRIFT_S / 2):
                found = self._decode(_folded(_resampled(part, rate), PERIOD, drift_s + finer_s))
                if (found.payload is not None, found.score) > (best.payload is not None, best.score):
                    best, speed = found, rate * (1 + (drift_s + finer_s) / duration_s)
        is_found = best.payload is not None and best.score >= threshold
        payload = best.payload if is_found else None
        return Detection(best.score, threshold, payload, float(speed), start / DETECTOR_HZ)

    def _coarse_scores(self, low: Samples, rate: float, drifts_s: NDArray[Any]) -> NDArray[np.float32]:
        """Return for each drift the sum of the highest correlations with the noises, each at any lag."""
        resampled = _resampled(low, rate * _COARSE / PERIOD)
        folded = np.stack([_folded(resampled, _COARSE, drift_s) for drift_s in drifts_s])
        spectra = np.fft.rfft(folded, axis=1)[:, None, FIRST_LINE:_COARSE_LINES] * self._coarse_lines
        padded = np.zeros((*spectra.shape[:2], _COARSE // 2 + 1), np.complex64)
        padded[:, :, FIRST_LINE:_COARSE_LINES] = spectra
        correlation = np.fft.irfft(padded, _COARSE, axis=2)
        deviation = np.sqrt(np.mean(correlation**2, axis=2)) + 1e-12
        highest = np.abs(correlation).max(axis=2) / deviation
        scores: NDArray[np.float32] = highest.sum(axis=1)
        return scores

    def _decode(self, folded: Samples) -> _Best:
        """Return the best word in one period (PERIOD,) whose check holds, in either polarity."""
        correlation = np.fft.irfft(np.fft.rfft(folded) * self._lines, PERIOD, axis=1)
        correlation /= np.sqrt(np.mean(correlation**2, axis=1, keepdims=True)) + 1e-12
        found = [self._best_word(correlation), self._best_word(-correlation)]
        return max(found, key=lambda best: (best.payload is not None, best.score))

    def _best_word(self, correlation: NDArray[Any]) -> _Best:
        layout = self._layout
        first, shifted = correlation[0], correlation[1:]
        by_residue = shifted.reshape(layout.num_shifted, PERIOD // SHIFT, SHIFT).max(axis=1).sum(axis=0)
        bound = first + np.tile(by_residue, PERIOD // SHIFT)  # what a lag can come to at most
        lags = np.argpartition(bound, -_NUM_LAGS)[-_NUM_LAGS:]
        steps = SHIFT * np.arange(2**SHIFT_BITS)
        at_shifts = shifted[:, (lags[:, None] + steps) % PERIOD]  # (noises, lags, shifts)
        best_shifts = np.argpartition(at_shifts, -_NUM_SHIFTS, axis=2)[:, :, -_NUM_SHIFTS:]
        heights = np.take_along_axis(at_shifts, best_shifts, axis=2)
        values, words = first[lags][:, None], np.zeros((_NUM_LAGS, 1), np.uint64)
        for index, (height, shift) in enumerate(zip(heights, best_shifts, strict=True)):
            bits = shift.astype(np.uint64) << np.uint64(SHIFT_BITS * index)
            values = (values[:, :, None] + height[:, None]).reshape(_NUM_LAGS, -1)
            words = (words[:, :, None] | bits[:, None]).reshape(_NUM_LAGS, -1)
        values = values / np.sqrt(np.float32(1 + layout.num_shifted))
        payloads = words >> np.uint64(layout.check_bits)
        holds = layout.checks(payloads) == words & np.uint64(2**layout.check_bits - 1)
        if not holds.any():
            return _Best(float(values.max()), None)
        index = int(np.where(holds, values, -np.inf).argmax())
        return _Best(float(values.flat[index]), int(payloads.flat[index]))


def whiten(samples: Samples) -> Samples:
    """Return the speech with its envelope taken out and what is weak or noise turned down; (n,) -> (m,).

    What a bin has above or below its surroundings is kept by its root: all are turned by the same share, so
    that none should count for its loudness, but the weakest hold mostly what leaks from their neighbors.
    """
    num_frames = -(-len(samples) // _HOP) + 1
    padded = np.zeros((num_frames + 1) * _HOP, np.float32)
    padded[_HOP : _HOP + len(samples)] = samples
    spectra = np.fft.rfft(windowed(padded, _HOP), axis=1)
    power = spectra.real**2 + spectra.imag**2
    level = _smoothed(_smoothed(_smoothed(power, axis=1), axis=1), axis=0)
    top = np.percentile(level.max(axis=1), 95)
    noise = (2 * np.percentile(level, 10, axis=0) + 1e-5 * top).astype(np.float32)
    reliable = np.sqrt(np.maximum(level - noise, 0) / (level + np.float32(1e-12)))
    white = spectra * (reliable / ((power * level) ** np.float32(0.25) + np.float32(1e-12)))
    width_hz = DETECTOR_HZ / (2 * _HOP)
    white[:, : int(LOW_HZ / width_hz)] = 0
    white[:, int(HIGH_HZ / width_hz) :] = 0
    frames = np.fft.irfft(white, 2 * _HOP, axis=1) * window(_HOP)
    out = padded * 0
    out[:-_HOP] += frames[:, :_HOP].reshape(-1)
    out[_HOP:] += frames[:, _HOP:].reshape(-1)
    return out[_HOP:]


def _smoothed(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return means of three neighbors; the outermost stand for those beyond them."""
    pad = [(1, 1) if index == axis else (0, 0) for index in range(2)]
    padded: NDArray[Any] = np.moveaxis(np.pad(values, pad, mode="edge"), axis, 0)
    means: NDArray[Any] = (padded[:-2] + padded[1:-1] + padded[2:]) / np.float32(3)
    return np.moveaxis(means, 0, axis)


def _folded(samples: Samples, period: int, drift_s: float = 0.0) -> Samples:
    """Add up the periods of a recording. drift_s: how much later its end comes than its samples say."""
    folded = np.zeros(period, np.float32)
    per_s = DETECTOR_HZ * period / PERIOD
    size = round(_SEGMENT_S * per_s)
    for start in range(0, len(samples), size):
        piece = samples[start : start + size]
        position = (start + round(drift_s * per_s * start / len(samples))) % period
        num_left = period - position
        folded[position : position + len(piece)] += piece[:num_left]
        if len(piece) > num_left:
            folded[: len(piece) - num_left] += piece[num_left:]
    return folded


def _resampled(samples: Samples, rate: float) -> Samples:
    """Play `rate` times slower, by straight lines between the samples."""
    at = np.arange(int(len(samples) * rate)) / rate
    whole = at.astype(np.int64)
    share = (at - whole).astype(np.float32)
    following = np.minimum(whole + 1, len(samples) - 1)
    between: Samples = samples[whole] * (1 - share) + samples[following] * share
    return between


def _low_passed(samples: Samples) -> Samples:
    spectrum = np.fft.rfft(samples)
    highest_hz = _COARSE_LINES * DETECTOR_HZ / PERIOD
    spectrum[int(highest_hz / DETECTOR_HZ * len(samples)) :] = 0
    return np.fft.irfft(spectrum, len(samples)).astype(np.float32)


def _windows(num_samples: int) -> Iterator[tuple[int, int]]:
    """Give the parts that are searched: the whole and its halves, or overlapping windows of a long recording.

    A fold bears no cut, so a part on one side of it may be found where the whole is not.
    """
    if num_samples <= _WHOLE_S * DETECTOR_HZ:
        half = num_samples // 2
        yield from ((0, num_samples), (0, half), (half, num_samples))
        return
    size, step = _WINDOW_S * DETECTOR_HZ, _STEP_S * DETECTOR_HZ
    for start in range(0, num_samples - step, step):
        yield start, min(start + size, num_samples)


def _liveliest(samples: Samples, size: int) -> tuple[int, Samples]:
    """Return the part of that size with the most energy, and where it starts."""
    if len(samples) <= size:
        return 0, samples
    energy = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    start = int(np.argmax(energy[size:] - energy[:-size]))
    return start, samples[start : start + size]
