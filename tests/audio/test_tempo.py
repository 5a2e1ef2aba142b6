"""Tempo: exact length, same pitch, nothing lost."""

import numpy as np
import pytest

from firstword.app.audio.dsp import Tempo
from tests.support.sounds import Samples, chirp, dominant_hz, tone

SPEEDS = [0.25, 0.4, 0.5, 0.8, 0.999, 1.01, 1.5, 2.0, 2.5, 4.0]


def changed(samples: Samples, speed: float, rate_hz: int, chunk_samples: int = 480) -> Samples:
    tempo = Tempo(speed, rate_hz)
    pieces = [
        tempo.feed(samples[start : start + chunk_samples]) for start in range(0, len(samples), chunk_samples)
    ]
    return np.concatenate([np.empty(0, np.float32), *pieces, tempo.finish()])


@pytest.mark.parametrize(
    ("speed", "rate_hz"),
    [*((speed, 24_000) for speed in SPEEDS), (0.25, 48_000), (0.8, 16_000), (1.5, 22_050), (4.0, 16_000)],
)
def test_duration_changes_and_pitch_does_not(speed: float, rate_hz: int) -> None:
    samples = changed(tone(1.37, rate_hz, frequency_hz=220), speed, rate_hz)

    assert len(samples) == round(round(1.37 * rate_hz) / speed)
    assert dominant_hz(samples, rate_hz) == pytest.approx(220, abs=1.5)
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.4 / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("speed", SPEEDS)
def test_pieces_of_any_size_give_the_same(speed: float) -> None:
    samples = chirp(0.4, 24_000)
    whole = changed(samples, speed, 24_000, len(samples))

    for chunk_samples in (1, 7, 480, 5001):
        np.testing.assert_array_equal(changed(samples, speed, 24_000, chunk_samples), whole)


@pytest.mark.parametrize("speed", SPEEDS)
def test_length_is_exact_for_short_sounds_too(speed: float) -> None:
    samples = chirp(1.0, 24_000)
    for num_samples in (0, 1, 2, 100, 1023, 1025, 3001, 12_345):
        assert len(changed(samples[:num_samples], speed, 24_000)) == round(num_samples / speed), num_samples


@pytest.mark.parametrize("speed", SPEEDS)
def test_everything_stays_in_its_place(speed: float) -> None:
    """Half a second of one tone, then of another: the border is where the speed puts it."""
    rate_hz = 24_000
    samples = np.concatenate([tone(0.5, rate_hz, 220), tone(0.5, rate_hz, 880)])

    out = changed(samples, speed, rate_hz)

    before, after = out[: round(0.43 * rate_hz / speed)], out[round(0.57 * rate_hz / speed) :]
    assert dominant_hz(before, rate_hz) == pytest.approx(220, abs=5)
    assert dominant_hz(after, rate_hz) == pytest.approx(880, abs=5)


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_end_of_the_sound_is_not_lost(speed: float) -> None:
    """A beep over the last 60 ms is still heard at the end."""
    rate_hz = 24_000
    samples = np.concatenate([np.zeros(12_000, np.float32), tone(0.06, rate_hz, 1000)])

    tail = changed(samples, speed, rate_hz)[-round(0.06 * rate_hz / speed) :]

    assert np.sqrt(np.mean(tail**2)) > 0.5 * 0.4 / np.sqrt(2)


def test_a_speed_of_numpy_is_one() -> None:
    speed = np.linspace(0.5, 1.5, 3)[2]
    np.testing.assert_array_equal(
        changed(chirp(0.1, 24_000), speed, 24_000), changed(chirp(0.1, 24_000), 1.5, 24_000)
    )


@pytest.mark.parametrize("speed", [0.24, 4.1, 0.0, -1.0, float("nan")])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=f"speed {speed} is out of range; choose one from 0.25 to 4.0"):
        Tempo(speed, 24_000)
