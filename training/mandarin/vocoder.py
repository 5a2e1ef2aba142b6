"""Stage: the vocoder goes on with Mandarin's voices; what it does for others is held where it was."""

import numpy as np
import torch
from torch import Tensor

from firstword.models.harmonic_vocos.network import HarmonicVocos, pitch_of
from firstword.models.layers import FullContext
from training import corpus, harmonic_vocos, trainer
from training.harmonic_vocos import Losses, first_shards, recordings_of
from training.harmonic_vocos_data import Crops, Recording, crops_of, min_frames, recording_of
from training.mandarin.speech import plan as plan_speech
from training.mandarin.speech import spoken_shard
from training.settings import Settings

STAGE = "mandarin_vocoder"


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin_vocoder.pt."""
    plan = settings.mandarin.vocoder
    dice = trainer.seeded(settings, STAGE)
    frames = settings.harmonic_vocos.crop_frames
    model = harmonic_vocos.load_vocoder(settings)
    before = harmonic_vocos.load_vocoder(settings)
    before.to(trainer.device()).requires_grad_(False)
    length = min_frames(model.config, frames)
    mandarin, others = (
        [one for one in found if one.num_frames >= length]
        for found in (mandarin_recordings(settings, model), english_recordings(settings, model))
    )
    losses = Losses(model.config, None)

    def crops(recordings: list[Recording], rows: int) -> Crops:
        return trainer.on_device(crops_of(model.config, recordings, frames, dice.numpy, rows))

    def losses_of(_: float) -> trainer.Losses:
        learned = losses.of_samples(model, crops(mandarin, plan.train.batch), dice)
        other = losses.of_samples(model, crops(others, plan.other_rows), dice)["loss"]
        moved = filters_moved(model, before, crops(others, plan.other_rows))
        loss = learned["loss"] + plan.other_weight * other + plan.kept_weight * moved
        return learned | {"loss": loss, "other": other, "moved": moved}

    trainer.train(settings, plan.train, model, dice, losses_of)


def filters_moved(model: HarmonicVocos, before: HarmonicVocos, crops: Crops) -> Tensor:
    """The mean distance of the two networks' filters, in parts of their size."""
    given = crops.mel, pitch_of(crops.pitch_hz)
    now = model.filters(*given, FullContext(), is_start=True)
    with torch.no_grad():
        then = before.filters(*given, FullContext(), is_start=True)
    return (now - then).abs().mean() / then.abs().mean()


def mandarin_recordings(settings: Settings, model: HarmonicVocos) -> list[Recording]:
    paths = [spoken_shard(shard).path for shard in plan_speech(settings)]
    said = [row for path in paths if path.exists() for row in corpus.read_shard(path)]
    return [recording_of(model, spoken, knows_phase) for _, spoken, knows_phase in said]


def english_recordings(settings: Settings, model: HarmonicVocos) -> list[Recording]:
    """Of every voice, some of them altered as well."""
    rng = np.random.default_rng(settings.seed)
    found: list[Recording] = []
    for shard in first_shards(settings, settings.mandarin.vocoder.english_shards):
        said = corpus.read_shard(shard.path)
        found += recordings_of(model, said, settings.harmonic_vocos.altered_every, rng)
    return found


def load_vocoder(settings: Settings) -> HarmonicVocos:
    """Return what is exported, as its stages left it. Raises FileNotFoundError naming one that never ran."""
    if "zh" not in settings.languages:
        return harmonic_vocos.load_vocoder(settings)
    model = harmonic_vocos.build(settings)
    trainer.load_average(settings, STAGE, model)
    return model
