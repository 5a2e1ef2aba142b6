"""The words of the recogniser's pronouncing dictionary, commonest first.

pocketsphinx brings them: its dictionary (Carnegie Mellon's, BSD-like licence) says which words exist, the
unigrams of its language model how common they are.
"""

import re
from functools import cache
from pathlib import Path

import pocketsphinx

_FOLDER = Path(pocketsphinx.get_model_path()) / "en-us"
_SHORT = "a i am an as at be by do go he hi if in is it me my no of oh ok on or ox so to up us we"
_SHORT_WORDS = frozenset(_SHORT.split())


@cache
def pronunciations() -> dict[str, tuple[str, ...]]:
    """Every word of the dictionary and its ARPAbet phones, without stress."""
    lines = (_FOLDER / "cmudict-en-us.dict").read_text().splitlines()
    return {word: tuple(phones) for word, *phones in map(str.split, lines)}


@cache
def lexicon() -> tuple[str, ...]:
    """Every word of plain letters, in falling order of its probability; words of one or two letters only
    where they are words and not abbreviations."""
    words = {
        word
        for word in pronunciations()
        if re.fullmatch(r"[a-z]+('[a-z]+)?", word) and (len(word) > 2 or word in _SHORT_WORDS)
    }
    model = pocketsphinx.NGramModel(
        pocketsphinx.Config(), pocketsphinx.LogMath(), str(_FOLDER / "en-us.lm.bin")
    )
    # Words the language model does not know share one probability and stay in order of the alphabet.
    return tuple(sorted(words, key=lambda word: (-model.prob([word]), word)))


@cache
def known_words() -> frozenset[str]:
    """The words of `lexicon`, to ask whether a word is one of them."""
    return frozenset(lexicon())
