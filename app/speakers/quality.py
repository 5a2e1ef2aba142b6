"""Measures a recording and says in words what will harm the voice made of it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.speakers.interface import Quality

WINDOW_MS = 20
DIGITAL_SILENCE_DB = -90.0  # below what any microphone gives: padding, which says nothing of the noise
FLOOR_PERCENTILE = 10  # the quietest tenth of the windows is the pauses: noise
TOP_PERCENTILE = 95
MIN_SPEECH_RANGE_DB = 6.0  # speech rises and falls; what does not is noise or a tone
FULL_SCALE = 0.999
MAX_SNR_DB = 80.0

NOISY_DB = 15.0
CLIPPED_SHARE = 0.001
LITTLE_SPEECH_SHARE = 0.4
SLOWEST_CHARS_PER_S = 2.0  # of speech: Chinese, slow, has about 3; English, fast, about 20
FASTEST_CHARS_PER_S = 35.0
SHORT_PROMPT_S = 3.0


def measure_quality(samples: NDArray[np.float32], sample_rate_hz: int) -> Quality:
    """samples (n,), n > 0, finite, within ±1. No warnings yet: they depend on the transcript too."""
    powers = _window_powers(samples, sample_rate_hz * WINDOW_MS // 1000)
    clipping = float(np.mean(np.abs(samples) >= FULL_SCALE))
    sounding = powers[powers > 10 ** (DIGITAL_SILENCE_DB / 10)]
    if not len(sounding):
        return Quality(snr_db=0.0, clipping=clipping, speech_ratio=0.0)
    floor_db, top_db = 10 * np.log10(np.percentile(sounding, [FLOOR_PERCENTILE, TOP_PERCENTILE]))
    if top_db - floor_db < MIN_SPEECH_RANGE_DB:
        return Quality(snr_db=0.0, clipping=clipping, speech_ratio=0.0)
    is_speech = powers > 10 ** ((floor_db + top_db) / 20)  # half way between, in dB
    noise = float(sounding[sounding <= 10 ** (floor_db / 10) * 1.001].mean())
    speech = float(powers[is_speech].mean())
    snr_db = float(np.clip(10 * np.log10(max(speech - noise, noise) / noise), 0.0, MAX_SNR_DB))
    return Quality(round(snr_db, 1), clipping, round(float(is_speech.mean()), 3))


def with_warnings(quality: Quality, duration_s: float, transcript: str) -> Quality:
    """The same with what its owner should know of it; an empty transcript is not complained of."""
    warnings = [*_sound_warnings(quality), *_length_warnings(quality, duration_s, transcript)]
    return replace(quality, warnings=tuple(warnings))


def _sound_warnings(quality: Quality) -> list[str]:
    found = []
    if quality.snr_db < NOISY_DB:
        found.append(
            f"too noisy: speech is {quality.snr_db:.0f} dB above the noise, {NOISY_DB:.0f} dB or more are "
            "wanted; record in a quiet room, near the microphone"
        )
    if quality.clipping > CLIPPED_SHARE:
        found.append(f"clipped: {quality.clipping:.1%} of the samples are at full scale; record it softer")
    if quality.speech_ratio < LITTLE_SPEECH_SHARE:
        found.append(f"mostly silence: {quality.speech_ratio:.0%} of the recording is speech; cut the pauses")
    return found


def _length_warnings(quality: Quality, duration_s: float, transcript: str) -> list[str]:
    speech_s = quality.speech_ratio * duration_s
    found = []
    if duration_s < SHORT_PROMPT_S:
        found.append(f"short: {duration_s:.1f} s; {SHORT_PROMPT_S:.0f} to 10 s give a closer likeness")
    if not transcript or speech_s == 0:
        return found
    counted = f"{len(transcript)} characters for {speech_s:.1f} s of speech"
    if len(transcript) < SLOWEST_CHARS_PER_S * speech_s:
        found.append(f"the transcript is very short, {counted}; it should hold every word that is said")
    elif len(transcript) > FASTEST_CHARS_PER_S * speech_s:
        found.append(f"the transcript is very long, {counted}; it should hold only what is said")
    return found


def _window_powers(samples: NDArray[np.float32], window_samples: int) -> NDArray[np.float64]:
    """samples (n,) -> (ceil(n / window_samples),) variances; the last window may be shorter."""
    starts = np.arange(0, len(samples), window_samples)
    counts = np.diff(starts, append=len(samples))
    wide = samples.astype(np.float64)
    means = np.add.reduceat(wide, starts) / counts
    powers: NDArray[np.float64] = np.add.reduceat((wide - means.repeat(counts)) ** 2, starts) / counts
    return powers
