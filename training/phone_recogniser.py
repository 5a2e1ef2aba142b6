"""A recogniser of phones, learned on what the teachers say, hears what other networks make in their training.

What a mean distance of mels hardly counts, a burst or the end of a word, is what words are told by. The
first stage that asks for it trains it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN
from training import trainer
from training.crops import Crops
from training.features import mel_statistics, read_features
from training.networks.speech_tokenizer import PhoneRecogniser
from training.settings import Settings
from training.teachers.spoken import PHONES, UNTOLD

STAGE = "phone_recogniser"


def trained_recogniser(settings: Settings) -> PhoneRecogniser:
    """That of <folder>/phone_recogniser.pt, which is written first where it is missing; frozen."""
    plan = settings.speech_tokenizer
    dice = trainer.seeded(settings, STAGE)
    recogniser = PhoneRecogniser(plan.frame_width, len(PHONES))
    if trainer.is_trained(settings, STAGE, plan.recogniser):
        trainer.load_average(settings, STAGE, recogniser)
    else:
        _train(settings, recogniser, dice)
    return recogniser.to(trainer.device()).requires_grad_(False)


def _train(settings: Settings, recogniser: PhoneRecogniser, dice: trainer.Dice) -> None:
    plan = settings.speech_tokenizer
    utterances = [one for one in read_features(settings, of_each=plan.shards) if one.tells_sounds]
    mean, std = mel_statistics(utterances)
    recogniser.mel_mean.copy_(mean)
    recogniser.mel_std.copy_(std)
    columns = [(one.speaker, (one.mel, one.phones)) for one in utterances]
    crops = Crops(columns, (FRAMES_PER_TOKEN, FRAMES_PER_TOKEN))

    def losses_of(_: float) -> trainer.Losses:
        mel, phones = crops.batch(plan.recogniser.batch, plan.crop_tokens, dice.numpy)[1]
        mel, phones = trainer.on_device((mel.float(), phones.long()))
        logits, _ = recogniser(mel)
        right = (logits.argmax(-1) == phones).float().mean()
        return {"loss": F.cross_entropy(logits.flatten(0, 1), phones.flatten()), "right": right}

    trainer.train(settings, plan.recogniser, recogniser, dice, losses_of)


def unlike(recogniser: PhoneRecogniser, guess: Tensor, mel: Tensor, phones: Tensor) -> tuple[Tensor, Tensor]:
    """What the recogniser holds against a guess of what somebody said: two (B, F), differentiable.

    guess, mel (B, F, 80), natural log; phones (B, F). First the cross entropy of the phones (0 where one is
    UNTOLD), then how far what its layers make of the guess is from what they make of the mel, a share of
    their size.
    """
    logits, layers = recogniser(guess)
    with torch.no_grad():
        wanted = recogniser(mel)[1]
    clear = F.cross_entropy(logits.mT, phones, ignore_index=UNTOLD, reduction="none")
    distances = [(a - b).abs().mean(1) / b.abs().mean() for a, b in zip(layers, wanted, strict=True)]
    return clear, torch.stack(distances).mean(0).float()
