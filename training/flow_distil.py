"""Stage: the flow learns to solve in two steps without guidance what four steps with guidance give.

The loss is that of `firstword train flow --distil`. Half of the rows are as the service has them: a shipped
speaker's own mel is the prompt, and what follows are the speech tokens of the first voice, since the language
model speaks in those whoever is asked for.
"""

import logging
from dataclasses import replace

import numpy as np

from firstword.finetune.distil import Distillation, DistilSettings, give_fixed_noise
from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw
from firstword.models.config import FRAMES_PER_TOKEN, CFMConfig, UNetFlowConfig
from firstword.models.flow.flow import Flow
from training import flow, flow_enrolment, trainer
from training.features import read_features
from training.settings import Settings, TrainSettings
from training.speaker_encoder import read_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "flow_distil"
_log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Goes on from what `flow_enrolment` left; writes <folder>/flow_distil.pt."""
    plan = settings.flow_distil
    dice = trainer.seeded(settings, STAGE)
    pairs = list(zip(read_features(settings), read_tokens(settings), strict=True))
    embeddings = read_embeddings(settings)
    first = settings.voices[0].name
    of_first = flow.Streams([one for one in pairs if one[0].speaker == first], embeddings)
    shipped = flow.Streams([one for one in pairs if one[0].speaker in settings.shipped], embeddings)
    every = flow.Streams(pairs, embeddings)
    model = flow_enrolment.load_flow(settings)
    distillation = Distillation(model, DistilSettings(plan.solver_steps)).to(trainer.device())

    def losses_of(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(flow.LENGTHS))
        number = max(1, round(plan.train.batch / 2 / length))
        asked, others, said = (one.draw(number, length, dice.numpy)[0] for one in (shipped, every, of_first))
        batch = flow_enrolment.joined(asked, others)
        draws = draw(model, batch, dice.torch)
        prompt(model, batch, draws, said, dice)
        loss, end = distillation(model, trainer.on_device(batch), trainer.on_device(draws))
        return {"loss": loss, "end": end}

    trainer.train(settings, plan.train, model, dice, losses_of)


def prompt(model: Flow, batch: FlowBatch, draws: FlowDraws, said: FlowBatch, dice: trainer.Dice) -> None:
    """Let the first rows begin with their own speech and go on with what others say, in place."""
    flow_enrolment.give_prompts(batch, draws, np.arange(len(said.tokens)), dice.numpy)
    follow(batch, draws, said)
    give_fixed_noise(model, draws, dice.numpy.random(len(batch.tokens)).tolist())


def follow(batch: FlowBatch, draws: FlowDraws, said: FlowBatch) -> None:
    """Put the speech tokens of other rows behind the prompts of the first ones, in place."""
    for row, frames in enumerate(draws.prompt_frames[: len(said.tokens)].tolist()):
        behind = frames // FRAMES_PER_TOKEN
        batch.tokens[row, behind:] = said.tokens[row, behind:]


def config(settings: Settings) -> UNetFlowConfig:
    """Return the flow's sizes, with the solver that it needs as it was trained last."""
    plain = flow.config(settings)
    if not (settings.path / f"{STAGE}.pt").exists():
        return plain
    return replace(plain, cfm=CFMConfig(num_steps=settings.flow_distil.solver_steps, inference_cfg_rate=0.0))


def load_flow(settings: Settings) -> Flow:
    """The averaged weights, as they were trained last; warns where this stage has not done all its steps."""
    if not (settings.path / f"{STAGE}.pt").exists():
        return flow_enrolment.load_flow(settings)
    warn_unless_trained(settings, STAGE, settings.flow_distil.train)
    model = flow.build(settings, config(settings))
    trainer.load_average(settings, STAGE, model)
    return model


def warn_unless_trained(settings: Settings, stage: str, plan: TrainSettings) -> None:
    if not trainer.is_trained(settings, stage, plan):
        _log.warning(
            "%s.pt has not done the stage's %d steps (it is half trained, or taken from a checkpoint): it is "
            "taken as it is",
            stage,
            plan.steps,
        )
