"""The equalizer of a registered speaker: what it is fitted to, and that a stream may come in pieces."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from firstword.models.config import MelConfig
from firstword.models.frontend.equalizer import NUM_TAPS, Equalizer, fit_equalizer
from firstword.models.frontend.features import MelExtractor

MEL = MelConfig(24_000, 1920, 480, 1920)
EXTRACT = MelExtractor(MEL)


def noise(seed: int = 0) -> Tensor:
    return torch.randn(72_000, generator=torch.Generator().manual_seed(seed)) * 0.1


def response_db(taps: Tensor, hz: float) -> float:
    turn = torch.exp(-2j * math.pi * hz / MEL.sample_rate_hz * torch.arange(len(taps)))
    return 20 * math.log10(abs(complex((taps * turn).sum())))


def duller(samples: Tensor) -> Tensor:
    """-6 dB at the highest frequency, none at the lowest."""
    return 0.75 * samples + 0.25 * torch.cat([samples[:1], samples[:-1]])


def tilt(mel: Tensor) -> float:
    """How much less of the highest bands there is than of the lowest, natural logarithm."""
    return float(mel[:20].mean() - mel[-5:].mean())


def test_what_is_spoken_gets_the_average_spectrum_of_the_recording() -> None:
    recorded, spoken = EXTRACT(noise(1)), duller(noise(2))
    taps = fit_equalizer(recorded, [EXTRACT(spoken), EXTRACT(duller(noise(3)))], MEL)
    assert taps.shape == (NUM_TAPS,)
    heard = EXTRACT(Equalizer.start(taps)(spoken))
    assert tilt(heard) == pytest.approx(tilt(recorded), abs=0.03)
    assert tilt(EXTRACT(spoken)) > tilt(recorded) + 0.25


def test_how_loud_it_is_stays_as_it_is() -> None:
    spoken = duller(noise(2))
    for level in (0.3, 1.0, 3.0):
        taps = fit_equalizer(EXTRACT(level * noise(1)), [EXTRACT(spoken)], MEL)
        heard = Equalizer.start(taps)(spoken)
        assert float(heard.std()) == pytest.approx(float(spoken.std()), rel=0.1)


def test_what_is_alike_stays_as_it_is() -> None:
    mel = EXTRACT(noise())
    taps = fit_equalizer(mel, [mel], MEL)
    samples = noise(4)
    torch.testing.assert_close(Equalizer.start(taps)(samples), samples, atol=1e-5, rtol=0)


@pytest.mark.parametrize("difference", [9.0, -9.0])
def test_no_band_is_changed_by_more_than_15_db(difference: float) -> None:
    mel = EXTRACT(noise())
    halves = mel.clone()
    halves[:40] += difference
    taps = fit_equalizer(halves, [mel], MEL)
    changed = response_db(taps, 500) - response_db(taps, 6000)
    assert changed == pytest.approx(math.copysign(15, difference), abs=0.5)


def test_the_harmonics_of_a_pitch_are_not_copied() -> None:
    mel = EXTRACT(noise())
    comb = mel.clone()
    comb[::2] += 1.0
    taps = fit_equalizer(comb, [mel], MEL)
    levels = [response_db(taps, hz) for hz in range(200, 900, 10)]
    assert max(levels) - min(levels) < 1.0  # of 8.7 dB


def test_quiet_frames_do_not_count() -> None:
    mel = EXTRACT(noise())
    pauses = mel.clone()
    pauses[:, :30] = math.log(1e-5)
    torch.testing.assert_close(
        fit_equalizer(pauses, [mel], MEL), fit_equalizer(mel, [mel], MEL), atol=0.05, rtol=0
    )


def test_pieces_together_are_the_whole() -> None:
    mel = EXTRACT(noise())
    taps = fit_equalizer(mel + torch.linspace(-1, 1, 80)[:, None], [mel], MEL)
    samples = noise(5)[:30_000]
    stream = Equalizer.start(taps)
    places = (0, 0, 1, 400, 911, 12_000, 12_000, 30_000)
    pieces = torch.cat([stream(samples[start:end]) for start, end in pairwise(places)])
    torch.testing.assert_close(pieces, Equalizer.start(taps)(samples), atol=1e-6, rtol=0)
    expected = torch.nn.functional.conv1d(
        torch.nn.functional.pad(samples, (NUM_TAPS - 1, 0))[None, None], taps.flip(0)[None, None]
    )[0, 0]
    torch.testing.assert_close(pieces, expected, atol=1e-5, rtol=0)
