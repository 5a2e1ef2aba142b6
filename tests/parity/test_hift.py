"""The vocoders against the published implementation."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.config_parser import parse_hift
from firstword.models.checkpoint.names import HIFT
from firstword.models.checkpoint.weights import fold_weight_norm, load_exactly, published_shapes
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import CausalVocoder, Sound, vocode
from tests.parity.networks import hift_fields
from tests.parity.reference import NETWORK_TOLERANCE, WAVEFORM_TOLERANCE, Case, assert_close, load_case

ALL = pytest.mark.parametrize("name", ["hift_v1", "hift_v2", "hift_v3"])
SYMMETRIC = pytest.mark.parametrize("name", ["hift_v1", "hift_v2"])

PUBLISHED_WITHHELD_FRAMES = 8


def load_hift(case: Case) -> HiFT:
    config = parse_hift(hift_fields(case.config), case.config["kind"])
    hift = HiFT(config)
    weights = fold_weight_norm(case.weights, published_shapes(hift, HIFT))
    load_exactly(hift, weights, HIFT, Path(case.name))
    hift = hift.to(torch.float32)
    if "sine_noise" in case.io:
        hift.noise = hift.source.sum_noise(case.io["sine_noise"][0])
    return hift


def assert_same_waveform(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert float((actual - expected).abs().max()) <= WAVEFORM_TOLERANCE


@ALL
@torch.inference_mode()
def test_f0_is_the_published_one(name: str) -> None:
    case = load_case(name)
    assert_close(load_hift(case).predict_f0(case.io["mel"]), case.io["f0"], NETWORK_TOLERANCE)


@SYMMETRIC
@torch.inference_mode()
def test_source_without_noise_is_the_published_one(name: str) -> None:
    case = load_case(name)
    hift = load_hift(case)
    f0 = hift.predict_f0(case.io["mel"])
    noise = torch.zeros(1, case.io["source"].shape[-1])
    source, _ = hift.source(f0, noise, None, is_last=True)
    assert_same_waveform(source, case.io["source_without_noise"][0])
    assert_same_waveform(hift.decode(case.io["mel"], source), case.io["wav_without_noise"])


@SYMMETRIC
@torch.inference_mode()
def test_waveform_from_the_published_source(name: str) -> None:
    case = load_case(name)
    wav = load_hift(case).decode(case.io["mel"], case.io["source"][0])
    assert_same_waveform(wav, case.io["wav_from_source"])


@torch.inference_mode()
def test_causal_source_and_waveform_are_the_published_ones() -> None:
    case = load_case("hift_v3")
    hift, mel = load_hift(case), case.io["mel"]
    noise = hift.source.sum_noise(case.io["sine_noise"])
    source, _ = hift.source(hift.predict_f0(mel), noise, None, is_last=True)
    assert_same_waveform(source, case.io["source_full"][0])
    assert_same_waveform(hift.decode(mel, source), case.io["wav_full"])


@torch.inference_mode()
def test_streamed_prefix_is_the_published_one() -> None:
    """What the published code gives after 24 frames; ours, which withholds less, begins with it."""
    case = load_case("hift_v3")
    expected = case.io["wav_first24_notfinal"][0]
    vocoder = CausalVocoder(load_hift(case))
    num_frames = len(expected) // 480 + PUBLISHED_WITHHELD_FRAMES
    sound = Sound(vocoder.start(0), [(case.io["mel"][0, :, :num_frames], False)])
    vocode(vocoder, [sound])
    assert_same_waveform(sound.take()[: len(expected)], expected)
