"""Stage: one flow for both languages that solves in two steps without guidance.

Its front is that of the guided flow that learned Mandarin; its estimator goes on from the one that English
was distilled to. Steps of Mandarin learn what the guided flow makes of units, also behind the prompt of a
speaker of English; steps of English what the flow before makes of the same tokens, so that English stays.
"""

from firstword.finetune.distil import Distillation, DistilSettings
from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw
from firstword.models.flow.flow import Flow
from training import flow, flow_distil, trainer
from training.features import read_features
from training.mandarin.flow import LENGTHS, Streams, units_config, with_units
from training.mandarin.flow import load_flow as load_guided
from training.mandarin.speech import read_utterances
from training.networks.flow import folded
from training.settings import Settings
from training.speaker_encoder import read_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "mandarin_flow_distil"
_OWN_SHARE = 0.5  # of English steps, in which speakers say what they said


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin_flow_distil.pt."""
    plan = settings.mandarin.flow_distil
    dice = trainer.seeded(settings, STAGE)
    before = folded(flow_distil.load_flow(settings))
    guided = load_guided(settings)
    model = with_units(before, before.config.cfm)
    model.front.load_state_dict(guided.front.state_dict())
    model.speaker_projection.load_state_dict(guided.speaker_projection.state_dict())
    steps = DistilSettings(before.config.cfm.num_steps)
    from_guided, from_before = (
        Distillation(model, steps, teacher).to(trainer.device()) for teacher in (guided, before)
    )
    rows = Rows(settings, model, dice)

    def losses_of(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(LENGTHS))
        chance = dice.numpy.random()
        number = max(1, round(plan.train.batch / length))
        is_english = chance < plan.english_share
        if is_english:
            batch, draws = rows.english(number, length)
        elif chance < plan.english_share + plan.foreign_share:
            batch, draws = rows.foreign(number, length)
        else:
            batch, draws = rows.mandarin(number, length)
        distillation = from_before if is_english else from_guided
        loss, end = distillation(model, trainer.on_device(batch), trainer.on_device(draws))
        return {"loss": loss, ("english" if is_english else "mandarin"): end}

    trainer.train(settings, plan.train, model, dice, losses_of)


class Rows:
    """What the steps are of, each row behind a prompt, as the service has them."""

    def __init__(self, settings: Settings, model: Flow, dice: trainer.Dice) -> None:
        pairs = list(zip(read_features(settings), read_tokens(settings), strict=True))
        embeddings = read_embeddings(settings)
        first = settings.voices[0].name
        self._shipped = flow.Streams([one for one in pairs if one[0].speaker in settings.shipped], embeddings)
        self._first = flow.Streams([one for one in pairs if one[0].speaker == first], embeddings)
        self._mandarin = Streams(read_utterances(settings), settings.mandarin_shipped)
        self._model, self._dice = model, dice

    def english(self, number: int, length: int) -> tuple[FlowBatch, FlowDraws]:
        """Behind a shipped speaker's speech, their own words, British ones too, or the first voice's."""
        if self._dice.numpy.random() < _OWN_SHARE:
            batch = self._shipped.draw(number, length, self._dice.numpy)[0]
            return batch, self._prompted(batch, batch)
        return self._behind_english(self._first.draw(number, length, self._dice.numpy)[0])

    def foreign(self, number: int, length: int) -> tuple[FlowBatch, FlowDraws]:
        """Behind the same, Mandarin."""
        return self._behind_english(self._mandarin.draw(number, length, self._dice.numpy))

    def mandarin(self, number: int, length: int) -> tuple[FlowBatch, FlowDraws]:
        """Behind a speaker's own."""
        batch = self._mandarin.draw(number, length, self._dice.numpy)
        return batch, self._prompted(batch, batch)

    def _behind_english(self, said: FlowBatch) -> tuple[FlowBatch, FlowDraws]:
        number, length = said.tokens.shape
        batch = self._shipped.draw(number, length, self._dice.numpy)[0]
        return batch, self._prompted(batch, said)

    def _prompted(self, batch: FlowBatch, said: FlowBatch) -> FlowDraws:
        draws = draw(self._model, batch, self._dice.torch)
        flow_distil.prompt(self._model, batch, draws, said, self._dice)
        return draws


def load_flow(settings: Settings) -> Flow:
    """Return what is exported, as its stages left it; warn where the last has not done all its steps.

    Raises FileNotFoundError naming one that never ran.
    """
    if "zh" not in settings.languages:
        return folded(flow_distil.load_flow(settings))
    english = flow_distil.config(settings)
    model = Flow(units_config(english, english.cfm))
    trainer.load_average(settings, STAGE, model)
    flow_distil.warn_unless_trained(settings, STAGE, settings.mandarin.flow_distil.train)
    return model
