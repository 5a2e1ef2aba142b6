"""The tokenizer's encoder goes on against the flow that was trained on its tokens.

The flow stands still, so a token keeps its meaning and the language model its tokens; the encoder learns to
choose those of which the flow makes what was said.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.encoder import ConformerFront
from training import flow, ragged, speech_tokenizer, trainer
from training.crops import Crops
from training.features import WHISPER_FRAMES_PER_TOKEN, Utterance, read_features
from training.flow_matching import FlowBatch, draw, flow_losses
from training.networks.flow import folded
from training.networks.speech_tokenizer import NUM_CODES, NUM_DIGITS, NUM_LEVELS, TokenEncoder
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import Settings
from training.speaker_encoder import read_embeddings

STAGE = "tokenizer_through_flow"
_GAIN = 0.25  # as the tokenizer's first training
_MU_WEIGHT = 0.5  # of what is said of `mu`, which knows no speaker


class ChosenCodes(nn.Module):
    """The flow's table of codes; what it gives can be differentiated by the digits of a code.

    By a digit the table has no slope: it is taken from the code's two neighbors in that digit.
    """

    table: Tensor  # (codes, C)
    slopes: Tensor  # (codes, 8, C)

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)
        code = torch.arange(NUM_CODES)
        steps = []
        for power in NUM_LEVELS ** torch.arange(NUM_DIGITS):
            digit = code // power % NUM_LEVELS
            above = code + power * (digit < NUM_LEVELS - 1)
            below = code - power * (digit > 0)
            steps.append((table[above] - table[below]) / ((above - below) / power)[:, None])
        self.register_buffer("slopes", torch.stack(steps, dim=1))
        self.digits = torch.zeros(0)  # (B, T, 8), of the codes that come next, not rounded

    def forward(self, codes: Tensor) -> Tensor:
        """codes (B, T + more) -> (B, T + more, C)."""
        moved = self.digits - self.digits.detach()  # nothing, but its gradient
        own = codes[:, : moved.shape[1]]
        moves = torch.einsum("btd,btdc->btc", moved, self.slopes[own])
        values = nn.functional.embedding(codes, self.table)
        return torch.cat([values[:, : moved.shape[1]] + moves, values[:, moved.shape[1] :]], dim=1)


def run(settings: Settings) -> None:
    """Goes on from the stages speech_tokenizer and flow; writes <folder>/tokenizer_through_flow.pt."""
    plan = settings.tokenizer_through_flow
    dice = trainer.seeded(settings, STAGE)
    utterances = read_features(settings, whisper=True, of_each=settings.speech_tokenizer.shards)
    recogniser = trained_recogniser(settings, utterances)
    rows = _Rows(settings, utterances)
    encoder = load_encoder(settings)
    painter = flow.build(settings)
    trainer.load_average(settings, flow.STAGE, painter)
    front = folded(painter).requires_grad_(False).front
    assert isinstance(front, ConformerFront), front
    chosen = ChosenCodes(front.embedding.weight.detach().clone())
    front.embedding = chosen  # type: ignore[assignment]
    painter.to(trainer.device())
    powers = encoder.powers.to(trainer.device())

    def losses_of(_: float) -> trainer.Losses:
        heard, mel, phones, embedding = rows.draw(plan.train.batch, plan.crop_tokens, dice)
        lengths = torch.full((plan.train.batch,), plan.crop_tokens)
        batch = FlowBatch(phones[:, ::FRAMES_PER_TOKEN], lengths, mel, embedding)  # its tokens come below
        draws = draw(painter, batch, dice.torch)
        draws.t.zero_()  # later the mel itself tells what was said
        draws.is_unconditional.zero_()
        batch, draws = trainer.on_device(batch), trainer.on_device(draws)
        heard, mel, phones = trainer.on_device((heard, mel, phones))
        chosen.digits = encoder.digits_of(heard.mT)
        codes = ((chosen.digits.detach().round() + 1).long() * powers).sum(-1)
        batch = replace(batch, tokens=codes)
        losses = flow_losses(painter, batch, draws)
        clear, matched = (one.mean() for one in unlike(recogniser, losses.mu, mel, phones))
        guess_clear, guess_matched = (one.mean() for one in unlike(recogniser, losses.guess, mel, phones))
        near = (losses.guess - mel).abs().mean()
        of_mu, of_guess = losses.prior + clear + matched, near + guess_clear + guess_matched
        return {
            "loss": of_guess + _MU_WEIGHT * of_mu,
            "l1": near,
            "clear": guess_clear,
            "matched": guess_matched,
            "mu_l1": losses.prior,
            "mu_clear": clear,
            "mu_matched": matched,
        }

    trainer.train(settings, STAGE, plan.train, encoder, dice, losses_of)


def load_encoder(settings: Settings) -> TokenEncoder:
    """As it was trained last."""
    model = speech_tokenizer.build(settings)
    trainer.load_average(settings, speech_tokenizer.STAGE, model)
    if (settings.path / f"{STAGE}.pt").exists():
        trainer.load_average(settings, STAGE, model.encoder)
    return model.encoder


class _Rows:
    """The corpus, each piece of it with an embedding of its speaker."""

    def __init__(self, settings: Settings, utterances: Sequence[Utterance]) -> None:
        self._embeddings = read_embeddings(settings)
        columns = [(one.speaker, (one.heard, one.mel, one.phones)) for one in utterances]
        self._crops = Crops(columns, (WHISPER_FRAMES_PER_TOKEN, FRAMES_PER_TOKEN, FRAMES_PER_TOKEN))

    def draw(self, number: int, length: int, dice: trainer.Dice) -> tuple[Tensor, ...]:
        """-> whisper (B, 4 T, 128), louder or softer, mel (B, 2 T, 80), phones (B, 2 T), voice (B, 192)."""
        pieces: list[list[ragged.Array]] = []
        embeddings = []
        for speaker, columns in self._crops.draw(number, length, dice.numpy):
            pieces.append(columns)
            embeddings.append(self._embeddings[speaker][dice.numpy.integers(len(self._embeddings[speaker]))])
        whisper, mel, phones = (torch.from_numpy(np.stack(one)) for one in zip(*pieces, strict=True))
        gain = (torch.rand(number, 1, 1, generator=dice.torch) * 2 - 1) * _GAIN
        return whisper.float() + gain, mel.float(), phones.long(), torch.stack(embeddings)
