"""What the flow makes of a speaker is fitted to the speaker's recording."""

import numpy as np
import pytest
import torch
from torch import Tensor

from firstword.models.config import SAMPLE_RATE_HZ, MelConfig
from firstword.models.frontend.features import MelExtractor, mel_centers_hz, slaney_filterbank
from firstword.models.frontend.mel_match import NO_CHANGE, Voiced, apply_mel_map, fit_mel_map

MEL = MelConfig(sample_rate_hz=SAMPLE_RATE_HZ, n_fft=1920, hop_samples=480, win_samples=1920)
NUM_FRAMES = 150


def voice(f0_hz: float, formant_hz: float = 700.0, seed: int = 0) -> Voiced:
    """A buzz of harmonics whose two formants and loudness wander, with a pause in the middle."""
    rng = np.random.default_rng(seed)
    num_samples = NUM_FRAMES * MEL.hop_samples
    times = np.arange(num_samples) / SAMPLE_RATE_HZ
    wander = np.interp(times, np.linspace(0, 3, 12), rng.uniform(0.7, 1.3, 12))
    samples = rng.standard_normal(num_samples) * 1e-3
    for harmonic in range(1, int(7000 / f0_hz)):
        hz = harmonic * f0_hz
        level = sum(np.exp(-(((hz - place * formant_hz * wander) / 300) ** 2)) for place in (1, 2.6)) + 0.02
        samples += 0.1 * level * np.sin(2 * np.pi * hz * times)
    samples *= np.interp(times, np.linspace(0, 3, 10), rng.uniform(0.3, 1.0, 10))
    samples[num_samples // 2 :][: SAMPLE_RATE_HZ // 4] = 0
    mel = MelExtractor(MEL)(torch.from_numpy(samples.astype(np.float32)))
    return Voiced(mel, torch.full((NUM_FRAMES,), f0_hz))


def distance(a: Tensor, b: Tensor) -> float:
    """Mean of loud frames' differences below 2.5 kHz, natural logarithm."""
    loud = b.mean(0) > b.mean(0).quantile(0.3)
    return float((a - b)[:48, loud].abs().mean())


def test_a_voice_that_is_right_already_is_hardly_changed() -> None:
    right = voice(140.0)
    assert distance(apply_mel_map(right.mel, fit_mel_map(right, right, right, MEL)), right.mel) < 0.02


def test_no_change_gives_the_same_numbers_even_below_silence() -> None:
    mel = torch.randn(80, 20) * 3 - 9
    assert torch.equal(apply_mel_map(mel, NO_CHANGE), mel)


@pytest.mark.parametrize("ratio", [0.7, 1.3])
def test_harmonics_go_to_the_pitch_of_the_recording(ratio: float) -> None:
    made, other, wanted = voice(150.0), voice(150.0, seed=1), voice(150.0 * ratio, seed=1)
    mel_map = fit_mel_map(voice(150.0 * ratio), made, other, MEL)
    assert distance(apply_mel_map(other.mel, mel_map), wanted.mel) < 0.6 * distance(other.mel, wanted.mel)


def test_the_envelope_goes_where_the_recording_has_it() -> None:
    made, other, wanted = voice(120.0), voice(120.0, seed=1), voice(120.0, 850.0, seed=1)
    mel_map = fit_mel_map(voice(120.0, 850.0), made, other, MEL)
    assert distance(apply_mel_map(other.mel, mel_map), wanted.mel) < 0.75 * distance(other.mel, wanted.mel)


def test_a_tilt_of_the_recording_is_taken_over() -> None:
    tilt = torch.linspace(1.5, -2.0, 80)[:, None]
    made, other = voice(120.0), voice(120.0, seed=1)
    mel_map = fit_mel_map(Voiced(made.mel + tilt, made.f0_hz), made, other, MEL)
    assert distance(apply_mel_map(other.mel, mel_map), other.mel + tilt) < 0.2


def test_speech_without_a_voice_keeps_its_pitch() -> None:
    made = voice(150.0)
    whispered = Voiced(voice(150.0, 850.0).mel, torch.zeros(NUM_FRAMES))
    as_high = Voiced(whispered.mel, made.f0_hz)
    assert torch.equal(fit_mel_map(whispered, made, made, MEL), fit_mel_map(as_high, made, made, MEL))
    assert torch.equal(fit_mel_map(made, whispered, whispered, MEL), fit_mel_map(made, as_high, as_high, MEL))
    assert np.isnan(whispered.pitch_hz)


@pytest.mark.parametrize("level", [-4.0, float("nan")])
def test_what_is_no_speech_changes_nothing(level: float) -> None:
    speech = voice(120.0)
    still = Voiced(torch.full((80, NUM_FRAMES), level), torch.full((NUM_FRAMES,), 120.0))
    hum = Voiced(MelExtractor(MEL)(0.3 * torch.sin(torch.arange(72_000) * 0.04)), still.f0_hz)
    for recorded, made in ((speech, still), (still, speech), (still, still), (hum, speech), (speech, hum)):
        assert torch.equal(fit_mel_map(recorded, made, made, MEL), NO_CHANGE)


def test_a_bin_lies_where_its_triangle_has_its_top() -> None:
    filters = slaney_filterbank(MEL.sample_rate_hz, MEL.n_fft, MEL.num_mels, MEL.fmin_hz, 8000.0)
    tops_hz = filters.argmax(1) * MEL.sample_rate_hz / MEL.n_fft
    assert float((mel_centers_hz(MEL) - tops_hz).abs().max()) <= MEL.sample_rate_hz / MEL.n_fft
