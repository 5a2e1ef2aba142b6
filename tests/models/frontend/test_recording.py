import numpy as np
import numpy.typing as npt
import pytest

from firstword.models.frontend.features import Recording, RecordingError

RATE_HZ = 16_000


def tone(duration_s: float, rate_hz: int = RATE_HZ, level: float = 0.3) -> npt.NDArray[np.float32]:
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    return (level * np.sin(2 * np.pi * 220 * times_s)).astype(np.float32)


def silence(duration_s: float) -> npt.NDArray[np.float32]:
    return np.zeros(round(duration_s * RATE_HZ), np.float32)


def trimmed_s(*parts: npt.NDArray[np.float32]) -> float:
    return Recording.from_channels(np.concatenate(parts), RATE_HZ).trimmed().duration_s


def test_channels_are_averaged() -> None:
    left = tone(0.1)

    recording = Recording.from_channels(np.stack([left, np.zeros_like(left)]), RATE_HZ)

    np.testing.assert_allclose(recording.samples, left / 2)


def test_silence_at_both_ends_is_cut_to_the_margin() -> None:
    assert trimmed_s(silence(1.0), tone(1.5), silence(2.0)) == pytest.approx(1.5 + 2 * 0.1, abs=0.02)


def test_a_pause_in_the_middle_stays() -> None:
    assert trimmed_s(tone(0.5), silence(1.0), tone(0.5)) == pytest.approx(2.0)


def test_speech_to_the_ends_is_left_whole() -> None:
    assert trimmed_s(tone(1.2345)) == pytest.approx(1.2345, abs=1 / RATE_HZ)


def test_quiet_speech_beside_a_loud_word_stays() -> None:
    quiet = tone(0.5, level=0.3 * 10 ** (-35 / 20))

    assert trimmed_s(quiet, tone(0.5), quiet) == pytest.approx(1.5)


def test_background_noise_below_the_range_is_cut() -> None:
    noise = np.random.default_rng(1).normal(0, 0.0005, 2 * RATE_HZ).astype(np.float32)

    assert trimmed_s(noise, tone(1.0), noise) == pytest.approx(1.2, abs=0.02)


def test_a_constant_offset_is_not_sound() -> None:
    offset = np.float32(0.2)

    assert trimmed_s(silence(1.0) + offset, tone(1.0) + offset) == pytest.approx(1.1, abs=0.02)


@pytest.mark.parametrize("level", [0.0, 0.0005])
def test_a_silent_recording_is_refused(level: float) -> None:
    with pytest.raises(RecordingError, match="silent"):
        Recording.from_channels(tone(2.0, level=level), RATE_HZ).trimmed()


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 100)])
def test_an_empty_recording_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RecordingError, match="empty"):
        Recording.from_channels(np.zeros(shape, np.float32), RATE_HZ)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_numbers_are_refused(value: float) -> None:
    samples = tone(1.0)
    samples[77] = value

    with pytest.raises(RecordingError, match="not numbers"):
        Recording.from_channels(samples, RATE_HZ)


def test_a_telephone_rate_is_refused() -> None:
    with pytest.raises(RecordingError, match="8000 Hz"):
        Recording.from_channels(tone(1.0), 8000)


def test_resampling_keeps_time_and_pitch() -> None:
    recording = Recording.from_channels(tone(1.0, rate_hz=44_100), 44_100)

    samples = recording.resampled(RATE_HZ).numpy()

    assert len(samples) == RATE_HZ
    np.testing.assert_allclose(samples[1000:-1000], tone(1.0)[1000:-1000], atol=1e-3)


def test_what_comes_out_is_not_the_callers_memory() -> None:
    samples = tone(0.1)

    Recording.from_channels(samples, RATE_HZ).resampled(RATE_HZ).zero_()

    assert samples.any()
