"""A recogniser of Mandarin's initials and toned finals, which hears what the flow makes in its training.

What it does for the flow is what `training.phone_recogniser` does in English. The stage that asks for it
trains it first.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from training import trainer
from training.crops import Crops
from training.mandarin.speech import Utterance
from training.mandarin.units import NUM_SOUNDS, sounds_of
from training.networks.speech_tokenizer import PhoneRecogniser
from training.settings import Settings
from training.teachers.spoken import UNTOLD

STAGE = "unit_recogniser"
_GAIN, _TILT = 1.0, 0.4  # of the log-mel, either way, and from its lowest bin to its highest
_NOISY = 0.5  # of the rows
_NOISE_LEVELS, _NOISE_SPREAD = (-11.0, -5.0), 0.3  # natural log


def trained_recogniser(settings: Settings, utterances: list[Utterance]) -> PhoneRecogniser:
    """That of <folder>/unit_recogniser.pt, which is written first where it is missing; frozen."""
    plan = settings.mandarin.flow.recogniser
    dice = trainer.seeded(settings, STAGE)
    recogniser = PhoneRecogniser(settings.speech_tokenizer.frame_width, NUM_SOUNDS)
    if trainer.is_trained(settings, STAGE, plan):
        trainer.load_average(settings, STAGE, recogniser)
    else:
        _train(settings, recogniser, utterances, dice)
    return recogniser.to(trainer.device()).requires_grad_(False)


def _train(
    settings: Settings, recogniser: PhoneRecogniser, utterances: list[Utterance], dice: trainer.Dice
) -> None:
    plan = settings.mandarin.flow.recogniser
    length = settings.speech_tokenizer.crop_tokens
    some = np.concatenate([one.mel for one in utterances[::5]]).astype(np.float32)
    recogniser.mel_mean.copy_(torch.from_numpy(some.mean(0)))
    recogniser.mel_std.copy_(torch.from_numpy(some.std(0)))
    crops = Crops([(one.speaker, (one.tokens, one.mel)) for one in utterances], (1, FRAMES_PER_TOKEN))

    def losses_of(_: float) -> trainer.Losses:
        tokens, mel = crops.batch(plan.batch, length, dice.numpy)[1]
        mel, sounds = trainer.on_device((varied(mel.float(), dice), frames_of(tokens)))
        logits, _ = recogniser(mel)
        right = (logits.argmax(-1) == sounds)[sounds != UNTOLD].float().mean()
        loss = F.cross_entropy(logits.flatten(0, 1), sounds.flatten(), ignore_index=UNTOLD)
        return {"loss": loss, "right": right}

    trainer.train(settings, plan, recogniser, dice, losses_of)


def frames_of(tokens: Tensor) -> Tensor:
    """tokens (B, T) -> the sound of each frame (B, 2 T), UNTOLD in English."""
    sounds: NDArray[np.int64] = sounds_of(tokens.numpy())
    return torch.from_numpy(sounds).repeat_interleave(FRAMES_PER_TOKEN, dim=-1)


def varied(mel: Tensor, dice: trainer.Dice) -> Tensor:
    """mel (B, F, 80): each row louder or softer, brighter or darker, half of them in noise."""
    rows = len(mel)
    gain = (2 * torch.rand(rows, 1, 1, generator=dice.torch) - 1) * _GAIN
    tilt = torch.randn(rows, 1, 1, generator=dice.torch) * _TILT * torch.linspace(-1, 1, NUM_MELS)
    low, high = _NOISE_LEVELS
    levels = low + (high - low) * torch.rand(rows, 1, 1, generator=dice.torch)
    noise = levels + torch.randn(mel.shape, generator=dice.torch) * _NOISE_SPREAD
    is_noisy = torch.rand(rows, 1, 1, generator=dice.torch) < _NOISY
    heard = mel + gain + tilt
    return torch.where(is_noisy, torch.logaddexp(heard, noise), heard)
