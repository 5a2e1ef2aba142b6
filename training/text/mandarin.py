"""Mandarin to be spoken: sentences of a grammar, and what the evaluation asks, which they leave out."""

import random
import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

from training.settings import MandarinCorpusSettings
from training.text.corpus import KeptOut, different
from training.text.grammar import Grammar

_FOLDER = Path(__file__).parent
_KEPT_OUT_CHARACTERS = 5
_NUM_WORDS = (1, 1, 1, 2, 2, 3)
_PHRASE_WORDS = (2, 3, 4, 5, 6, 8)
_PAUSES = 0.3  # of a phrase's words have a comma behind them
_RARITY = 0.35  # the power of how often a word is used by which it is drawn
_ENGLISH_LENGTHS = range(20, 110)  # letters
_WORD = re.compile(r"(?<![\u4e00-\u9fff])[\u4e00-\u9fff]{2,6}(?![\u4e00-\u9fff])")
_DICTIONARY_WORD = re.compile(r"[\u4e00-\u9fff]{2,4}")
_COUNTED = 3
_UNIT = re.compile(r"[\u3400-\u9fff]|[a-z']*[a-z][a-z']*")


def evaluation_sentences() -> list[str]:
    """200 written by hand: 100 everyday ones, then 20 of hard words, 20 numbers, 20 questions, 12 lists,
    12 names, 8 of one word, 8 long ones.
    """
    return (_FOLDER / "mandarin.txt").read_text(encoding="utf-8").splitlines()


def mixed_sentences() -> list[str]:
    """28 with an English word among Chinese ones, then 12 the other way round."""
    return (_FOLDER / "mixed.txt").read_text(encoding="utf-8").splitlines()


def read_characters(text: str) -> list[str]:
    """Chinese characters one by one, and words of Latin letters."""
    return _UNIT.findall(text.lower())


def make_corpus(plan: MandarinCorpusSettings, english: Sequence[str], rng: random.Random) -> list[str]:
    """What is to be said, shuffled; english: texts to choose from that are English as a whole."""
    sentences = make_texts(plan.sentences + 2 * plan.joined, rng)
    alone, rest = sentences[: plan.sentences], sentences[plan.sentences :]
    joined = [one + other for one, other in zip(rest[::2], rest[1::2], strict=True)]
    texts = [*alone, *(text for text in joined if _kept_out().allows(text))]
    texts += make_texts(plan.mixed, rng, "mixed")
    texts += different(plan.words, _kept_out(), lambda: _words(rng))
    texts += different(plan.phrases, _kept_out(), lambda: _phrase(rng))
    fitting = [text for text in english if len(text) in _ENGLISH_LENGTHS]
    texts += rng.sample(fitting, min(plan.english, len(fitting)))
    rng.shuffle(texts)
    return texts


def make_texts(number: int, rng: random.Random, rule: str = "sentence") -> list[str]:
    """Different sentences, numbers in characters. rule: "mixed" puts both languages into each."""
    texts = different(number, _kept_out(), lambda: _grammar().sentence(rng, rule))
    return [re.sub(r"^[a-z]|\bi\b", lambda found: found[0].upper(), text) for text in texts]


def _words(rng: random.Random) -> str:
    """One everyday word to three."""
    return "，".join(rng.sample(_everyday_words(), rng.choice(_NUM_WORDS))) + rng.choice("。。。。！？")  # noqa: RUF001


def _phrase(rng: random.Random) -> str:
    """Words of a dictionary, rare ones as well, so that sounds meet that no grammar brings together."""
    words, sums = _dictionary()
    drawn = rng.choices(words, cum_weights=sums, k=rng.choice(_PHRASE_WORDS))
    joined = [word + rng.choice(("，", "、")) if rng.random() < _PAUSES else word for word in drawn[:-1]]  # noqa: RUF001
    return "".join(joined) + drawn[-1] + rng.choice("。。。。！？")  # noqa: RUF001


@cache
def _dictionary() -> tuple[list[str], list[float]]:
    """jieba's words of two to four characters that were counted thrice, and the sums of their weights."""
    import jieba

    path = Path(jieba.__file__).with_name("dict.txt")
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    counts = {
        row[0]: int(row[1]) for row in rows if _DICTIONARY_WORD.fullmatch(row[0]) and int(row[1]) >= _COUNTED
    }
    return list(counts), list(accumulate(count**_RARITY for count in counts.values()))


@cache
def _everyday_words() -> list[str]:
    return sorted(set(_WORD.findall((_FOLDER / "mandarin_everyday.txt").read_text(encoding="utf-8"))))


@cache
def _grammar() -> Grammar:
    return Grammar(_FOLDER / "mandarin_everyday.txt", {})


@cache
def _kept_out() -> KeptOut:
    return KeptOut([*evaluation_sentences(), *mixed_sentences()], read_characters, _KEPT_OUT_CHARACTERS)
