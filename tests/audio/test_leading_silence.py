"""Silence before the first sound is cut, once, and nothing else is."""

import numpy as np
import pytest

from firstword.app.audio.dsp import LeadingSilence, Samples

RATE_HZ = 24_000


def tone(seconds: float, level: float = 0.1) -> Samples:
    return (level * np.sin(np.arange(round(seconds * RATE_HZ)) * 0.05)).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.full(round(seconds * RATE_HZ), 1e-4, np.float32)


def trimmed(samples: Samples, piece_s: float) -> Samples:
    trim, size = LeadingSilence(RATE_HZ), round(piece_s * RATE_HZ)
    starts = range(0, len(samples), size)
    return np.concatenate([trim.trim(samples[i : i + size], i + size >= len(samples)) for i in starts])


@pytest.mark.parametrize("piece_s", [0.005, 0.1, 0.4, 5.0])
def test_30_ms_are_kept_before_the_sound(piece_s: float) -> None:
    heard = trimmed(np.concatenate([silence(0.15), tone(1), silence(0.5), tone(0.2)]), piece_s)
    assert len(heard) / RATE_HZ == pytest.approx(1.7 + 0.03, abs=0.02)
    np.testing.assert_array_equal(heard[-len(tone(0.2)) :], tone(0.2))


def test_sound_at_once_loses_nothing() -> None:
    np.testing.assert_array_equal(trimmed(tone(0.3), 0.1), tone(0.3))


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.3, 3.0])
def test_nothing_but_silence_is_given_whole(seconds: float) -> None:
    np.testing.assert_array_equal(
        trimmed(np.append(silence(seconds), silence(0.001)), 0.1).size, silence(seconds).size + 24
    )


def test_a_long_silence_is_meant() -> None:
    samples = np.concatenate([silence(1.0), tone(0.2)])
    np.testing.assert_array_equal(trimmed(samples, 0.4), samples)
    np.testing.assert_array_equal(trimmed(samples, 5.0), samples)


@pytest.mark.parametrize("seconds", [0.57, 0.58, 0.59, 0.6, 0.61, 0.62])
def test_pieces_of_any_size_give_the_same_at_the_longest_silence(seconds: float) -> None:
    samples = np.concatenate([silence(seconds), tone(1)])
    for piece_s in (0.005, 0.3, 0.6):
        np.testing.assert_array_equal(trimmed(samples, piece_s), trimmed(samples, 5.0))
