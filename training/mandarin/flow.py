"""Stage: a flow with guidance learns Mandarin's units, the teacher of the one that is exported.

It has the front and the speakers of the flow that English was trained with last, and the estimator from
before that was distilled. While it learns units, `mu` of English tokens is held where it was, since the
estimator that English is shipped with reads it. A recogniser of units hears what it makes.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from firstword.finetune.flow_matching import FlowBatch, draw
from firstword.models.config import FRAMES_PER_TOKEN, CFMConfig, UNetFlowConfig
from firstword.models.flow.encoder import ConformerFront, without_lookahead
from firstword.models.flow.flow import Flow
from training import flow_distil, flow_enrolment, trainer
from training.crops import Crops
from training.features import read_features
from training.flow import config, losses_of
from training.mandarin.recogniser import frames_of, trained_recogniser
from training.mandarin.speech import Utterance, read_utterances
from training.mandarin.units import NUM_UNITS, UNITS, components
from training.networks.flow import folded
from training.networks.new_rows import NewRows, fold, narrowed, with_new_rows
from training.networks.speech_tokenizer import NUM_CODES
from training.settings import Settings
from training.speaker_encoder import draw_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "mandarin_flow"
LENGTHS = (80, 120, 200, 300)  # speech tokens of a row
_ENGLISH_ROWS, _ENGLISH_TOKENS = 2, 160  # of which `mu` is held
_MIN_EMBEDDED_S = 2.5  # of an utterance whose embedding is one of its speaker's
_FASTER = 4.0  # the table of tokens, beside the network
_FREE_SCALE, _SUM_SCALE = 0.01, 0.1


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin_flow.pt. Raises FileNotFoundError where no flow of English has guidance."""
    plan = settings.mandarin.flow
    dice = trainer.seeded(settings, STAGE)
    before, guided = _english_flows(settings)
    utterances = read_utterances(settings)
    streams = Streams(utterances, settings.mandarin_shipped)
    recogniser = trained_recogniser(settings, utterances)
    pairs = zip(read_features(settings), read_tokens(settings), strict=True)
    english = Crops([(one.speaker, (tokens,)) for one, tokens in pairs], (1,))
    before = before.to(trainer.device()).requires_grad_(False)
    model = with_units(before, config(settings).cfm)
    model.estimator.load_state_dict(guided.estimator.state_dict())
    add_sums(model)

    def losses_of_step(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(LENGTHS))
        batch = streams.draw(max(1, round(plan.train.batch / length)), length, dice.numpy)
        draws = draw(model, batch, dice.torch)
        losses = losses_of(model, recogniser, batch, frames_of(batch.tokens), draws)
        (tokens,) = english.batch(_ENGLISH_ROWS, _ENGLISH_TOKENS, dice.numpy)[1]
        moved = mu_moved(model, before, tokens.long().to(trainer.device()), draws.is_streaming)
        return losses | {"loss": losses["loss"] + plan.kept_weight * moved, "moved": moved}

    trainer.train(settings, plan.train, model, dice, losses_of_step, faster={"front.embedding": _FASTER})


def _english_flows(settings: Settings) -> tuple[Flow, Flow]:
    """Return the flow of English as it was trained last, and as it was with guidance."""
    last = folded(flow_distil.load_flow(settings))
    guided = folded(flow_enrolment.load_flow(settings))
    state = last.estimator.state_dict()
    is_same = all(torch.equal(value, state[name]) for name, value in guided.estimator.state_dict().items())
    if is_same and last.config.cfm.inference_cfg_rate == 0:
        raise FileNotFoundError(
            f"{settings.path}: no guided flow; run `python -m training.shipped --guided DIRECTORY` first"
        )
    return last, guided


def mu_moved(model: Flow, before: Flow, tokens: Tensor, is_streaming: bool) -> Tensor:
    """tokens (B, T): English. -> the mean absolute distance of the two flows' `mu`."""
    ids = without_lookahead(tokens, model.config.lookahead_tokens)
    with torch.no_grad():
        then = before.mu(ids, is_streaming).float()
    return (model.mu(ids, is_streaming).float() - then).abs().mean()


class Streams:
    """Mandarin utterances, each piece of them with an embedding of its speaker; shipped: those that half of
    all pieces are of."""

    def __init__(self, utterances: Sequence[Utterance], shipped: Collection[str]) -> None:
        embeddings: dict[str, list[Tensor]] = {}
        for one in utterances:
            if one.duration_s >= _MIN_EMBEDDED_S:
                embeddings.setdefault(one.speaker, []).append(torch.from_numpy(one.embedding))
        self._embeddings = {speaker: torch.stack(mine) for speaker, mine in embeddings.items()}
        columns = [
            (one.speaker, (one.tokens, one.mel)) for one in utterances if one.speaker in self._embeddings
        ]
        self._crops = Crops(columns, (1, FRAMES_PER_TOKEN), shipped)

    def draw(self, number: int, length: int, rng: np.random.Generator) -> FlowBatch:
        speakers, (tokens, mel) = self._crops.batch(number, length, rng)
        embeddings = draw_embeddings(self._embeddings, speakers, rng)
        return FlowBatch(tokens.long(), torch.full((number,), length), mel.float(), embeddings)


@torch.no_grad()
def with_units(flow: Flow, cfm: CFMConfig) -> Flow:
    """A copy with rows for the units behind the codes, near the codes' mean, solved by `cfm`."""
    assert isinstance(flow.config, UNetFlowConfig), flow.config
    wide = Flow(units_config(flow.config, cfm))
    state = dict(flow.state_dict())
    table = state["front.embedding.weight"]
    rows = table.mean(0) + _FREE_SCALE * torch.randn(NUM_UNITS, table.shape[1], device=table.device)
    wide.load_state_dict(state | {"front.embedding.weight": torch.cat([table, rows])})
    return wide


@torch.no_grad()
def without_units(flow: Flow) -> Flow:
    """A copy that knows English tokens alone."""
    assert isinstance(flow.config, UNetFlowConfig), flow.config
    narrow = Flow(replace(flow.config, vocab_size=NUM_CODES))
    state = dict(flow.state_dict())
    narrow.load_state_dict(
        state | {"front.embedding.weight": narrowed(state["front.embedding.weight"], UNITS)}
    )
    return narrow


def units_config(english: UNetFlowConfig, cfm: CFMConfig) -> UNetFlowConfig:
    return replace(english, vocab_size=UNITS.stop, cfm=cfm)


def add_sums(flow: Flow) -> Flow:
    """The same flow, whose rows of units are trained as sums over what units share."""
    assert isinstance(flow.front, ConformerFront), flow.front
    width = flow.front.embedding.embedding_dim
    new = NewRows(UNITS, torch.from_numpy(components()), width, keeps_rest=False)
    with_new_rows(flow.front.embedding, "weight", new, _SUM_SCALE)
    return flow


def load_flow(settings: Settings) -> Flow:
    """Return the flow with guidance, its weights averaged. Raises FileNotFoundError."""
    model = add_sums(Flow(units_config(config(settings), config(settings).cfm)))
    trainer.load_average(settings, STAGE, model)
    assert isinstance(model.front, ConformerFront), model.front
    fold(model.front.embedding, "weight")
    return model
