"""Draws sentences from the recogniser's trigram model: common English words beside their usual neighbours."""

import random
from functools import cache
from itertools import accumulate
from pathlib import Path

import pocketsphinx

from training.text.lexicon import lexicon

_VOCABULARY = 12_000  # of the commonest words
_CANDIDATES = 500  # drawn by how common they are, then weighed by what stands before them
_WORDS = (4, 32)
_END = "</s>"
_JOIN = "and but so because when while if before after until although which who where"
_ASK = "who what when where why how is are was were do does did can could will would"
_JOINS, _QUESTIONS = frozenset(_JOIN.split()), frozenset(_ASK.split())


def sentence(rng: random.Random) -> str:
    """A sentence in small letters with an end and a few commas; sense it makes only from word to word."""
    model = _model()
    said: list[str] = []
    while len(said) < _WORDS[1]:
        word = model.next_word(["<s>", *said][-2:], rng, may_end=len(said) >= _WORDS[0])
        if word == _END:
            break
        said.append(word)
    text = said[0]
    for word in said[1:]:
        text += ("," if word in _JOINS and rng.random() < 0.5 else "") + " " + word
    return text + ("?" if said[0] in _QUESTIONS and rng.random() < 0.7 else ".")


@cache
def _model() -> "_Trigrams":
    return _Trigrams()


class _Trigrams:
    def __init__(self) -> None:
        path = Path(pocketsphinx.get_model_path()) / "en-us" / "en-us.lm.bin"
        self._logs = pocketsphinx.LogMath()  # the model does not keep it alive
        self._model = pocketsphinx.NGramModel(pocketsphinx.Config(), self._logs, str(path))
        self._words = lexicon()[:_VOCABULARY]
        self._common = {word: self._probability(word) for word in (*self._words, _END)}
        self._sums = list(accumulate(self._common[word] for word in self._words))

    def next_word(self, before: list[str], rng: random.Random, may_end: bool) -> str:
        """before: the last two words; the model is drawn from by importance resampling."""
        drawn = rng.choices(self._words, cum_weights=self._sums, k=_CANDIDATES)
        weights = [self._probability(word, *reversed(before)) / self._common[word] for word in drawn]
        if may_end:
            drawn.append(_END)
            weights.append(self._probability(_END, *reversed(before)) * _CANDIDATES / self._sums[-1])
        return rng.choices(drawn, weights)[0]

    def _probability(self, *words: str) -> float:
        """Of the first word behind the others, the nearest first."""
        return float(self._logs.exp(self._model.prob(list(words))))
