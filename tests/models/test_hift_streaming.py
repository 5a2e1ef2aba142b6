"""The vocoders piece by piece."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.hift.hift import Generate
from firstword.models.hift.streaming import (
    FADE_FRAMES,
    CausalVocoder,
    Sound,
    Vocoder,
    WindowedVocoder,
    vocode,
)
from tests.models.networks import small_hift

FRAME = 480  # samples
CUTS = [[90], [20, 50, 20], [50, 40], [2, 2, 2, 2, 2, 80], [1, 3, 4, 5, 77], [13, 1, 76]]


def random_mel(num_frames: int, seed: int = 0) -> Tensor:
    """(M, T), changing slowly, as speech does."""
    coarse = torch.randn(1, 80, num_frames // 5 + 2, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(coarse, num_frames, mode="linear")[0]


def speak(vocoder: Vocoder[Any], mel: Tensor, cuts: list[int], seed: int = 0) -> list[Tensor]:
    sound, pieces, samples = Sound(vocoder.start(seed)), mel.split(cuts, dim=1), []
    for index, piece in enumerate(pieces):
        sound.pending.append((piece, index == len(pieces) - 1))
        vocode(vocoder, [sound])
        samples.append(sound.take())
    return samples


@pytest.mark.parametrize("cuts", [*CUTS, [50, 40, 0]])
@torch.inference_mode()
def test_causal_pieces_equal_the_whole(cuts: list[int]) -> None:
    vocoder, mel = CausalVocoder(small_hift(is_causal=True)), random_mel(90)
    (whole,) = speak(vocoder, mel, [90])
    pieces = speak(vocoder, mel, cuts)
    assert len(whole) == 90 * FRAME
    assert torch.cat(pieces).shape == whole.shape
    assert float((torch.cat(pieces) - whole).abs().max()) <= 1e-6


@torch.inference_mode()
def test_causal_vocoder_withholds_only_its_lookahead() -> None:
    vocoder = CausalVocoder(small_hift(is_causal=True))
    sizes = [len(x) for x in speak(vocoder, random_mel(90), [20, 50, 20])]
    assert sizes == [16 * FRAME - 4, 50 * FRAME, 24 * FRAME + 4]


@torch.inference_mode()
def test_causal_phase_is_right_after_a_minute() -> None:
    hift = small_hift(is_causal=True)
    vocoder, mel = CausalVocoder(hift), random_mel(3000)
    (whole,) = speak(vocoder, mel, [3000])
    pieces = torch.cat(speak(vocoder, mel, [20] + [50] * 59 + [30]))
    assert float((pieces - whole).abs().max()) <= 1e-5


@pytest.mark.parametrize("cuts", CUTS)
@torch.inference_mode()
def test_windowed_pieces_give_exactly_their_samples(cuts: list[int]) -> None:
    vocoder = WindowedVocoder(small_hift(is_causal=False))
    assert [len(x) for x in speak(vocoder, random_mel(90), cuts)] == [FRAME * cut for cut in cuts]


@torch.inference_mode()
def test_joins_are_level() -> None:
    """A held sound is as loud at its joins as between them; the published fade is 8 % louder there."""
    vocoder, mel = WindowedVocoder(small_hift(is_causal=False)), random_mel(1).expand(-1, 300)
    samples = torch.cat(speak(vocoder, mel, [50] * 6))
    length = FADE_FRAMES * FRAME
    joins = [50 * FRAME * i for i in range(1, 6)]
    at_joins = torch.cat([samples[join : join + length] for join in joins])
    between = torch.cat([samples[join - 25 * FRAME : join - 5 * FRAME] for join in joins])
    level = float(at_joins.square().mean().sqrt() / between.square().mean().sqrt())
    assert level == pytest.approx(1.0, abs=0.03)


@torch.inference_mode()
def test_joins_do_not_click() -> None:
    vocoder, mel = WindowedVocoder(small_hift(is_causal=False)), random_mel(600)
    samples = torch.cat(speak(vocoder, mel, [20, *[50] * 11, 30]))
    jumps = samples.diff().abs()
    joins = [FRAME * (20 + 50 * i) for i in range(12)]
    at_joins = torch.stack([jumps[join - 2 : join + 2].max() for join in joins])
    assert float(at_joins.max()) <= float(jumps.quantile(0.999))


@torch.inference_mode()
def test_one_draw_a_sample_is_distributed_as_the_sum_of_a_draw_for_each_tone() -> None:
    source = small_hift(is_causal=False).source
    generator = torch.Generator().manual_seed(0)
    of_all = source.sum_noise(torch.randn(100_000, source.num_tones, generator=generator))
    at_once = source.drawn_noise(torch.randn(100_000, generator=generator))
    assert of_all.std() > 0.01
    torch.testing.assert_close(at_once.std(), of_all.std(), rtol=0.02, atol=0)


@torch.inference_mode()
def test_windowed_phase_and_noise_do_not_depend_on_the_cuts() -> None:
    """Far from its joins, an utterance sounds the same however it was cut."""
    hift = small_hift(is_causal=False)
    vocoder, mel = WindowedVocoder(hift), random_mel(1).expand(-1, 120)
    one, other = (torch.cat(speak(vocoder, mel, cuts, seed=7)) for cuts in ([60, 60], [20, 100]))
    middle = slice(80 * FRAME, 110 * FRAME)
    assert float((one[middle] - other[middle]).abs().max()) < 1e-3 * float(one.abs().max())
    (third,) = speak(vocoder, mel, [120], seed=8)
    assert float((one[middle] - third[middle]).abs().max()) > 1e-3 * float(one.abs().max())


@pytest.mark.parametrize("is_causal", [False, True])
@torch.inference_mode()
def test_rows_at_different_places_do_not_know_each_other(is_causal: bool) -> None:
    hift = small_hift(is_causal)
    vocoder: Vocoder[Any] = CausalVocoder(hift) if is_causal else WindowedVocoder(hift)
    mels = [random_mel(90, seed) for seed in range(3)]
    cuts = [[20, 50, 20], [50, 20, 20], [20, 50, 20]]
    alone = [
        torch.cat(speak(vocoder, mel, cut, seed))
        for seed, (mel, cut) in enumerate(zip(mels, cuts, strict=True))
    ]
    sounds = [Sound(vocoder.start(seed)) for seed in range(3)]
    for sound, mel, cut in zip(sounds, mels, cuts, strict=True):
        sound.pending += [(piece, index == 2) for index, piece in enumerate(mel.split(cut, dim=1))]
    vocode(vocoder, sounds)
    for sound, expected in zip(sounds, alone, strict=True):
        assert float((sound.take() - expected).abs().max()) <= 1e-5


@torch.inference_mode()
def test_streams_that_were_done_before_an_error_are_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vocoder = WindowedVocoder(small_hift(is_causal=False))
    mels, cuts = [random_mel(60, seed) for seed in range(2)], [[30, 30], [20, 40]]
    expected = [torch.cat(speak(vocoder, mel, cut)) for mel, cut in zip(mels, cuts, strict=True)]
    sounds = [Sound(vocoder.start(0)) for _ in mels]
    for sound, mel, cut in zip(sounds, mels, cuts, strict=True):
        sound.pending += [(piece, index == 1) for index, piece in enumerate(mel.split(cut, dim=1))]
    decode, calls = vocoder.hift.decode, iter(range(100))

    def fail_once(mel: Tensor, source: Tensor, generate: Generate | None) -> Tensor:
        if next(calls) == 3:
            raise MemoryError("no memory")
        return decode(mel, source, generate)

    monkeypatch.setattr(vocoder.hift, "decode", fail_once)
    with pytest.raises(MemoryError):
        vocode(vocoder, sounds)
    vocode(vocoder, sounds)
    for sound, samples in zip(sounds, expected, strict=True):
        assert torch.equal(sound.take(), samples)


def test_half_precision_leaves_f0_and_source_whole() -> None:
    hift = deepcopy(small_hift(is_causal=True))
    weight = hift.f0.classifier.weight.clone()
    hift.to(torch.bfloat16)
    assert hift.generator.conv_pre.weight.dtype == torch.bfloat16
    assert torch.equal(hift.f0.classifier.weight, weight)
    assert hift.f0.classifier.weight.dtype == torch.float64
    assert hift.source.linear.weight.dtype == torch.float32
