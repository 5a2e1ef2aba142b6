"""Stage: text tokens of the language model's own for another accent; all else of it stands still.

So nothing changes of what it says in its own accent, and a few hundred sentences teach what is learned.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.tokenizer.accents import AccentTokens
from training import language_model, trainer
from training.features import read_features
from training.language_model import GUIDE_WEIGHTS, Line, Rows, as_batch, as_line
from training.networks.language_model import LanguageModelTrainer, LMBatch
from training.settings import Settings
from training.speech_tokenizer import read_tokens
from training.text.corpus import KeptOut
from training.text_tokenizer import read_tokenizer

STAGE = "accents"
_HELD_EVERY = 20  # lines kept from the training, to see how it goes


class AccentTrainer(nn.Module):
    """Learns the last rows of a language model's text table."""

    def __init__(self, trained: LanguageModelTrainer, rows: Tensor) -> None:
        """rows (n, width): to begin with."""
        super().__init__()
        self.trained = trained.requires_grad_(False)
        self.rows = nn.Parameter(rows.clone())

    def forward(self, batch: LMBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        losses: tuple[Tensor, Tensor, Tensor, Tensor] = self.trained(batch, self.rows)
        return losses

    @torch.no_grad()
    def folded(self) -> Qwen2LM:
        """The language model alone, with what was learned. Changes this module's."""
        lm = self.trained.folded()
        lm.text_embedding.weight[-len(self.rows) :] = self.rows
        return lm


def run(settings: Settings) -> None:
    """Writes <folder>/accents.pt, with the whole language model; nothing where no voice has an accent."""
    if not settings.spoken_accents:
        return
    plan, dice = settings.accents.train, trainer.seeded(settings, STAGE)
    lines = read_lines(settings)
    dice.numpy.shuffle(lines)
    num_held = len(lines) // _HELD_EVERY
    held, lines = lines[:num_held], lines[num_held:]
    model = build(settings)
    trainer.load_average(settings, language_model.STAGE, model.trained)
    vocabulary = model.trained.lm.vocabulary
    with torch.no_grad():
        model.rows.copy_(model.trained.lm.text_embedding.weight[counterparts(settings)])
    tokenizer = read_tokenizer(settings)
    (period,), (comma,) = tokenizer.encode("."), tokenizer.encode(",")
    rows = Rows(lines, settings.language_model, plan.batch, vocabulary, (period, comma), dice.numpy)
    check = as_batch(
        [(None, line) for line in held], [False] * len(held), vocabulary, settings.language_model
    )

    def losses_of(_: float) -> trainer.Losses:
        token, _, guide, right = model(trainer.on_device(next(rows)))
        loss = token + GUIDE_WEIGHTS[1] * guide
        return {"loss": loss, "token": token, "right": right, "guide": guide}

    def after(_: int) -> dict[str, float]:
        token, _, guide, right = model(trainer.on_device(check))
        return {"held token": float(token), "right": float(right), "guide": float(guide)}

    trainer.train(settings, plan, model, dice, losses_of, after)


def load_language_model(settings: Settings) -> Qwen2LM:
    """Return the language model as English was trained last.

    Raises FileNotFoundError naming a stage that never ran.
    """
    if settings.spoken_accents:
        accented = build(settings)
        trainer.load_average(settings, STAGE, accented)
        return accented.folded()
    model = language_model.build(settings, read_tokenizer(settings).vocab_size)
    trainer.load_average(settings, language_model.STAGE, model)
    return model.folded()


def build(settings: Settings) -> AccentTrainer:
    vocab_size = read_tokenizer(settings).vocab_size
    trained = language_model.build(settings, vocab_size)
    num_rows = len(counterparts(settings))
    return AccentTrainer(trained, torch.zeros(num_rows, settings.language_model.width))


def counterparts(settings: Settings) -> list[int]:
    """Of every text id of an accent, in their order, the usual one."""
    tokenizer = read_tokenizer(settings)
    return [id for accent in settings.spoken_accents for id in AccentTokens(tokenizer, accent).usual_ids]


def read_lines(settings: Settings) -> list[Line]:
    """What the voices with an accent say, in its text ids."""
    tokenizer, kept_out = read_tokenizer(settings), KeptOut()
    written = {accent: language_model.front_end(settings, accent) for accent in settings.spoken_accents}
    tokens_of = {accent: AccentTokens(tokenizer, accent) for accent in settings.spoken_accents}
    lines = []
    for one, tokens in zip(read_features(settings), read_tokens(settings), strict=True):
        accent = settings.accent_of(one.speaker)
        if accent and one.tells_sounds and kept_out.allows(one.text):
            line = as_line(one, tokens.astype(np.int64), tokenizer, written[accent])
            lines.append(replace(line, text=np.array(tokens_of[accent].read(line.text.tolist()))))
    return lines
