"""Stage: the flow goes on with voices that only a recording tells; shipped speakers stay as they are.

The corpus has few voices, and their embeddings tell them apart: a flow trained on them alone gives a
recording of a new voice the sound of the nearest that it knows. So half of what the others say is disguised,
and its own beginning, as the prompt, is what tells who speaks. For shipped speakers the flow before is the
teacher, so that they lose nothing; those that say much are also learned from as in the stage before.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw, flow_losses
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.flow import Flow
from training import flow, trainer
from training.disguise import disguised
from training.features import read_features
from training.parallel import read_parallel
from training.phone_recogniser import trained_recogniser
from training.settings import Settings, SettingsError
from training.speaker_encoder import draw_embeddings, read_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "flow_enrolment"
_DISGUISED_RATE = 0.5  # of the rows
_FOREIGN_RATE = 0.5  # of those are given another speaker's embedding
_PROMPT_SHARES = 0.15, 0.6  # of a row's frames
_PROMPTED_RATE = 0.7  # of the rows that are learned from a shipped speaker's teacher


def run(settings: Settings) -> None:
    """Goes on from <folder>/flow.pt; writes <folder>/flow_enrolment.pt.

    Raises SettingsError where every voice is shipped, for there is nobody to learn from, and for a taught
    voice that is not.
    """
    if len(settings.shipped) == len(settings.voices):
        raise SettingsError(f"stage {STAGE}: every voice has is_shipped: true; add some that have not")
    plan = settings.flow_enrolment
    if not plan.taught or not set(plan.taught) <= set(settings.shipped):
        raise SettingsError(f"stage {STAGE}: taught {plan.taught}; expected voices with is_shipped: true")
    dice = trainer.seeded(settings, STAGE)
    pairs = list(zip(read_features(settings), read_tokens(settings), strict=True))
    embeddings = read_embeddings(settings)
    pairs += read_parallel(settings, settings.shipped)
    shipped = flow.Streams([one for one in pairs if one[0].speaker in settings.shipped], embeddings)
    taught = flow.Streams([one for one in pairs if one[0].speaker in plan.taught], embeddings)
    others = flow.Streams([one for one in pairs if one[0].speaker not in settings.shipped], embeddings)
    recogniser = trained_recogniser(settings)
    model, before = flow.build(settings), flow.build(settings)
    for one in (model, before):
        trainer.load_average(settings, flow.STAGE, one)
    before.to(trainer.device()).requires_grad_(False)

    def losses_of(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(flow.LENGTHS))
        number = max(1, round(plan.train.batch / 2 / length))
        more = max(1, round(number * plan.taught_share))
        (batch, phones), (own, own_phones) = (
            streams.draw(rows, length, dice.numpy) for streams, rows in ((others, number), (taught, more))
        )
        batch, phones = joined(batch, own), torch.cat([phones, own_phones])
        draws = draw(model, batch, dice.torch)
        disguise(batch, draws, number, embeddings, dice.numpy)
        prompted = number + np.flatnonzero(dice.numpy.random(more) < _PROMPTED_RATE)
        give_prompts(batch, draws, prompted, dice.numpy)
        learned = flow.losses_of(model, recogniser, batch, phones, draws)
        kept = shipped.draw(number, length, dice.numpy)[0]
        kept_draws = draw(model, kept, dice.torch)
        give_prompts(kept, kept_draws, np.arange(number), dice.numpy)  # as they are spoken with
        moved = distance(model, before, kept, kept_draws)
        return learned | {"loss": learned["loss"] + plan.kept_weight * moved, "moved": moved}

    trainer.train(settings, plan.train, model, dice, losses_of)


def joined(first: FlowBatch, second: FlowBatch) -> FlowBatch:
    """The rows of both, which are equally long."""
    return FlowBatch(
        torch.cat([first.tokens, second.tokens]),
        torch.cat([first.num_tokens, second.num_tokens]),
        torch.cat([first.mel, second.mel]),
        torch.cat([first.embedding, second.embedding]),
    )


def disguise(
    batch: FlowBatch, draws: FlowDraws, rows: int, embeddings: Mapping[str, Tensor], rng: np.random.Generator
) -> None:
    """Changes half of the first `rows` in place: another voice, a longer prompt, half of them a wrong
    embedding."""
    foreign = draw_embeddings(embeddings, list(rng.choice(list(embeddings), rows)), rng)
    chosen = np.flatnonzero(rng.random(rows) < _DISGUISED_RATE)
    give_prompts(batch, draws, chosen, rng)
    for row in chosen:
        batch.mel[row] = torch.from_numpy(disguised(batch.mel[row].numpy(), rng))
        if rng.random() < _FOREIGN_RATE:
            batch.embedding[row] = foreign[row]


def give_prompts(
    batch: FlowBatch, draws: FlowDraws, rows: NDArray[np.intp], rng: np.random.Generator
) -> None:
    """Gives rows 15 to 60 % of their own mel, as long as a recording is beside what is said."""
    shares = torch.from_numpy(rng.uniform(*_PROMPT_SHARES, len(rows)))
    draws.prompt_frames[rows] = (shares * FRAMES_PER_TOKEN * batch.num_tokens[rows]).long()


def distance(model: Flow, before: Flow, batch: FlowBatch, draws: FlowDraws) -> Tensor:
    """Between what two flows say to the same: a scalar, differentiable by the first."""
    batch, draws = trainer.on_device(batch), trainer.on_device(draws)
    now = flow_losses(model, batch, draws)
    with torch.no_grad():
        then = flow_losses(before, batch, draws)
    velocity = (now.velocity - then.velocity).square().mean()
    return velocity + flow.PRIOR_WEIGHT * (now.mu - then.mu).abs().mean()


def load_flow(settings: Settings) -> Flow:
    """The averaged weights, as they were trained last."""
    model = flow.build(settings)
    is_after = (settings.path / f"{STAGE}.pt").exists()
    trainer.load_average(settings, STAGE if is_after else flow.STAGE, model)
    return model
