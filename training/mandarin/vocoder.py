"""Stage: the vocoder goes on with Mandarin's voices; what it does for others is held where it was.

Discriminators join last: they hear what spectral distances leave smooth.
"""

import numpy as np
import torch
from torch import Tensor, nn

from firstword.models.config import SAMPLE_RATE_HZ
from firstword.models.harmonic_vocos.network import HarmonicVocos, pitch_of
from firstword.models.layers import FullContext
from training import corpus, harmonic_vocos, trainer
from training.adversary import Adversary
from training.half import autocast
from training.harmonic_vocos import Losses, first_shards, recordings_of
from training.harmonic_vocos_data import Crops, Recording, crops_of, min_frames, recording_of
from training.mandarin.speech import plan as plan_speech
from training.mandarin.speech import spoken_shard
from training.settings import Settings

STAGE = "mandarin_vocoder"
_JUDGED_SAMPLES = int(0.6 * SAMPLE_RATE_HZ)  # of each crop, by the discriminators
_RISING = 0.02  # of the training, in which the discriminators' weight rises


class AdversarialPair(nn.Module):
    """A vocoder and the discriminators it is trained against, saved together."""

    def __init__(self, vocoder: HarmonicVocos, channels: int) -> None:
        super().__init__()
        self.vocoder, self.adversary = vocoder, Adversary(channels)


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin_vocoder.pt."""
    plan = settings.mandarin.vocoder
    dice = trainer.seeded(settings, STAGE)
    frames = settings.harmonic_vocos.crop_frames
    pair = AdversarialPair(harmonic_vocos.load_vocoder(settings), plan.adversary_channels)
    model = pair.vocoder
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

    def judged(made: Tensor, wanted: Tensor, done: float) -> trainer.Losses:
        start = int(dice.numpy.integers(max(1, made.shape[1] - _JUDGED_SAMPLES)))
        part = slice(start, start + _JUDGED_SAMPLES)
        with autocast(made.device.type, True):
            own, fooled, matched = pair.adversary.losses(made[:, part], wanted[:, part])
        weight = min(1.0, (done - plan.plain_share) / _RISING)
        loss = own + weight * (plan.fooled_weight * fooled + plan.matched_weight * matched)
        return {"judged": loss, "own": own, "fooled": fooled, "matched": matched}

    def losses_of(done: float) -> trainer.Losses:
        learned_crops = crops(mandarin, plan.train.batch)
        made, wanted = losses.samples(model, learned_crops, dice)
        learned = losses.between(made, wanted, model, learned_crops, dice)
        other = losses.of_samples(model, crops(others, plan.other_rows), dice)["loss"]
        moved = filters_moved(model, before, crops(others, plan.other_rows))
        loss = learned["loss"] + plan.other_weight * other + plan.kept_weight * moved
        found = learned | {"other": other, "moved": moved}
        if done >= plan.plain_share:
            found |= judged(made, wanted, done)
            loss = loss + found["judged"]
        return found | {"loss": loss}

    trainer.train(settings, plan.train, pair, dice, losses_of, faster={"adversary": plan.adversary_times})


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
    pair = AdversarialPair(harmonic_vocos.build(settings), settings.mandarin.vocoder.adversary_channels)
    trainer.load_average(settings, STAGE, pair)
    return pair.vocoder
