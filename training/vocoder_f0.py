"""The vocoder's F0 predictor goes on by itself, on pieces ten times as long as the vocoder's.

It is a hundredth of the vocoder's work, and what it takes for unvoiced is whispered.
"""

import numpy as np
import torch
from torch import Tensor

from firstword.models.hift.hift import HiFT
from firstword.models.layers import FullContext
from training import features, trainer, vocoder_adversarial
from training.crops import Crops
from training.settings import Settings

STAGE = "vocoder_f0"
_THRESHOLD_HZ = 10.0  # below it the source is silent
_GAIN = 0.5  # louder or softer by up to this, natural log
_NOISE = 0.1  # of every bin, natural log: the flow's mel is no teacher's


def run(settings: Settings) -> None:
    """Goes on from the vocoder of the two stages before; writes <folder>/vocoder_f0.pt."""
    plan = settings.vocoder_f0
    dice = trainer.seeded(settings, STAGE)
    model = vocoder_adversarial.load_vocoder(settings).f0
    columns = [(one.speaker, (one.mel, one.f0_hz)) for one in features.read_features(settings)]
    crops = Crops(columns, (1, 1))

    def losses_of(_: float) -> trainer.Losses:
        rows = [pieces for _, pieces in crops.draw(plan.train.batch, plan.crop_frames, dice.numpy)]
        mel, f0 = (torch.from_numpy(np.stack(column)).float() for column in zip(*rows, strict=True))
        gain = (torch.rand(len(mel), 1, 1, generator=dice.torch) * 2 - 1) * _GAIN
        noise = torch.randn(mel.shape, generator=dice.torch) * _NOISE
        mel, f0 = trainer.on_device((mel + gain + noise, f0))
        guess = model(mel.mT, FullContext()).float()
        is_voiced = f0 > _THRESHOLD_HZ
        wrong = ((guess > _THRESHOLD_HZ) != is_voiced) | (((guess - f0).abs() > 0.2 * f0) & is_voiced)
        return {
            "loss": ((guess - f0).abs() / _pitch(f0)).mean(),
            "hz": (guess - f0).abs().mean(),
            "wrong": wrong.float().mean(),
        }

    trainer.train(settings, STAGE, plan.train, model, dice, losses_of)


def load_vocoder(settings: Settings) -> HiFT:
    """The averaged weights of the stages that ran: vocoder, vocoder_adversarial, this one."""
    model = vocoder_adversarial.load_vocoder(settings)
    if (settings.path / f"{STAGE}.pt").exists():
        trainer.load_average(settings, STAGE, model.f0)
    return model


def _pitch(f0: Tensor) -> Tensor:
    """f0 (B, T) Hz, 0 where unvoiced -> (B, 1), the mean of what is voiced."""
    return f0.sum(1, keepdim=True) / (f0 > 0).sum(1, keepdim=True).clamp(min=1) + 1.0
