"""Stage: the vocoder Harmonic Vocos, from the teachers' mel to F0 and to their samples.

All voices are learned by one network, from chance. hibari tells the five spectra that its sound is made of,
so those of its voice are compared as they are, which takes no Fourier transform, and gives hints
(`training.harmonic_vocos_hints`): first each block learns by itself, then all behind one another. Of the
others the samples are compared, with pulses in the teacher's phase where that is known (`training.phase`).
No weight of a teacher is read.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.config import FRAME_RATE_HZ, SAMPLE_RATE_HZ, HarmonicVocosConfig
from firstword.models.harmonic_vocos.network import (
    NUM_PARTS,
    HarmonicVocos,
    SpectrumTransform,
    pitch_of,
    pulses,
)
from firstword.models.layers import FullContext
from training import corpus, trainer
from training.harmonic_vocos_data import (
    Crops,
    Recording,
    altered,
    crops_of,
    min_frames,
    recording_of,
    told_recording_of,
)
from training.harmonic_vocos_hints import Hints, fit, hint_error, through_blocks
from training.phase import AlignedLoss
from training.settings import Settings
from training.spectral_loss import SpectralLoss
from training.teachers.spoken import Spoken, TeacherError

STAGE = "harmonic_vocos"
_WARM_FRAMES = 8  # at each end of a crop, which see less than a stream does
# shares of the training: until then each block learns by itself; from then on the other voices are learned
_FORCED, _ALL_VOICES = 0.15, 0.5
_HINT_WEIGHT = 1.0
_TOLD_WEIGHT = 2.5  # of what is told, beside other voices, whose losses are larger
_FRAMES_APART = 3  # of those whose spectra are compared: neighbours share most of their samples
_FIT_TEXTS = 24
_MEL_WEIGHT, _SHORT_MEL_WEIGHT, _ALIGNED_WEIGHT = 2.0, 1.0, 2.0
_ALIGNED_HZ = 5000.0
_F0_WEIGHT = 10.0
_UNVOICED_WEIGHT = 0.3  # of F0, beside voiced frames
# of the mel that F0 is read from, in parts of its scale: the flow's is no teacher's
_GAIN, _NOISE = 0.2, 0.04


def config(settings: Settings) -> HarmonicVocosConfig:
    plan = settings.harmonic_vocos
    return HarmonicVocosConfig(
        sample_rate_hz=SAMPLE_RATE_HZ,
        channels=plan.channels,
        hidden_channels=3 * plan.channels,
        num_layers=plan.layers,
        f0_channels=plan.f0_channels,
        f0_layers=plan.f0_layers,
        lookahead_frames=4,
        n_fft=1200,
        hop_samples=300,
    )


def build(settings: Settings) -> HarmonicVocos:
    return HarmonicVocos(config(settings))


def run(settings: Settings) -> None:
    """Writes <folder>/harmonic_vocos.pt."""
    plan = settings.harmonic_vocos
    dice = trainer.seeded(settings, STAGE)
    model = build(settings)
    told, others, hints = read_recordings(settings, model)
    if not (settings.path / f"{STAGE}.pt").exists():
        initialise(model, told)
    losses = Losses(model.config, hints)

    def losses_of(done: float) -> trainer.Losses:
        with_others = done >= _ALL_VOICES and bool(others)
        rows = plan.told_rows if with_others else plan.train.batch
        hint_weight = 0.0 if with_others else _HINT_WEIGHT
        told_crops = crops_of(model.config, told, plan.told_frames, dice.numpy, rows)
        is_forced = done < _FORCED
        found = losses.of_spectra(model, trainer.on_device(told_crops), dice, is_forced, hint_weight)
        if with_others:
            rows = plan.train.batch - plan.told_rows
            crops = crops_of(model.config, others, plan.crop_frames, dice.numpy, rows)
            heard = losses.of_samples(model, trainer.on_device(crops), dice)
            found = {**found, **heard, "loss": _TOLD_WEIGHT * found["loss"] + heard["loss"]}
        return found

    trainer.train(settings, plan.train, model, dice, losses_of)


def load_vocoder(settings: Settings) -> HarmonicVocos:
    """Return the vocoder with the stage's averaged weights. Raises FileNotFoundError where it never ran."""
    model = build(settings)
    trainer.load_average(settings, STAGE, model)
    return model


def read_recordings(
    settings: Settings, model: HarmonicVocos
) -> tuple[list[Recording], list[Recording], Hints]:
    """-> those of hibari, which tells, and all others, long enough for their crops; and the hints' sizes."""
    plan, rng = settings.harmonic_vocos, np.random.default_rng(settings.seed)
    told_texts: list[str] = []
    others: list[Recording] = []
    for shard in first_shards(settings, plan.shards):
        said = corpus.read_shard(shard.path)
        if shard.voice.teacher == "hibari":
            told_texts += [text for text, _, _ in said]
            continue
        others += recordings_of(model, said, plan.altered_every, rng)
    told, hints = _told(model, told_texts, np.random.default_rng(settings.seed))
    told_length, length = (min_frames(model.config, size) for size in (plan.told_frames, plan.crop_frames))
    return (
        [one for one in told if one.num_frames >= told_length],
        [one for one in others if one.num_frames >= length],
        hints,
    )


def recordings_of(
    model: HarmonicVocos, said: list[tuple[str, Spoken, bool]], altered_every: int, rng: np.random.Generator
) -> list[Recording]:
    """Return all of a shard, and one of so many a second time, altered."""
    recordings = [recording_of(model, spoken, knows_phase) for _, spoken, knows_phase in said]
    return recordings + [
        recording_of(model, altered(spoken, rng), knows_phase)
        for _, spoken, knows_phase in said[::altered_every]
    ]


def first_shards(settings: Settings, number: int) -> Iterator[corpus.Shard]:
    """At most so many of each voice."""
    taken: Counter[str] = Counter()
    for shard in corpus.spoken_shards(settings):
        taken[shard.voice.name] += 1
        if taken[shard.voice.name] <= number:
            yield shard


def _told(model: HarmonicVocos, texts: list[str], rng: np.random.Generator) -> tuple[list[Recording], Hints]:
    """hibari says them again; what it cannot say is left out."""
    from training.teachers.hibari import Hibari

    teacher = Hibari()
    first = []
    for text in texts[:_FIT_TEXTS]:
        with suppress(TeacherError):
            first.append(teacher.speak_and_tell(text)[1].hidden)
    config = model.config
    hints = fit(np.concatenate(first, axis=2), config.channels, config.num_layers, rng)
    found = []
    for text in texts:
        with suppress(TeacherError):
            found.append(told_recording_of(model, *teacher.speak_and_tell(text), hints))
    return found, hints


@torch.no_grad()
def initialise(model: HarmonicVocos, told: list[Recording]) -> None:
    """Residual branches begin small, and the head's bias at the mean of what it has to make."""
    for net in (model.f0_net, model.filters_net):
        for name, parameter in net.named_parameters():
            if name.endswith("down.weight"):
                parameter.mul_(0.3)
    spectra = np.concatenate([one.spectra[::8] for one in told[::4] if one.spectra is not None])
    mean = torch.from_numpy(spectra.astype(np.float32).mean(0))
    mean[1] = mean[4] = 0.0  # phases
    model.filters_net.head.bias.copy_(mean.flatten())
    model.filters_net.head.weight.mul_(0.3)


class Losses:
    def __init__(self, config: HarmonicVocosConfig, hints: Hints | None) -> None:
        """hints: None where no spectra are told."""
        self._config, self._hints = config, hints
        self._transform = SpectrumTransform(config)
        self._spectra, self._aligned = SpectralLoss(), AlignedLoss(_ALIGNED_HZ)
        self._bands = torch.linspace(1.5, 0.5, config.num_bins).to(trainer.device())

    def of_spectra(
        self, model: HarmonicVocos, crops: Crops, dice: trainer.Dice, is_forced: bool, hint_weight: float
    ) -> trainer.Losses:
        """Magnitudes by their logarithms and phases by their chords, each where it is heard, and hints.

        is_forced: as `through_blocks`.
        """
        assert crops.spectra is not None
        assert crops.hidden is not None
        assert self._hints is not None
        compared = slice(_WARM_FRAMES + int(dice.numpy.integers(_FRAMES_APART)), None, _FRAMES_APART)
        net, hints = model.filters_net, crops.hidden.permute(0, 2, 3, 1)
        x = net.enter(crops.mel, FullContext(), True, model.condition(pitch_of(crops.pitch_hz)))
        x, hinted = through_blocks(net, x, hints, is_forced)
        made = net.leave(x[:, :, compared]).float().unflatten(-1, (NUM_PARTS, -1))
        hint = x.new_zeros(())
        if hint_weight:
            warm = slice(_WARM_FRAMES, None)
            hint = hint_error(hinted[..., warm], hints[..., warm], self._hints, is_forced)
        source = self._pulses(crops)[:, compared].abs().clamp(min=1e-4).log()
        a, b, c, d, e = made.unbind(2)
        wanted_a, turns, wanted_c, wanted_d, wanted_e = crops.spectra[:, compared].unbind(2)
        sizes = torch.stack([(wanted_a.clamp(max=7) + source).exp(), wanted_c.exp(), wanted_d.exp()])
        share = sizes / (sizes.sum(0) + 1e-4)
        errors = torch.stack([a - wanted_a, c - wanted_c, d - wanted_d]).abs() * (share + 0.05)
        magnitude = (errors.sum(0) * self._bands).mean()
        harmonic = ((b - torch.pi * torch.tanh(turns)) / 2).sin().abs()
        free = ((e - wanted_e) / 2).sin().abs()
        phase = 2 * ((share[0] * harmonic + share[2] * free) * self._bands).mean()
        f0 = self._f0_error(model, crops, dice)
        return {
            "loss": magnitude + phase + hint_weight * hint + _F0_WEIGHT * f0,
            "hints": hint,
            "told magnitude": magnitude,
            "told phase": phase,
            "told f0": f0,
        }

    def of_samples(self, model: HarmonicVocos, crops: Crops, dice: trainer.Dice) -> trainer.Losses:
        return self.between(*self.samples(model, crops, dice), model, crops, dice)

    def samples(self, model: HarmonicVocos, crops: Crops, dice: trainer.Dice) -> tuple[Tensor, Tensor]:
        """-> (B, N) each: what the vocoder makes of the crops, and what it should."""
        config = self._config
        filters = self._filters(model, crops)
        noise = torch.randn(*filters.shape[:2], 2 * config.num_bins, generator=dice.torch).to(filters)
        sums, envelope = self._transform.overlap_add(
            self._transform.mixed(filters, self._pulses(crops), noise)
        )
        edge, cut = config.n_fft // 2, _WARM_FRAMES * config.hop_samples
        length = crops.samples.shape[1] - 2 * cut
        inner = slice(edge + cut, edge + cut + length)
        return sums[:, inner] / envelope[inner], crops.samples[:, cut:][:, :length]

    def between(
        self, made: Tensor, wanted: Tensor, model: HarmonicVocos, crops: Crops, dice: trainer.Dice
    ) -> trainer.Losses:
        """made, wanted: as `samples` gives them, for these crops."""
        length = made.shape[1]
        voiced = crops.is_voiced[:, _WARM_FRAMES:-_WARM_FRAMES].float()[:, None]
        num_mel = length * FRAME_RATE_HZ // SAMPLE_RATE_HZ
        voiced = F.interpolate(voiced, size=num_mel, mode="nearest")[:, 0]
        errors = self._spectra(made, wanted)
        phase = self._aligned(made, wanted, voiced, crops.knows_phase)
        f0 = self._f0_error(model, crops, dice)
        mels = _MEL_WEIGHT * errors.mel + _SHORT_MEL_WEIGHT * errors.short_mel
        total = errors.convergence + errors.magnitude + mels + _ALIGNED_WEIGHT * phase
        return {
            "loss": total + _F0_WEIGHT * f0,
            "convergence": errors.convergence,
            "magnitude": errors.magnitude,
            "mel": errors.mel,
            "short mel": errors.short_mel,
            "phase": phase,
            "f0": f0,
        }

    def _filters(self, model: HarmonicVocos, crops: Crops) -> Tensor:
        return model.filters(crops.mel, pitch_of(crops.pitch_hz), FullContext(), is_start=True)

    def _pulses(self, crops: Crops) -> Tensor:
        """-> (B, F, bins) complex."""
        return self._transform.analyze(pulses(crops.cycles, crops.pulses_hz))

    def _f0_error(self, model: HarmonicVocos, crops: Crops, dice: trainer.Dice) -> Tensor:
        """Of the pitch within 0 to 1."""
        gain = (torch.rand(len(crops.mel), 1, 1, generator=dice.torch) * 2 - 1) * _GAIN
        noise = torch.randn(crops.mel.shape, generator=dice.torch) * _NOISE
        ahead = self._config.lookahead_frames - self._config.f0_lookahead_frames
        mel = (crops.mel + (gain + noise).to(crops.mel))[:, :, : crops.mel.shape[-1] - ahead]
        made = model.pitch(mel, FullContext(), is_start=True)
        weight = torch.where(crops.is_voiced, 1.0, _UNVOICED_WEIGHT)[:, _WARM_FRAMES:]
        return ((made - pitch_of(crops.pitch_hz)).abs()[:, _WARM_FRAMES:] * weight).mean()
