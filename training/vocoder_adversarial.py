"""Stage: the vocoder goes on against discriminators, which hear what spectral distances leave smooth."""

from torch import nn

from firstword.models.hift.hift import HiFT
from training import trainer, vocoder
from training.adversary import Adversary
from training.half import autocast
from training.settings import Settings

STAGE = "vocoder_adversarial"


class AdversarialPair(nn.Module):
    """A vocoder and the discriminators it is trained against, saved together."""

    def __init__(self, vocoder: HiFT, adversary: Adversary) -> None:
        super().__init__()
        self.vocoder, self.adversary = vocoder, adversary


def run(settings: Settings) -> None:
    """Goes on from <folder>/vocoder.pt; writes <folder>/vocoder_adversarial.pt."""
    plan = settings.vocoder_adversarial
    dice = trainer.seeded(settings, STAGE)
    pair = build(settings)
    if not (settings.path / f"{STAGE}.pt").exists():
        trainer.load_average(settings, vocoder.STAGE, pair.vocoder)
    distances = vocoder.Distances(settings, vocoder.read_recordings(settings), dice)

    def losses_of(_: float) -> trainer.Losses:
        known = distances(pair.vocoder, plan.train.batch)
        with autocast(known.made.device.type, settings.vocoder.is_half):
            own, fooled, matched = pair.adversary.losses(known.made, known.wanted)
        loss = known.losses["loss"] + own + plan.fooled_weight * fooled + plan.matched_weight * matched
        return known.losses | {"loss": loss, "own": own, "fooled": fooled, "matched": matched}

    faster = "adversary", plan.discriminator_rate
    trainer.train(settings, plan.train, pair, dice, losses_of, faster=faster)


def build(settings: Settings) -> AdversarialPair:
    return AdversarialPair(vocoder.build(settings), Adversary(settings.vocoder_adversarial.channels))


def load_vocoder(settings: Settings) -> HiFT:
    """The averaged weights, those trained against discriminators where there are some."""
    if (settings.path / f"{STAGE}.pt").exists():
        pair = build(settings)
        trainer.load_average(settings, STAGE, pair)
        return pair.vocoder
    model = vocoder.build(settings)
    trainer.load_average(settings, vocoder.STAGE, model)
    return model
