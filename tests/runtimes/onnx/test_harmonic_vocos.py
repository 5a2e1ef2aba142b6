"""The networks of Harmonic Vocos as graphs: the torch networks' samples."""

from copy import deepcopy

import torch
from torch import Tensor

from firstword.models.harmonic_vocos.streaming import HarmonicVocoder
from firstword.models.hift.streaming import Sound, vocode
from firstword.models.runtimes.onnx.harmonic_vocos import OnnxHarmonicNetworks
from tests.models.networks import small_vocos
from tests.models.test_hift_streaming import random_mel

TOLERANCE = 1e-3  # as where a stream is cut otherwise


def vocoder(has_int8: bool) -> HarmonicVocoder:
    vocos = deepcopy(small_vocos())
    return HarmonicVocoder(vocos, OnnxHarmonicNetworks(vocos, has_int8, num_threads=1))


@torch.inference_mode()
def streamed(tool: HarmonicVocoder, mels: list[Tensor], cuts: list[int]) -> Tensor:
    """(B, N): each of the mels (M, T) as a stream in pieces, all of them together."""
    sounds = [Sound(tool.start(seed)) for seed in range(len(mels))]
    pieces = [mel.split(cuts, dim=1) for mel in mels]
    for index in range(len(cuts)):
        for sound, parts in zip(sounds, pieces, strict=True):
            sound.pending.append((parts[index], index == len(cuts) - 1))
        vocode(tool, sounds)
    return torch.stack([sound.take() for sound in sounds])


def test_equals_torch() -> None:
    mels = [random_mel(90, seed) for seed in range(2)]
    expected = streamed(HarmonicVocoder(small_vocos()), mels, [90])
    assert expected.std() > 0.02
    for cuts in ([90], [20, 50, 20], [2] * 45):
        found = streamed(vocoder(has_int8=False), mels, cuts)
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


def test_8_bits_are_near_torch_and_no_stream_hears_of_others() -> None:
    mels = [random_mel(60, 0), 3 * random_mel(60, 1)]
    expected = streamed(HarmonicVocoder(small_vocos()), mels, [20, 40])
    tool = vocoder(has_int8=True)
    together = streamed(tool, mels, [20, 40])
    assert float((together - expected).norm() / expected.norm()) < 0.05
    alone = streamed(tool, mels[:1], [20, 40])
    error = (together - expected)[0].abs().mean()  # some machines sum a batch's rows in another order
    assert (together[0] - alone[0]).abs().mean() < 0.03 * error


@torch.inference_mode()
def test_the_filters_give_their_weights_up_and_enrolment_hears_the_pitch() -> None:
    vocos, mel = deepcopy(small_vocos()), random_mel(40, 0)[None]
    expected = vocos.predict_f0(mel)
    OnnxHarmonicNetworks(vocos, has_int8=False, num_threads=1)
    assert all(parameter.is_meta for parameter in vocos.filters_net.parameters())
    torch.testing.assert_close(vocos.predict_f0(mel), expected)
