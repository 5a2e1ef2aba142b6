"""Harmonic Vocos: its pulses, and that its streams equal the whole utterance however they are cut."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from firstword import Synthesizer
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import CheckpointError, HarmonicVocosConfig
from firstword.models.harmonic_vocos.network import (
    TOP_HZ,
    HarmonicVocos,
    SpectrumTransform,
    hz_of,
    pitch_of,
    pulses,
)
from firstword.models.harmonic_vocos.streaming import HarmonicVocoder, pulses_along
from firstword.models.hift.streaming import MelChunk, Sound, vocode, vocode_whole
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import random_ids, small_flow, small_speaker, small_vocos
from tests.models.test_hift_streaming import random_mel, speak
from tests.support.checkpoints import copied_checkpoint

FRAME = 480  # samples
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 11, 90)
CUTS = [[90], [20, 50, 20], [2] * 45, [1] * 90, [1, 3, 4, 5, 77], [13, 1, 76], [50, 40, 0], [0, 7, 0, 83]]
TOLERANCE = 1e-3  # of samples within 0.5: the phase of fifty harmonics is added up in another order
CONFIG = small_vocos().config


def vocoder() -> HarmonicVocoder:
    return HarmonicVocoder(small_vocos())


@pytest.mark.parametrize("cuts", CUTS)
@torch.inference_mode()
def test_pieces_equal_the_whole(cuts: list[int]) -> None:
    mel = random_mel(90)
    (whole,) = speak(vocoder(), mel, [90], seed=5)
    pieces = torch.cat(speak(vocoder(), mel, cuts, seed=5))
    assert pieces.shape == whole.shape == (90 * FRAME,)
    assert float(whole.std()) > 0.02
    assert float((pieces - whole).abs().max()) <= TOLERANCE


@pytest.mark.parametrize("length", LENGTHS)
@torch.inference_mode()
def test_every_length_ends_with_all_its_samples(length: int) -> None:
    mel = random_mel(length)
    (whole,) = speak(vocoder(), mel, [length])
    one_by_one = torch.cat(speak(vocoder(), mel, [1] * length))
    assert whole.shape == one_by_one.shape == (length * FRAME,)
    assert torch.isfinite(whole).all()
    assert float((one_by_one - whole).abs().max()) <= TOLERANCE


@torch.inference_mode()
def test_it_withholds_its_lookahead_and_half_a_window() -> None:
    """20 mel frames are known up to 31.2 frames of 300 samples; 4 are seen ahead, 2 overlap on."""
    sizes = [len(x) for x in speak(vocoder(), random_mel(90), [20, 50, 20])]
    assert sizes == [26 * 300, 50 * FRAME, 20 * FRAME + 6 * 300]


@torch.inference_mode()
def test_what_is_said_does_not_depend_on_what_comes_75_ms_later() -> None:
    mel = random_mel(90)
    (whole,) = speak(vocoder(), mel, [90])
    other = mel.clone()
    other[:, 60:] = random_mel(90, seed=9)[:, 60:]
    (changed,) = speak(vocoder(), other, [90])
    same = 60 * FRAME - 6 * 300 - 480
    assert torch.equal(whole[:same], changed[:same])
    assert not torch.equal(whole[: 60 * FRAME], changed[: 60 * FRAME])


@torch.inference_mode()
def test_streams_at_other_positions_share_a_batch() -> None:
    """One is 5 mel frames, which are 8 frames, ahead of the other: all their buffers are alike."""
    mels = [random_mel(120, seed) for seed in (1, 2)]
    firsts, tool = (45, 50), vocoder()
    sounds = [
        Sound(tool.start(seed), [(mel[:, :first], False)])
        for seed, mel, first in zip((1, 2), mels, firsts, strict=True)
    ]
    vocode(tool, sounds)
    shapes = {tool.shape_of(MelChunk(sound.state, random_mel(20), False)) for sound in sounds}
    assert len(shapes) == 1
    for sound, mel, first in zip(sounds, mels, firsts, strict=True):
        sound.pending += [(mel[:, first : first + 20], False), (mel[:, first + 20 :], True)]
    vocode(tool, sounds)
    for seed, sound, mel in zip((1, 2), sounds, mels, strict=True):
        whole = vocode_whole(tool, mel.T, seed)
        assert float((sound.take() - whole).abs().max()) <= TOLERANCE


@torch.inference_mode()
def test_the_seed_draws_the_noise() -> None:
    mel = random_mel(30).T
    one, again, other = (vocode_whole(vocoder(), mel, seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert float((one - other).abs().max()) > 0.01


@torch.inference_mode()
def test_a_stream_remembers_the_same_amount_for_ever() -> None:
    tool, sizes = vocoder(), set()
    sound = Sound(tool.start(0))
    for index in range(40):
        sound.pending.append((random_mel(20, index), False))
        vocode(tool, [sound])
        sizes.add(sound.state.num_bytes) if index > 3 else None
        sound.take()
    assert len(sizes) == 1
    assert sizes.pop() < 64_000


@torch.inference_mode()
def test_an_utterance_without_frames_is_silent() -> None:
    assert [len(x) for x in speak(vocoder(), random_mel(1)[:, :0], [0])] == [0]


@torch.inference_mode()
def test_phase_is_right_after_a_minute() -> None:
    """F0 is rounded to float32, in other places where it is cut: that adds up to no thousandth of a turn."""
    tool, mel = vocoder(), random_mel(3000)
    ends = []
    for cuts in ([2990], [20] + [50] * 59 + [20]):
        sound = Sound(tool.start(0), [(piece, False) for piece in mel[:, :2990].split(cuts, dim=1)])
        vocode(tool, [sound])
        ends.append(float(sound.state.phase))
    assert abs((ends[0] - ends[1] + 0.5) % 1 - 0.5) < 1e-3


def test_pulses_have_every_harmonic_at_the_same_amplitude() -> None:
    f0_hz = 200.0
    time = torch.arange(24_000, dtype=torch.float64) / 24_000
    made = pulses((time * f0_hz % 1).float()[None], torch.full((1, 24_000), f0_hz))[0]
    amplitudes = torch.fft.rfft(made.double()).abs() / 12_000
    harmonics = amplitudes[200 :: int(f0_hz)]
    num_below = int(TOP_HZ / f0_hz)
    torch.testing.assert_close(harmonics[:num_below].float(), torch.ones(num_below), atol=2e-3, rtol=0)
    assert float(harmonics[num_below:].max()) < 2e-3
    amplitudes[200 :: int(f0_hz)] = 0
    assert float(amplitudes.max()) < 2e-3


def test_pulses_of_a_glide_follow_the_integral_of_f0() -> None:
    """100 to 200 Hz within a second is 150 turns."""
    f0_hz = torch.linspace(100, 200, 81)[None]
    made, end = pulses_along(f0_hz, torch.tensor([0.25], dtype=torch.float64), CONFIG)
    assert made.shape == (1, 24_000)
    assert float(end) == pytest.approx(0.25 + 150 - 150, abs=1e-9)
    time = torch.arange(24_000) / 24_000
    peaks = int(((made[0, 1:-1] > made[0, :-2]) & (made[0, 1:-1] > made[0, 2:]) & (made[0, 1:-1] > 40)).sum())
    assert peaks == 150
    assert time.shape == made[0].shape


def test_analysis_and_synthesis_give_the_samples_back() -> None:
    transform = SpectrumTransform(CONFIG)
    samples = torch.randn(2, 300 * 40)
    spectrum = transform.analyze(samples) * (CONFIG.n_fft / 4)
    sums, envelope = transform.overlap_add(spectrum)
    inner = slice(600, -600)
    torch.testing.assert_close((sums / envelope)[:, inner], samples[:, inner], atol=1e-5, rtol=0)


def test_pitch_and_hertz_are_inverse() -> None:
    hertz = torch.tensor([40.0, 97.0, 440.0, 800.0])
    torch.testing.assert_close(hz_of(pitch_of(hertz)), hertz)
    torch.testing.assert_close(pitch_of(torch.tensor([5.0, 2000.0])), torch.tensor([0.0, 1.0]))


@torch.inference_mode()
def test_f0_of_a_mel_frame_is_that_of_its_middle() -> None:
    found = small_vocos().predict_f0(random_mel(50)[None])
    assert found.shape == (1, 50)
    assert 40 < float(found.min()) < float(found.max()) < 800


@torch.inference_mode()
def test_a_stream_of_tokens_sounds_the_same_however_they_came() -> None:
    session = Token2Wav(small_flow("unet"), small_vocos())
    prompt = session.compute_prompt_state(small_speaker(30, 33))
    tokens = random_ids(3, 60)

    def spoken(pieces: list[list[int]]) -> Tensor:
        state = session.start(prompt, seed=4)
        last = len(pieces) - 1
        return torch.cat(
            [session.step([StepInput(state, piece, i == last)])[0] for i, piece in enumerate(pieces)]
        )

    whole = spoken([tokens])
    pieces = spoken([tokens[:13], tokens[13:14], tokens[14:50], tokens[50:]])
    assert len(whole) == len(pieces) == 960 * len(tokens)
    assert float((whole - pieces).abs().max()) <= TOLERANCE


YAML = """hift: !new:firstword.models.harmonic_vocos.HarmonicVocos
    in_channels: 80
    sampling_rate: !ref <sample_rate>
    channels: 32
    hidden_channels: 64
    num_layers: 3
    f0_channels: 16
    f0_layers: 2
    look_right: 4
    istft_params:
        n_fft: 1200
        hop_len: 300
"""


def checkpoint_with(parent: Path, yaml: str = YAML) -> Path:
    """A small CosyVoice 2 whose vocoder is another."""
    directory = copied_checkpoint(parent, "cosyvoice2", "safetensors")
    path = directory / "cosyvoice2.yaml"
    published = re.search(r"^hift: .*\n(?:(?![a-z#]).*\n)*", path.read_text(), re.MULTILINE)
    assert published is not None
    path.write_text(path.read_text().replace(published[0], yaml + "\n"))
    save_file(small_vocos().state_dict(), directory / "hift.safetensors")
    return directory


def test_a_checkpoint_names_it_in_its_yaml(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(checkpoint_with(tmp_path))
    checkpoint.check()
    loaded = checkpoint.load_vocoder()
    assert isinstance(loaded, HarmonicVocos)
    assert loaded.config == CONFIG
    with torch.inference_mode():
        mel = random_mel(20).T
        assert torch.equal(vocode_whole(HarmonicVocoder(loaded), mel), vocode_whole(vocoder(), mel))
    with pytest.raises(CheckpointError, match="expected HiFT"):
        checkpoint.load_hift()


def test_f0_keeps_float32_where_the_filters_do_not(tmp_path: Path) -> None:
    loaded = open_checkpoint(checkpoint_with(tmp_path)).load_vocoder(torch.bfloat16)
    assert isinstance(loaded, HarmonicVocos)
    assert loaded.f0_net.head.weight.dtype == torch.float32
    assert loaded.filters_net.head.weight.dtype == torch.bfloat16
    with torch.inference_mode():
        mel = random_mel(40).T
        near, exact = vocode_whole(HarmonicVocoder(loaded), mel), vocode_whole(vocoder(), mel)
    assert float((near - exact).norm() / exact.norm()) < 0.1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hop_len: 300", "hop_len: 240", "n_fft 1200 must be four hops of 240"),
        ("look_right: 4", "look_right: 1", "look_right is 1; expected at least 2"),
        ("channels: 32\n", "channels: 0\n", "channels is 0; expected a whole number"),
        ("    f0_layers: 2\n", "", "f0_layers is missing"),
        ("look_right: 4", "look_right: 4\n    base_channels: 3", "unknown: base_channels"),
    ],
)
def test_sizes_that_make_no_vocoder_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in YAML
    directory = checkpoint_with(tmp_path, YAML.replace(old, new, 1))
    with pytest.raises(CheckpointError, match=f"hift: {message}"):
        open_checkpoint(directory)


@pytest.mark.parametrize("hop", [240, 300, 480])
@torch.inference_mode()
def test_other_hops_stream_as_well(hop: int) -> None:
    torch.manual_seed(0)
    config = replace(CONFIG, hop_samples=hop, n_fft=4 * hop)
    tool = HarmonicVocoder(HarmonicVocos(config).eval())
    mel = random_mel(61)
    whole = vocode_whole(tool, mel.T)
    pieces = torch.cat(speak(tool, mel, [3, 21, 1, 30, 6]))
    assert len(whole) == len(pieces) == 61 * FRAME
    assert float((pieces - whole).abs().max()) <= TOLERANCE


def test_frames_lie_between_the_middles_of_mel_frames() -> None:
    config: HarmonicVocosConfig = CONFIG
    mel = torch.arange(20.0).expand(1, 80, 20)  # a frame's number
    drawn = small_vocos().frames(mel, 0, 0, 32)[0, 0] * 2.5 - 5.0
    at = (torch.arange(32) * 300 - 240) / 480
    torch.testing.assert_close(drawn, at.clamp(0, 19), atol=1e-4, rtol=0)
    assert config.known_frames(20) == math.ceil(19.5 * 480 / 300)
    later = small_vocos().frames(mel[:, :, 4:], 4, 10, 20)[0, 0] * 2.5 - 5.0
    torch.testing.assert_close(later, at[10:20], atol=1e-4, rtol=0)


def test_the_service_speaks_through_it(tmp_path: Path) -> None:
    """In ONNX Runtime's graphs, which is what a CPU serves with."""
    with Synthesizer.open(checkpoint_with(tmp_path), max_streams=1) as synthesizer:
        speaker = synthesizer.speakers[0]
        said = np.concatenate(list(synthesizer.speak("Hello.", speaker=speaker)))
    assert len(said) % 960 == 0
    assert float(said.std()) > 0.001
