"""The acoustic features equal those of the published implementation."""

from dataclasses import replace

import pytest
from torch import Tensor

from firstword.models.config import MelConfig
from firstword.models.frontend.features import MelExtractor, WhisperMelExtractor, kaldi_fbank
from tests.parity.reference import FBANK_TOLERANCE, NETWORK_TOLERANCE, assert_close, load_case

MEL_24K = MelConfig(sample_rate_hz=24_000, n_fft=1920, hop_samples=480, win_samples=1920)
MEL_22K = MelConfig(sample_rate_hz=22_050, n_fft=1024, hop_samples=256, win_samples=1024)
DURATION_S = 2  # the one stored signal is read at each rate, not resampled


def features_of_reference() -> dict[str, Tensor]:
    return load_case("acoustic_features").io


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("prompt_mel_24k", replace(MEL_24K, fmax_hz=None)),
        ("prompt_mel_24k_fmax8000", MEL_24K),
        ("prompt_mel_22k", MEL_22K),
    ],
)
def test_prompt_mel_matches_the_reference(name: str, config: MelConfig) -> None:
    expected = features_of_reference()
    samples = expected["signal"][: DURATION_S * config.sample_rate_hz]

    mel = MelExtractor(config)(samples[None])

    assert_close(mel, expected[name], NETWORK_TOLERANCE)


def test_whisper_log_mel_matches_the_reference() -> None:
    expected = features_of_reference()

    log_mel = WhisperMelExtractor()(expected["signal"][: DURATION_S * 16_000])

    assert_close(log_mel[None], expected["whisper_log_mel_128"], NETWORK_TOLERANCE)


def test_kaldi_fbank_matches_the_reference() -> None:
    expected = features_of_reference()

    fbank = kaldi_fbank(expected["signal"][: DURATION_S * 16_000])

    assert_close(fbank, expected["kaldi_fbank_80"], FBANK_TOLERANCE)
