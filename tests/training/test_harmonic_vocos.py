"""What Harmonic Vocos is trained with: F0 through voiceless sounds, pulses in the teacher's phase, losses."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from firstword.models.config import HarmonicVocosConfig
from firstword.models.harmonic_vocos.network import (
    HIGHEST_HZ,
    LOWEST_HZ,
    HarmonicVocos,
    SpectrumTransform,
    pitch_of,
    pulses,
)
from firstword.models.harmonic_vocos.streaming import HarmonicVocoder
from firstword.models.hift.streaming import vocode_whole
from firstword.models.layers import FullContext
from tests.models.networks import small_vocos
from tests.training.recipe import tiny_settings, write_corpus
from training import harmonic_vocos, trainer
from training.harmonic_vocos_data import (
    Recording,
    altered,
    crops_of,
    filled,
    min_frames,
    recording_of,
    told_recording_of,
)
from training.harmonic_vocos_hints import FREE_BLOCKS, Hints, fit, hint_error, through_blocks
from training.teachers.spoken import PHONES, STEP_RATE_HZ, STEP_SAMPLES, Spoken, Told

CONFIG = small_vocos().config
VOWEL = PHONES.index("i")


def hum(f0_hz: float, seconds: float = 2.0, gap: slice = slice(0, 0), gap_hz: float = 5.0) -> Spoken:
    """A pulse train with a teacher's F0 and phase; in the gap there is noise, and F0 is `gap_hz`."""
    steps = int(seconds * STEP_RATE_HZ)
    contour = np.full(steps, f0_hz)
    contour[gap] = gap_hz
    cycles = np.concatenate([[0.0], np.cumsum(contour / STEP_RATE_HZ)])
    at = np.arange(steps * STEP_SAMPLES) / STEP_SAMPLES
    phase = torch.from_numpy(np.interp(at, np.arange(steps + 1), cycles) % 1).float()
    made = pulses(phase[None], torch.full((1, len(at)), f0_hz))[0].numpy() * 0.005
    sample_gap = slice(gap.start * STEP_SAMPLES, gap.stop * STEP_SAMPLES)
    made[sample_gap] = np.random.default_rng(0).normal(size=len(made[sample_gap])) * 0.1
    voiced = contour.copy().astype(np.float32)
    voiced[gap] = 0.0
    return Spoken(
        (made * 32767).astype(np.int16),
        np.array([VOWEL], np.uint8),
        np.array([seconds], np.float32),
        np.zeros(1, np.int32),
        1,
        voiced,
        cycles[:-1],
        "i",
    )


def test_f0_goes_through_gaps_and_the_phase_behind_them_stays() -> None:
    f0_hz = np.full(400, 123.0)
    f0_hz[200:] = 150.0
    raw = f0_hz.copy()
    is_gap = np.zeros(400, bool)
    is_gap[180:240] = True
    raw[is_gap] = 7.0
    made, cycles = filled(raw, is_gap)
    np.testing.assert_allclose(made[:180], 123.0)
    np.testing.assert_allclose(made[240:], 150.0)
    assert 123.0 < made[200] < made[220] < 150.0
    told = np.concatenate([[0.0], np.cumsum(raw / STEP_RATE_HZ)])
    apart = (cycles - told)[[100, 180, 240, 300, 400]]
    np.testing.assert_allclose(apart, np.round(apart), atol=1e-9)
    assert np.all(np.diff(cycles) > 0)


def test_f0_goes_through_a_gap_where_the_teacher_says_its_lowest() -> None:
    """By rounding its cycles advance at a little more than that, or less."""
    for start in (300, 301, 302, 303):
        one = recording_of(small_vocos(), hum(150.0, gap=slice(start, 400), gap_hz=LOWEST_HZ), True)
        np.testing.assert_allclose(one.f0_hz, 150.0, rtol=1e-3)
        assert not one.is_voiced[start:400].any()


def test_f0_of_silence_is_a_number() -> None:
    made, cycles = filled(np.zeros(50), np.ones(50, bool))
    assert np.all((made >= LOWEST_HZ) & (made <= HIGHEST_HZ))
    assert np.all(np.isfinite(cycles))


def test_pulses_of_a_crop_are_in_step_with_the_samples() -> None:
    """Behind a voiceless sound too: there the teacher's phase is another than that of an F0 drawn through."""
    for gap in (slice(0, 0), slice(300, 340)):
        recording = recording_of(small_vocos(), hum(150.0, gap=gap), True)
        rng = np.random.default_rng(0)
        for _ in range(4):
            crops = crops_of(CONFIG, [recording], 48, rng, 1)
            made = pulses(crops.cycles, crops.pulses_hz)[0, CONFIG.n_fft // 2 :]
            wanted = crops.samples[0][: len(made)]
            voiced = crops.is_voiced[0].repeat_interleave(CONFIG.hop_samples)[: len(made)]
            made, wanted = made[: len(voiced)][voiced], wanted[voiced]
            likeness = float(made @ wanted / (made.norm() * wanted.norm()))
            assert likeness > 0.9, gap


def test_crops_have_the_mel_of_their_samples() -> None:
    """Noise has more of the high bands than this hum."""
    recording = recording_of(small_vocos(), hum(150.0, gap=slice(300, 400)), True)
    crops = crops_of(CONFIG, [recording], 60, np.random.default_rng(1), 8)
    assert crops.mel.shape == (8, 80, 60 + CONFIG.lookahead_frames)
    assert crops.samples.shape == (8, 60 * CONFIG.hop_samples)
    high = crops.mel[:, 60:, :60].mean(1)
    assert float(high[~crops.is_voiced].mean()) > float(high[crops.is_voiced].mean()) + 0.5


def test_an_altered_recording_is_another_speaker_in_phase() -> None:
    rng = np.random.default_rng(3)
    one = altered(hum(150.0), rng)
    f0_hz = float(np.diff(one.cycles).mean()) * STEP_RATE_HZ
    assert abs(f0_hz - 150.0) > 1.0
    assert float(one.f0_hz[50]) == pytest.approx(f0_hz, rel=1e-3)
    recording = recording_of(small_vocos(), one, True)
    crops = crops_of(CONFIG, [recording], 48, rng, 1)
    made = pulses(crops.cycles, crops.pulses_hz)[0, CONFIG.n_fft // 2 :]
    wanted = crops.samples[0][: len(made)]
    made = made[: len(wanted)]
    assert float(made @ wanted / (made.norm() * wanted.norm())) > 0.7


WIDTH = CONFIG.channels + 8  # of the teacher


def told_of(num_frames: int) -> Told:
    """The same for every frame but for a little."""
    rng = np.random.default_rng(0)
    spectra, hidden = rng.normal(size=(5, 601, 1)), rng.normal(size=(7, WIDTH, 1))
    return Told(
        (spectra + 0.1 * rng.normal(size=(5, 601, num_frames))).astype(np.float32),
        np.full(num_frames, 1e3, np.float32),
        (hidden + 0.1 * rng.normal(size=(7, WIDTH, num_frames))).astype(np.float32),
    )


def hints_of(config: HarmonicVocosConfig) -> Hints:
    rng = np.random.default_rng(0)
    return fit(told_of(400).hidden, config.channels, config.num_layers, rng)


def told_recording(model: HarmonicVocos, frames: int) -> Recording:
    spoken = hum(180.0, seconds=frames * 300 / 24_000)
    return told_recording_of(model, spoken, told_of(frames), hints_of(model.config))


def test_harmonics_are_told_as_silent_where_the_teachers_pulses_rest() -> None:
    model, frames = small_vocos(), 100
    told = told_of(frames)
    told.pulses_power[40:60] = 0.0
    one = told_recording_of(model, hum(150.0, seconds=1.25), told, hints_of(CONFIG))
    assert one.spectra is not None
    lowered = one.spectra[:, 0] - told.spectra[0].T
    assert float(lowered[40:60].max()) < -9.0
    np.testing.assert_allclose(lowered[:40], 0.0, atol=2e-3)
    np.testing.assert_allclose(one.spectra[:, 2], told.spectra[2].T, atol=2e-3)


def test_hints_need_a_teacher_that_is_wider() -> None:
    """Else a regression on them could make its very weights."""
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=f"{WIDTH} channels; expected fewer than the teacher's {WIDTH}"):
        fit(told_of(400).hidden, WIDTH, CONFIG.num_layers, rng)


def test_the_last_blocks_and_the_head_have_no_hint() -> None:
    model, hints = HarmonicVocos(CONFIG), hints_of(CONFIG)
    told = [told_recording(model, min_frames(CONFIG, 48))]
    crops = crops_of(CONFIG, told, 48, np.random.default_rng(0), 2)
    assert crops.hidden is not None
    net, wanted = model.filters_net, crops.hidden.permute(0, 2, 3, 1)
    x = net.enter(crops.mel, FullContext(), True, model.condition(pitch_of(crops.pitch_hz)))
    _, made = through_blocks(net, x, wanted, False)
    hint_error(made, wanted, hints, False).backward()
    assert made.shape == (2, CONFIG.num_layers - FREE_BLOCKS, CONFIG.channels, 48)
    hinted, free = net.blocks[:-FREE_BLOCKS], net.blocks[-FREE_BLOCKS:]
    assert all(parameter.grad is not None for parameter in hinted.parameters())
    assert all(parameter.grad is None for parameter in [*free.parameters(), *net.head.parameters()])


def test_forced_blocks_go_on_from_the_hints() -> None:
    """And unforced ones make what the network makes in service."""
    model = HarmonicVocos(replace(CONFIG, num_layers=5)).eval()
    net, rng = model.filters_net, torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 1, CONFIG.channels, 30, generator=rng)
    hints = torch.randn(1, 3, CONFIG.channels, 30, generator=rng)
    with torch.inference_mode():
        forced, again = (through_blocks(net, start, hints, True) for start in (x, other))
        by_hand = x
        for block in net.blocks:
            by_hand = block(by_hand, FullContext())
        torch.testing.assert_close(through_blocks(net, x, hints, False)[0], by_hand)
    torch.testing.assert_close(forced[0], again[0])
    torch.testing.assert_close(forced[1][:, 1:], again[1][:, 1:])
    assert not torch.allclose(forced[1][:, 0], again[1][:, 0])


def test_the_losses_fall_in_a_few_steps(tmp_path: Path) -> None:
    dice = trainer.seeded(tiny_settings(tmp_path), "test")
    model = HarmonicVocos(CONFIG)
    told = [told_recording(model, min_frames(CONFIG, 48))]
    others = [recording_of(model, hum(140.0), True)]
    losses = harmonic_vocos.Losses(CONFIG, hints_of(CONFIG))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    found = []
    for step in range(12):
        crops = crops_of(CONFIG, told, 48, dice.numpy, 2)
        one = losses.of_spectra(model, crops, dice, step < 6, hint_weight=1.0)
        other = losses.of_samples(model, crops_of(CONFIG, others, 64, dice.numpy, 2), dice)
        optimizer.zero_grad()
        (one["loss"] + other["loss"]).backward()
        optimizer.step()
        values = {name: float(value.detach()) for name, value in (one | other).items()}
        assert all(map(math.isfinite, values.values()))
        found.append(values)
    for name in ("hints", "told magnitude", "told phase", "mel", "magnitude"):
        assert found[-1][name] < 0.95 * found[0][name], name


def test_the_stage_learns_the_told_voice_first_and_then_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny_settings(tmp_path)
    write_corpus(settings)
    asked: list[int] = []

    def told(model: HarmonicVocos, texts: list[str], _: np.random.Generator) -> tuple[list[Recording], Hints]:
        asked.append(len(texts))
        return [told_recording(model, min_frames(model.config, 48))], hints_of(model.config)

    monkeypatch.setattr(harmonic_vocos, "_told", told)
    harmonic_vocos.run(settings)
    log = (settings.path / "harmonic_vocos.log").read_text()
    assert asked == [settings.corpus.shard]
    assert "told magnitude" in log
    assert "short mel" in log
    loaded = harmonic_vocos.load_vocoder(settings)
    assert loaded.config == harmonic_vocos.config(settings)


def test_spectra_as_the_teacher_tells_them_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HarmonicVocos(CONFIG)
    told = [told_recording(model, min_frames(CONFIG, 48))]
    dice = trainer.seeded(tiny_settings(tmp_path), "test")
    crops = crops_of(CONFIG, told, 48, dice.numpy, 1)
    assert crops.spectra is not None
    first = crops.spectra[:, :1]
    crops = replace(crops, spectra=first.expand(-1, 48, -1, -1))
    wanted = first.clone()
    wanted[:, :, 1] = math.pi * torch.tanh(wanted[:, :, 1])
    monkeypatch.setattr(model.filters_net, "leave", lambda x: wanted.flatten(2).expand(-1, x.shape[-1], -1))
    found = harmonic_vocos.Losses(CONFIG, hints_of(CONFIG)).of_spectra(model, crops, dice, True, 1.0)
    assert float(found["told magnitude"]) < 1e-6
    assert float(found["told phase"]) < 1e-5


def test_the_exported_vocoder_is_what_the_stage_left(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    with pytest.raises(FileNotFoundError, match="harmonic_vocos"):
        harmonic_vocos.load_vocoder(settings)
    model = harmonic_vocos.build(settings)
    torch.save({"average": model.state_dict()}, settings.path / "harmonic_vocos.pt")
    loaded = harmonic_vocos.load_vocoder(settings)
    mel = torch.randn(20, 80) - 5
    with torch.inference_mode():
        first, second = (vocode_whole(HarmonicVocoder(one.eval()), mel) for one in (loaded, model))
    assert torch.equal(first, second)


def test_what_hibari_tells_makes_its_samples() -> None:
    """With our pulses in its phase: a sample late they would be 16 dB apart."""
    pytest.importorskip("hibari", reason="the teachers come with the extra voice")
    from training.teachers.hibari import Hibari

    model = small_vocos()
    spoken, told = Hibari().speak_and_tell("The station clock strikes half past eight, and people run.")
    hints = fit(told.hidden, CONFIG.channels, CONFIG.num_layers, np.random.default_rng(0))
    recording = told_recording_of(model, spoken, told, hints)
    crops = crops_of(CONFIG, [recording], 160, np.random.default_rng(0), 1)
    assert crops.spectra is not None
    filters = crops.spectra.clone()
    filters[:, :, 1] = math.pi * torch.tanh(filters[:, :, 1])
    transform = SpectrumTransform(CONFIG)
    noise = torch.randn(1, 160, 2 * CONFIG.num_bins, generator=torch.Generator().manual_seed(0))
    spectrum = transform.mixed(
        filters.flatten(2), transform.analyze(pulses(crops.cycles, crops.pulses_hz)), noise
    )
    sums, envelope = transform.overlap_add(spectrum)
    inner = slice(1200, 160 * 300 - 1200)
    made, wanted = (sums[0] / envelope)[600:][inner], crops.samples[0][inner]
    decibels = 10 * math.log10(float(wanted.square().mean() / (made - wanted).square().mean()))
    assert decibels > 24
