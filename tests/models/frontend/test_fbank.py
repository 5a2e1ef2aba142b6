import pytest
import torch

from firstword.models.frontend.features import kaldi_fbank, without_mean


@pytest.mark.parametrize(("num_samples", "num_frames"), [(400, 1), (559, 1), (560, 2), (16_000, 98)])
def test_fbank_snips_the_edges(num_samples: int, num_frames: int) -> None:
    assert kaldi_fbank(torch.rand(num_samples) - 0.5).shape == (num_frames, 80)


def test_fbank_is_the_same_every_time() -> None:
    samples = torch.rand(4000) - 0.5

    assert kaldi_fbank(samples).equal(kaldi_fbank(samples))


def test_fbank_of_digital_silence_is_finite() -> None:
    assert kaldi_fbank(torch.zeros(4000)).isfinite().all()


def test_each_channel_loses_its_mean_over_time() -> None:
    features = without_mean(torch.rand(50, 80) + torch.arange(80))

    torch.testing.assert_close(features.mean(dim=0), torch.zeros(80), atol=1e-4, rtol=0)
