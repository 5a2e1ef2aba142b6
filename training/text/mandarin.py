"""Mandarin to be spoken: sentences of a grammar, and what the evaluation asks, which they leave out."""

import random
import re
from functools import cache
from pathlib import Path

from training.text.corpus import KeptOut, different
from training.text.grammar import Grammar

_FOLDER = Path(__file__).parent
_KEPT_OUT_CHARACTERS = 5
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


def make_texts(number: int, rng: random.Random, rule: str = "sentence") -> list[str]:
    """Different sentences, numbers in characters. rule: "mixed" puts both languages into each."""
    texts = different(number, _kept_out(), lambda: _grammar().sentence(rng, rule))
    return [re.sub(r"^[a-z]|\bi\b", lambda found: found[0].upper(), text) for text in texts]


@cache
def _grammar() -> Grammar:
    return Grammar(_FOLDER / "mandarin_everyday.txt", {})


@cache
def _kept_out() -> KeptOut:
    return KeptOut([*evaluation_sentences(), *mixed_sentences()], read_characters, _KEPT_OUT_CHARACTERS)
