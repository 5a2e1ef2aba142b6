"""Measure how good a recording is for a speaker, and say what its owner should know."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from firstword.app.speakers.interface import Quality

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
FASTEST_UNCHECKED_CHARS_PER_S = 28.0  # where the language model cannot tell
MIN_TRANSCRIPT_FIT = 1.0  # nats a token; docs/LOG.md has the measurement
SHORT_PROMPT_S = 3.0


def measure_quality(samples: NDArray[np.float32], sample_rate_hz: int) -> Quality:
    """samples (n,), n > 0, finite, within ±1, of the recording as it was uploaded: the silence at its ends
    shows the noise best. No warnings yet: they depend on the transcript too.
    """
    from firstword.models.frontend.features import frame_powers  # torch, which who only lists does without

    powers = frame_powers(samples, sample_rate_hz * WINDOW_MS // 1000)
    return _quality_of(powers, float(np.mean(np.abs(samples) >= FULL_SCALE)))


def estimate_quality(mel: NDArray[np.float32]) -> Quality | None:
    """mel (n, bins), log magnitudes of frames of 20 ms, of a prompt whose recording is not there; None for
    none. Of the built-in voice 1 to 6 dB below what its sound from the vocoder gives."""
    return _quality_of(np.exp(2 * mel.astype(np.float64)).sum(axis=1), None) if len(mel) else None


def _quality_of(powers: NDArray[np.float64], clipping: float | None) -> Quality:
    """powers (n,), of windows of 20 ms."""
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
    """Return it with what its owner should know; an empty transcript makes no warning."""
    speech_s = quality.speech_ratio * duration_s
    warnings = []
    if quality.snr_db < NOISY_DB:
        warnings.append(
            f"too noisy: speech is {quality.snr_db:.0f} dB above the noise, {NOISY_DB:.0f} dB or more are "
            "wanted; record in a quiet room, near the microphone"
        )
    if quality.clipping is not None and quality.clipping > CLIPPED_SHARE:
        warnings.append(f"clipped: {quality.clipping:.1%} of the samples are at full scale; record it softer")
    if quality.speech_ratio < LITTLE_SPEECH_SHARE:
        warnings.append(
            f"mostly silence: {quality.speech_ratio:.0%} of the recording is speech; cut the pauses"
        )
    if duration_s < SHORT_PROMPT_S:
        warnings.append(f"short: {duration_s:.1f} s; {SHORT_PROMPT_S:.0f} to 10 s give a closer likeness")
    if transcript and speech_s > 0:
        counted = f"{len(transcript)} characters for {speech_s:.1f} s of speech"
        if len(transcript) < SLOWEST_CHARS_PER_S * speech_s:
            warnings.append(
                f"the transcript is very short, {counted}; it should hold every word that is said"
            )
        elif quality.transcript_fit is not None and quality.transcript_fit < MIN_TRANSCRIPT_FIT:
            warnings.append(
                "part of the transcript does not seem to be in the recording; it should hold exactly what is "
                "said"
            )
        elif len(transcript) > speech_s * (
            FASTEST_UNCHECKED_CHARS_PER_S if quality.transcript_fit is None else FASTEST_CHARS_PER_S
        ):
            warnings.append(f"the transcript is very long, {counted}; it should hold only what is said")
    return replace(quality, warnings=tuple(warnings))
