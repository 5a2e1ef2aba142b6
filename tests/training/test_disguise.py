"""Mels that sound as if somebody else had spoken."""

import numpy as np
import pytest

from training.disguise import disguised


def voices(mel: np.ndarray, number: int = 40) -> list[np.ndarray]:
    return [disguised(mel, np.random.default_rng(seed)) for seed in range(number)]


def test_all_frames_are_changed_alike() -> None:
    frame = np.random.default_rng(1).normal(-4, 1, 80).astype(np.float32)
    for one in voices(np.tile(frame, (5, 1))):
        assert one.shape == (5, 80)
        assert one.dtype == np.float32
        assert np.allclose(one, one[0])
        assert not np.allclose(one[0], frame, atol=0.1)


def test_a_formant_moves_up_in_some_voices_and_down_in_others() -> None:
    mel = np.full((1, 80), -9.0, np.float32)
    mel[0, 40] = 40.0  # higher than any band is lifted
    peaks = {int(one[0].argmax()) for one in voices(mel)}
    assert min(peaks) < 40 < max(peaks)
    assert all(34 <= peak <= 46 for peak in peaks)  # a quarter of 2 kHz, either way


def test_some_voices_are_brighter_and_some_darker() -> None:
    flat = np.full((1, 80), -4.0, np.float32)
    tilts = [float(one[0, 60:].mean() - one[0, :20].mean()) for one in voices(flat)]
    assert min(tilts) < -0.5 < 0.5 < max(tilts)


def test_silence_stays_above_the_floor_of_a_mel() -> None:
    floor = np.log(1e-5)
    for one in voices(np.full((2, 80), floor, np.float32)):
        assert one.min() == pytest.approx(floor, abs=1e-4)
