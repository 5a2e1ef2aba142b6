"""The vocoder's F0 predictor goes on by itself, on pieces ten times as long as the vocoder's.

It is a hundredth of the vocoder's work, and what it takes for unvoiced is whispered.
"""

import torch

from firstword.models.hift.hift import HiFT
from firstword.models.layers import FullContext
from training import features, trainer, vocoder, vocoder_adversarial
from training.crops import Crops
from training.settings import Settings

STAGE = "vocoder_f0"
_GAIN = 0.5  # louder or softer by up to this, natural log
_NOISE = 0.1  # of every bin, natural log: the flow's mel is no teacher's


def run(settings: Settings) -> None:
    """Goes on from the vocoder of the two stages before; writes <folder>/vocoder_f0.pt."""
    plan = settings.vocoder_f0
    dice = trainer.seeded(settings, STAGE)
    model = vocoder_adversarial.load_vocoder(settings).f0
    utterances = features.read_features(settings)
    crops = Crops([(one.speaker, (one.mel, one.f0_hz)) for one in utterances], (1, 1))
    threshold_hz = vocoder.config(settings).voiced_threshold_hz

    def losses_of(_: float) -> trainer.Losses:
        columns = crops.batch(plan.train.batch, plan.crop_frames, dice.numpy)[1]
        mel, f0 = (column.float() for column in columns)
        gain = (torch.rand(len(mel), 1, 1, generator=dice.torch) * 2 - 1) * _GAIN
        noise = torch.randn(mel.shape, generator=dice.torch) * _NOISE
        mel, f0 = trainer.on_device((mel + gain + noise, f0))
        guess = model(mel.mT, FullContext()).float()
        is_voiced = f0 > threshold_hz
        num_voiced = (f0 > 0).sum(1, keepdim=True).clamp(min=1)
        pitch = f0.sum(1, keepdim=True) / num_voiced + 1.0  # a row's mean where it is voiced, and no zero
        wrong = ((guess > threshold_hz) != is_voiced) | (((guess - f0).abs() > 0.2 * f0) & is_voiced)
        return {
            "loss": ((guess - f0).abs() / pitch).mean(),
            "hz": (guess - f0).abs().mean(),
            "wrong": wrong.float().mean(),
        }

    trainer.train(settings, plan.train, model, dice, losses_of)


def load_vocoder(settings: Settings) -> HiFT:
    """The averaged weights of the stages that ran: vocoder, vocoder_adversarial, this one."""
    model = vocoder_adversarial.load_vocoder(settings)
    if (settings.path / f"{STAGE}.pt").exists():
        trainer.load_average(settings, STAGE, model.f0)
    return model
