"""Stage 7: the flow, from speech tokens and a speaker to mel frames."""

import numpy as np
import torch
from numpy.typing import NDArray

from models.config import FRAMES_PER_TOKEN, NUM_MELS, CFMConfig, ConformerConfig, UNetConfig, UNetFlowConfig
from models.config_parser.flow import CHUNK_FRAMES, CHUNK_TOKENS
from models.flow.flow import Flow
from models.flow.training import FlowBatch, draw, flow_losses
from training import trainer
from training.features import read_features
from training.flite import SPEAKERS
from training.networks.flow import initialise, with_digit_sums
from training.networks.speech_tokenizer import NUM_CODES
from training.settings import Settings
from training.speaker_encoder import read_embeddings
from training.speech_tokenizer import read_tokens

STAGE = "flow"
_LENGTHS = (60, 100, 160, 260, 400, 600)  # speech tokens of a row; short rows come in larger batches
_PRIOR_WEIGHT = 0.5


def run(settings: Settings) -> None:
    """Writes <folder>/flow.pt."""
    plan = settings.flow
    dice = trainer.seeded(settings, STAGE)
    streams = _Streams(settings)
    model = build(settings)
    if not (settings.path / f"{STAGE}.pt").exists():
        initialise(model, streams.mean())

    def losses_of(_: float) -> trainer.Losses:
        length = int(dice.numpy.choice(_LENGTHS))
        batch = streams.draw(max(1, round(plan.train.batch / length)), length, dice.numpy)
        draws = draw(model, batch, dice.torch)
        losses = flow_losses(model, trainer.on_device(batch), trainer.on_device(draws))
        return {
            "loss": losses.matching + _PRIOR_WEIGHT * losses.prior,
            "matching": losses.matching,
            "prior": losses.prior,
        }

    trainer.train(settings, STAGE, plan.train, model, dice, losses_of)


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
    return UNetFlowConfig(NUM_CODES, encoder, estimator, CFMConfig())


def build(settings: Settings) -> Flow:
    """As it is trained: `folded` makes what is shipped of it."""
    return with_digit_sums(Flow(config(settings)))


class _Streams:
    """Pieces of the corpus, the utterances of a speaker standing one after the other."""

    def __init__(self, settings: Settings) -> None:
        self._parts: list[tuple[NDArray[np.int16], NDArray[np.float16], torch.Tensor]] = []
        embeddings = read_embeddings(settings)
        pairs = list(zip(read_features(settings), read_tokens(settings), strict=True))
        for speaker in SPEAKERS:
            mine = [(tokens, one.mel) for one, tokens in pairs if one.speaker == speaker]
            tokens, mel = (np.concatenate(column) for column in zip(*mine, strict=True))
            self._parts.append((tokens, mel, embeddings[speaker]))

    def mean(self) -> torch.Tensor:
        """-> (M,)."""
        some = np.concatenate([mel[::100] for _, mel, _ in self._parts])
        return torch.from_numpy(some.astype(np.float32).mean(0))

    def draw(self, number: int, length: int, rng: np.random.Generator) -> FlowBatch:
        rows = []
        for place in rng.integers(len(self._parts), size=number):
            tokens, mel, embeddings = self._parts[place]
            start = rng.integers(len(tokens) - length)
            frames = mel[FRAMES_PER_TOKEN * start :][: FRAMES_PER_TOKEN * length]
            rows.append((tokens[start:][:length], frames, embeddings[rng.integers(len(embeddings))].numpy()))
        tokens, mel, embedding = (torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))
        return FlowBatch(tokens.long(), torch.full((number,), length), mel.float(), embedding)
