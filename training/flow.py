"""Stage: the flow, from speech tokens and a speaker to mel frames."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw, flow_losses
from firstword.models.checkpoint.config_parser import CHUNK_FRAMES, CHUNK_TOKENS
from firstword.models.config import (
    FRAMES_PER_TOKEN,
    NUM_MELS,
    CFMConfig,
    ConformerConfig,
    UNetConfig,
    UNetFlowConfig,
)
from firstword.models.flow.flow import Flow
from training import trainer
from training.crops import Crops
from training.features import Utterance, read_features
from training.networks.flow import initialise, with_digit_sums
from training.networks.speech_tokenizer import NUM_CODES, PhoneRecogniser
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import Settings
from training.speaker_encoder import draw_embeddings, read_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "flow"
LENGTHS = (60, 100, 160, 260, 400, 600)  # speech tokens of a row; short rows come in larger batches
PRIOR_WEIGHT = 0.5
_RECOGNISED_WEIGHT = 0.25  # of each of the four things that the recogniser says


def run(settings: Settings) -> None:
    """Writes <folder>/flow.pt."""
    plan = settings.flow
    dice = trainer.seeded(settings, STAGE)
    pairs = list(zip(read_features(settings), read_tokens(settings), strict=True))
    streams = Streams(pairs, read_embeddings(settings), settings.shipped)
    recogniser = trained_recogniser(settings)
    model = build(settings)
    if not (settings.path / f"{STAGE}.pt").exists():
        initialise(model, streams.mean())

    def losses_of_step(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(LENGTHS))
        batch, phones = streams.draw(max(1, round(plan.train.batch / length)), length, dice.numpy)
        return losses_of(model, recogniser, batch, phones, draw(model, batch, dice.torch))

    trainer.train(settings, plan.train, model, dice, losses_of_step)


def losses_of(
    model: Flow, recogniser: PhoneRecogniser, batch: FlowBatch, phones: Tensor, draws: FlowDraws
) -> trainer.Losses:
    """phones (B, 2 T), of the batch's frames."""
    batch, draws, phones = trainer.on_device(batch), trainer.on_device(draws), phones.to(trainer.device())
    losses = flow_losses(model, batch, draws)
    clear, matched = unlike(recogniser, losses.mu, batch.mel, phones)
    certain = (draws.t * ~draws.is_unconditional)[:, None]  # early guesses are means of many mels
    guessed = [certain * one for one in unlike(recogniser, losses.guess, batch.mel, phones)]
    recognised = torch.stack([one.mean() for one in (clear, matched, *guessed)])
    return {
        "loss": losses.matching + PRIOR_WEIGHT * losses.prior + _RECOGNISED_WEIGHT * recognised.sum(),
        "matching": losses.matching,
        "prior": losses.prior,
        **dict(zip(("clear", "matched", "guess_clear", "guess_matched"), recognised, strict=True)),
    }


def config(settings: Settings) -> UNetFlowConfig:
    plan = settings.flow
    encoder = ConformerConfig(
        plan.encoder_width,
        plan.encoder_width,
        plan.heads,
        plan.encoder_feedforward,
        plan.encoder_layers,
        CHUNK_TOKENS,
    )
    estimator = UNetConfig(
        in_channels=4 * NUM_MELS,
        out_channels=NUM_MELS,
        channels=(plan.width,),
        head_dim=plan.head_dim,
        num_blocks=1,
        num_mid_blocks=plan.mid_blocks,
        num_heads=plan.heads,
        chunk=CHUNK_FRAMES,
    )
    return UNetFlowConfig(NUM_CODES, encoder, estimator, CFMConfig(num_steps=plan.solver_steps))


def build(settings: Settings, other: UNetFlowConfig | None = None) -> Flow:
    """As it is trained: `folded` makes what is shipped of it. other: instead of `config`."""
    return with_digit_sums(Flow(other or config(settings)))


class Streams:
    """Utterances and their speech tokens, each piece of them with an embedding of its speaker; shipped: the
    speakers that half of all pieces are of."""

    def __init__(
        self,
        pairs: Sequence[tuple[Utterance, NDArray[np.int16]]],
        embeddings: Mapping[str, Tensor],
        shipped: Collection[str] = (),
    ) -> None:
        self._embeddings = embeddings
        columns = [(one.speaker, (tokens, one.mel, one.phones)) for one, tokens in pairs]
        self._crops = Crops(columns, (1, FRAMES_PER_TOKEN, FRAMES_PER_TOKEN), shipped)

    def mean(self) -> Tensor:
        """-> (M,)."""
        some = np.concatenate([mel[::100] for _, (_, mel, _) in self._crops.streams])
        return torch.from_numpy(some.astype(np.float32).mean(0))

    def draw(self, number: int, length: int, rng: np.random.Generator) -> tuple[FlowBatch, Tensor]:
        """-> the batch and the phones of its frames (B, 2 T)."""
        speakers, (tokens, mel, phones) = self._crops.batch(number, length, rng)
        embeddings = draw_embeddings(self._embeddings, speakers, rng)
        batch = FlowBatch(tokens.long(), torch.full((number,), length), mel.float(), embeddings)
        return batch, phones.long()
