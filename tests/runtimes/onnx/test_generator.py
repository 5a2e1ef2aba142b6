"""HiFT's generator as a graph: the torch network's samples."""

from copy import deepcopy
from dataclasses import replace

import torch

from firstword.models.hift.streaming import MelChunk, Vocoder, WindowedVocoder, WindowState
from firstword.models.layers import FullContext
from firstword.models.runtimes.onnx.build import onnx_generator
from firstword.models.runtimes.onnx.hift import OnnxGenerator, is_wide
from tests.models.networks import small_hift, small_hift_config

TOLERANCE = 2e-5


def streamed(vocoder: Vocoder[WindowState], mels: list[torch.Tensor]) -> torch.Tensor:
    """(B, N): each of the mels (M, T) as a stream in pieces, all of them together."""
    states = [vocoder.start(seed) for seed in range(len(mels))]
    made: list[list[torch.Tensor]] = [[] for _ in mels]
    with torch.inference_mode():
        for start, stop in ((0, 7), (7, 57), (57, 90)):
            chunks = [
                MelChunk(s, mel[:, start:stop], stop == 90) for s, mel in zip(states, mels, strict=True)
            ]
            for index, (samples, state) in enumerate(vocoder.step(chunks)):
                made[index].append(samples)
                states[index] = state
    return torch.stack([torch.cat(parts) for parts in made])


def test_equals_torch() -> None:
    hift = deepcopy(small_hift(is_causal=False))
    mels = [torch.randn(80, 90, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    expected = streamed(WindowedVocoder(small_hift(is_causal=False)), mels)
    found = streamed(WindowedVocoder(hift, onnx_generator(hift, has_int8=False, num_threads=1)), mels)
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert all(parameter.is_meta for parameter in hift.generator.parameters())


def test_8_bits_are_near_torch_and_no_stream_hears_of_others() -> None:
    generator = small_hift(is_causal=False).generator
    mel = (
        torch.randn(2, 80, 30, generator=torch.Generator().manual_seed(0))
        * torch.tensor([1.0, 9.0])[:, None, None]
    )
    source = torch.randn(2, 18, 30 * 120 + 1, generator=torch.Generator().manual_seed(1))
    int8 = OnnxGenerator(generator, has_int8=True, num_threads=1)
    with torch.inference_mode():
        expected = generator(mel, source, FullContext())
        found = int8(mel, source)
        assert torch.equal(int8(mel[:1], source[:1]), found[:1])
    assert 1e-4 < (found - expected).norm() / expected.norm() < 0.02


def test_8_bits_are_for_wide_generators() -> None:
    narrow = small_hift_config(is_causal=False)
    assert not is_wide(narrow)
    assert is_wide(replace(narrow, base_channels=512))


def test_there_is_none_for_cosyvoice3() -> None:
    assert onnx_generator(small_hift(is_causal=True), has_int8=True, num_threads=1) is None
