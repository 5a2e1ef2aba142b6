import pytest
import torch

from firstword.models.config import MelConfig
from firstword.models.frontend.features import MelExtractor, WhisperMelExtractor, slaney_filterbank

MEL_24K = MelConfig(sample_rate_hz=24_000, n_fft=1920, hop_samples=480, win_samples=1920)
MEL_22K = MelConfig(sample_rate_hz=22_050, n_fft=1024, hop_samples=256, win_samples=1024)


def noise(*shape: int) -> torch.Tensor:
    return 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("num_samples", [721, 24_000, 24_479, 24_480, 30_001])
def test_prompt_mel_has_one_frame_for_each_whole_hop(num_samples: int) -> None:
    assert MelExtractor(MEL_24K)(noise(num_samples)).shape == (80, num_samples // 480)


def test_extractors_that_share_fmax_keep_their_own_filters() -> None:
    alone = MelExtractor(MEL_22K)(noise(22_050))
    MelExtractor(MEL_24K)(noise(24_000))

    torch.testing.assert_close(MelExtractor(MEL_22K)(noise(22_050)), alone)


def test_a_batch_of_prompt_mels_equals_each_alone() -> None:
    extractor, batch = MelExtractor(MEL_24K), noise(3, 12_000)

    together = extractor(batch)

    torch.testing.assert_close(together, torch.stack([extractor(row) for row in batch]))


def test_prompt_mel_of_silence_is_the_floor() -> None:
    mel = MelExtractor(MEL_24K)(torch.zeros(4800))

    assert mel.isfinite().all()
    assert mel.max() < -6


@pytest.mark.parametrize("num_samples", [201, 15_999, 16_000, 16_161])
def test_whisper_mel_has_100_frames_a_second(num_samples: int) -> None:
    assert WhisperMelExtractor()(noise(num_samples)).shape == (128, num_samples // 160)


def test_whisper_mel_spans_two_units_at_most() -> None:
    samples = noise(16_000)
    samples[8000:] = 0

    log_mel = WhisperMelExtractor()(samples)

    assert float(log_mel.max() - log_mel.min()) == pytest.approx(2.0)


def test_each_filter_has_unit_area() -> None:
    filters = slaney_filterbank(16_000, 8192, 80, 0.0, 8000.0)

    areas_hz = filters.sum(dim=1) * (16_000 / 8192)
    torch.testing.assert_close(areas_hz, torch.ones(80), atol=2e-3, rtol=0)


def test_filters_end_at_fmax() -> None:
    filters = slaney_filterbank(24_000, 1920, 80, 0.0, 8000.0)

    first_bin_above = 8000 * 1920 // 24_000
    assert (filters[:, first_bin_above:] == 0).all()
    assert (filters[:, 1:first_bin_above].sum(dim=0) > 0).all()
