"""Stage: the language model learns Mandarin's units and keeps the English that it speaks.

It goes on from what English was trained last. Batches of Mandarin, most of which no teacher was heard to
say, are learned by their tokens' cross entropy, batches of English by how far the distribution of the next
token has moved from the model before; both by the attention to the text that is said. The rows of English in
the tables stand still, those of units are sums over what units share, and the marks of pinyin have rows of
their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import IGNORED
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.tokenizer.qwen2 import PINYIN_TOKENS, Qwen2Tokenizer
from training import accents, trainer
from training.language_model import Line, Rows, as_batch, front_end, joined, read_lines
from training.mandarin.speech import Tokenized, read_unheard, read_utterances
from training.mandarin.units import NUM_UNITS, UNITS, components
from training.networks.language_model import GuidedContext, LMBatch, TokenCrossEntropy
from training.networks.new_rows import NewRows, fold, narrowed, widened, with_new_rows
from training.networks.speech_tokenizer import NUM_CODES
from training.settings import Settings
from training.text_tokenizer import read_mandarin_tokenizer

STAGE = "mandarin_language_model"
_HELD_EVERY = 20  # lines that were heard, of which one is kept from the training to see how it goes
_MIXED_TIMES = 6  # that a line with words of both languages comes, since few have them
_WITH_ENGLISH = 0.07  # lines with an English one before or behind them, for each line of Mandarin
_FASTER = 5.0  # new rows, which begin with nothing, beside the network, which knows a language
_TEXT_SCALE, _FREE_SCALE, _HEAD_FREE_SCALE, _SUM_SCALE, _HEAD_SUM_SCALE = 0.05, 0.02, 0.002, 0.08, 0.02
_BIAS = -2.5  # rare, to begin with
_TABLES = ("speech_embedding.weight", "head.weight", "head.bias")  # with a row for each speech token


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin_language_model.pt."""
    plan = settings.mandarin.language_model
    dice = trainer.seeded(settings, STAGE)
    tokenizer = read_mandarin_tokenizer(settings)
    before = accents.load_language_model(settings).to(trainer.device()).requires_grad_(False)
    model = build(settings, before)
    english = read_lines(settings, tokenizer) + accents.read_lines(settings)
    lines, unheard = (
        mandarin_lines(texts, tokenizer, front_end(settings))
        for texts in (read_utterances(settings), read_unheard(settings))
    )
    dice.numpy.shuffle(lines)
    num_held = len(lines) // _HELD_EVERY
    held, lines = lines[:num_held], [*lines[num_held:], *unheard]
    lines += [one for one in lines if (one.tokens < NUM_CODES).any()] * (_MIXED_TIMES - 1)
    lines += with_english(lines, english, dice.numpy)
    (period,), (comma,) = tokenizer.encode("."), tokenizer.encode(",")
    vocabulary = model.lm.vocabulary
    batches, english_batches = (
        Rows(
            of,
            settings.language_model,
            plan.train.batch,
            vocabulary,
            (period, comma),
            dice.numpy,
            tokens,
        )
        for of, tokens in ((lines, UNITS), (english, range(NUM_CODES)))
    )
    check = as_batch(
        [(None, line) for line in held], [False] * len(held), vocabulary, settings.language_model
    )

    def losses_of(_: float) -> trainer.Losses:
        if dice.numpy.random() < plan.english_share:
            moved, guide = model.moved(trainer.on_device(next(english_batches)), before)
            return {"loss": plan.english_weight * moved + plan.guide_weight * guide, "moved": moved}
        token, guide, right = model(trainer.on_device(next(batches)))
        loss = token + plan.guide_weight * guide
        return {"loss": loss, "token": token, "guide": guide, "right": right}

    def after(_: int) -> dict[str, float]:
        token, guide, right = model(trainer.on_device(check))
        return {"held token": float(token), "right": float(right), "guide": float(guide)}

    faster = {"parametrizations": _FASTER}
    trainer.train(settings, plan.train, model, dice, losses_of, after, faster)


class MandarinTrainer(nn.Module):
    """Trains a language model that has rows for units and marks; its English rows stand still."""

    def __init__(self, lm: Qwen2LM, num_english_texts: int) -> None:
        super().__init__()
        self.lm = lm
        self._layers = tuple({layer + one for layer, _ in lm.alignment_heads for one in (0, 1)})
        width = lm.config.qwen2.hidden_size
        shared = torch.from_numpy(components())
        lm.special_embedding.requires_grad_(False)
        with_new_rows(lm.speech_embedding, "weight", NewRows(UNITS, shared, width), _SUM_SCALE)
        with_new_rows(lm.head, "weight", NewRows(UNITS, shared, width), _HEAD_SUM_SCALE)
        with_new_rows(lm.head, "bias", NewRows(UNITS))
        num_texts = lm.config.qwen2.vocab_size
        with_new_rows(lm.text_embedding, "weight", NewRows(range(num_english_texts, num_texts)))

    def forward(self, batch: LMBatch) -> tuple[Tensor, Tensor, Tensor]:
        """-> next-token and guide losses, and the share of next tokens that are right."""
        hidden, guide = self._hidden(batch)
        targets = batch.targets[batch.targets != IGNORED]
        loss, right = TokenCrossEntropy.apply(hidden, self.lm.head.weight, self.lm.head.bias, targets)
        return loss, guide, right

    def moved(self, batch: LMBatch, before: Qwen2LM) -> tuple[Tensor, Tensor]:
        """batch: English. -> the Kullback-Leibler divergence from the language model before, the guide loss.

        What units are given is lost to English.
        """
        hidden, guide = self._hidden(batch)
        with torch.no_grad():
            ids = torch.where(batch.ids >= UNITS.stop, batch.ids - NUM_UNITS, batch.ids)
            then = before(before.embed(ids), GuidedContext(batch.read, ()))[batch.targets != IGNORED]
            wanted = before.logits(then).float().log_softmax(-1)
        log_p = F.linear(hidden, self.lm.head.weight, self.lm.head.bias).float().log_softmax(-1)
        english = narrowed(log_p.T, UNITS).T
        return F.kl_div(english, wanted, reduction="batchmean", log_target=True), guide

    @torch.no_grad()
    def folded(self) -> Qwen2LM:
        """The language model alone. Changes this module's."""
        for module in (self.lm.speech_embedding, self.lm.head, self.lm.text_embedding):
            fold(module, "weight")
        fold(self.lm.head, "bias")
        return self.lm

    def _hidden(self, batch: LMBatch) -> tuple[Tensor, Tensor]:
        """-> (N, C) of the places that answer, and the guide loss."""
        context = GuidedContext(batch.read, self._layers)
        hidden = self.lm(self.lm.embed(batch.ids), context)
        return hidden[batch.targets != IGNORED], torch.stack(context.losses).mean()


@torch.no_grad()
def with_units(lm: Qwen2LM, text_vocab_size: int) -> Qwen2LM:
    """A copy with rows for the units behind the codes, and for the new text ids."""
    wide = Qwen2LM(config(lm.config, text_vocab_size))
    state = dict(lm.state_dict())
    num_new = text_vocab_size - lm.config.qwen2.vocab_size
    texts = state["text_embedding.weight"]
    state["text_embedding.weight"] = torch.cat(
        [texts, _TEXT_SCALE * torch.randn(num_new, texts.shape[1], device=texts.device)]
    )
    for name, scale, mean in zip(
        _TABLES, (_FREE_SCALE, _HEAD_FREE_SCALE, 0.0), (0.0, 0.0, _BIAS), strict=True
    ):
        rows = torch.randn(NUM_UNITS, *state[name].shape[1:], device=texts.device)
        state[name] = widened(state[name], NUM_CODES, mean + scale * rows)
    wide.load_state_dict(state)
    return wide


@torch.no_grad()
def without_units(lm: Qwen2LM, text_vocab_size: int) -> Qwen2LM:
    """A copy that speaks English alone, with the first text ids."""
    qwen2 = replace(lm.config.qwen2, vocab_size=text_vocab_size)
    narrow = Qwen2LM(replace(lm.config, speech_token_size=NUM_CODES, qwen2=qwen2))
    state = lm.state_dict()
    state |= {name: narrowed(state[name], UNITS) for name in _TABLES}
    state["text_embedding.weight"] = state["text_embedding.weight"][:text_vocab_size]
    narrow.load_state_dict(state)
    return narrow


def config(english: Qwen2LMConfig, text_vocab_size: int) -> Qwen2LMConfig:
    qwen2 = replace(english.qwen2, vocab_size=text_vocab_size)
    return replace(english, speech_token_size=UNITS.stop, qwen2=qwen2)


def build(settings: Settings, english: Qwen2LM) -> MandarinTrainer:
    """Return the network that Mandarin is learned by. english: as it was trained last."""
    wide = with_units(english, read_mandarin_tokenizer(settings).vocab_size)
    return MandarinTrainer(wide, english.config.qwen2.vocab_size)


def load_language_model(settings: Settings) -> Qwen2LM:
    """Return what is exported, as its stages left it. Raises FileNotFoundError naming one that never ran."""
    english = accents.load_language_model(settings)
    if "zh" not in settings.languages:
        return english
    model = build(settings, english)
    trainer.load_average(settings, STAGE, model)
    return model.folded()


def mandarin_lines(
    texts: Sequence[Tokenized], tokenizer: Qwen2Tokenizer, written: Callable[[str], str]
) -> list[Line]:
    """What is said in characters, as the language model sees it.

    Left out is what is English as a whole, and what is not read as it was said: as many marks of pinyin.
    """
    pinyin = {id for mark in PINYIN_TOKENS for id in tokenizer.encode(mark)}
    lines = []
    for one in texts:
        ids = np.array(tokenizer.encode(written(one.text)))
        is_mark = np.isin(ids, list(pinyin))
        places = np.flatnonzero(is_mark)
        num_said = one.marks.max(initial=-1) + 1
        if not 0 < num_said == len(places):
            continue
        known = one.marks[:, 1:] >= 0
        about = np.where(known, places[one.marks.clip(min=0)], one.marks)
        characters = np.where(is_mark, (np.cumsum(is_mark) - 1) // 2, -1)  # most have two marks
        unknown = np.zeros(len(one.tokens), np.int64)  # phones
        lines.append(Line(one.speaker, ids, characters, one.tokens.astype(np.int64), about, unknown))
    return lines


def with_english(lines: Sequence[Line], english: Sequence[Line], rng: np.random.Generator) -> list[Line]:
    """Some of the lines again, behind an English one or before it."""
    places = rng.integers((len(lines), len(english)), size=(round(_WITH_ENGLISH * len(lines)), 2))
    pairs = [(lines[one], english[other]) for one, other in places.tolist()]
    return [
        joined(other, one) if rng.random() < 0.5 else replace(joined(one, other), speaker=one.speaker)
        for one, other in pairs
    ]
