from dataclasses import replace

import numpy as np
import pytest

from firstword.app.speakers.interface import Quality
from firstword.app.speakers.quality import MAX_SNR_DB, measure_quality, with_warnings
from tests.speakers.recordings import RATE_HZ, voice

GOOD = Quality(snr_db=40.0, clipping=0.0, speech_ratio=0.6)


def test_a_clean_recording_has_nothing_to_complain_of() -> None:
    quality = measure_quality(voice(5.0), RATE_HZ)

    assert quality.snr_db > 40
    assert quality.clipping == 0
    assert 0.4 < quality.speech_ratio < 0.9
    assert with_warnings(quality, 5.0, "Some twenty words that take five seconds to say.").warnings == ()


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03, 0.1])
def test_the_ratio_of_speech_to_noise_is_measured(noise: float) -> None:
    clean = voice(6.0)
    is_speech = np.abs(clean) > 0.01
    expected_db = 20 * np.log10(clean[is_speech].std() / noise)

    measured_db = measure_quality(voice(6.0, noise=noise), RATE_HZ).snr_db

    assert measured_db == pytest.approx(expected_db, abs=3)


def test_noise_makes_a_warning() -> None:
    quality = measure_quality(voice(5.0, noise=0.1), RATE_HZ)

    (warning,) = with_warnings(quality, 5.0, "").warnings
    assert warning.startswith("too noisy")


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 48_000])
def test_noise_alone_is_not_speech(rate_hz: int) -> None:
    noise = np.random.default_rng(1).standard_normal(3 * rate_hz).astype(np.float32) * 0.1

    assert measure_quality(noise, rate_hz) == Quality(0.0, 0.0, 0.0)


def test_silence_can_be_measured() -> None:
    assert measure_quality(np.zeros(RATE_HZ, np.float32), RATE_HZ) == Quality(0.0, 0.0, 0.0)
    assert measure_quality(np.zeros(1, np.float32), RATE_HZ) == Quality(0.0, 0.0, 0.0)


def test_digital_silence_does_not_hide_the_noise() -> None:
    noisy = voice(3.0, noise=0.05)
    padded = np.concatenate([np.zeros(RATE_HZ, np.float32), noisy, np.zeros(RATE_HZ, np.float32)])

    plain_db = measure_quality(noisy, RATE_HZ).snr_db
    assert measure_quality(padded, RATE_HZ).snr_db == pytest.approx(plain_db, abs=1)


def test_an_offset_is_not_sound() -> None:
    moved = measure_quality(voice(3.0) + np.float32(0.1), RATE_HZ)

    assert moved.snr_db == pytest.approx(measure_quality(voice(3.0), RATE_HZ).snr_db, abs=0.5)


def test_clipping_is_the_share_of_samples_at_full_scale() -> None:
    samples = voice(2.0)
    samples[:480] = 1.0
    samples[480:960] = -1.0

    quality = measure_quality(samples, RATE_HZ)

    assert quality.clipping == pytest.approx(960 / len(samples))
    (warning,) = with_warnings(quality, 4.0, "").warnings
    assert warning.startswith("clipped: 2.0% of the samples")


def test_a_recording_that_is_mostly_silence_is_told() -> None:
    samples = np.concatenate([voice(1.0), 1e-4 * voice(9.0)])

    quality = measure_quality(samples, RATE_HZ)

    assert quality.speech_ratio < 0.1
    (warning,) = with_warnings(quality, 10.0, "").warnings
    assert warning.startswith("mostly silence")


@pytest.mark.parametrize(
    ("transcript", "duration_s", "start"),
    [
        ("Hi.", 10.0, "the transcript is very short, 3 characters for 6.0 s"),
        ("a" * 500, 10.0, "the transcript is very long, 500 characters"),
        ("", 1.5, "short: 1.5 s"),
    ],
)
def test_lengths_that_do_not_fit_are_told(transcript: str, duration_s: float, start: str) -> None:
    (warning,) = with_warnings(GOOD, duration_s, transcript).warnings

    assert warning.startswith(start)


@pytest.mark.parametrize(
    ("fit", "num_characters", "starts"),
    [
        (None, 160, []),
        (None, 180, ["the transcript is very long"]),  # 30 characters a second of speech
        (3.0, 180, []),
        (3.0, 220, ["the transcript is very long"]),
        (0.9, 160, ["part of the transcript does not seem to be in the recording"]),
        (-4.0, 180, ["part of the transcript does not seem to be in the recording"]),
    ],
)
def test_a_transcript_that_is_not_said_is_told(
    fit: float | None, num_characters: int, starts: list[str]
) -> None:
    quality = with_warnings(replace(GOOD, transcript_fit=fit), 10.0, "a" * num_characters)
    assert [warning.startswith(start) for warning, start in zip(quality.warnings, starts, strict=True)] == [
        True for _ in starts
    ]


@pytest.mark.parametrize("transcript", ["", "你好,今天天气很好,我们去公园走一走吧。", "a" * 100])
def test_no_transcript_and_one_that_fits_are_not_complained_of(transcript: str) -> None:
    assert with_warnings(GOOD, 10.0, transcript) == GOOD


def test_the_ratio_has_a_bound() -> None:
    samples = voice(2.0) * (np.abs(voice(2.0)) > 0.05) + np.float32(4e-5) * np.sign(voice(2.0, seed=3))

    assert 0 < measure_quality(samples.astype(np.float32), RATE_HZ).snr_db <= MAX_SNR_DB
