"""HiFT's generator as a graph: the torch network's samples."""

from copy import deepcopy

import torch

from firstword.models.hift.streaming import MelChunk, Vocoder, WindowedVocoder, WindowState
from firstword.models.onnx.build import onnx_generator
from tests.models.networks import small_hift

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
    found = streamed(WindowedVocoder(hift, onnx_generator(hift, num_threads=1)), mels)
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert all(parameter.is_meta for parameter in hift.generator.parameters())


def test_there_is_none_for_cosyvoice3() -> None:
    assert onnx_generator(small_hift(is_causal=True), num_threads=1) is None
