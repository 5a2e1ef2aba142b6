"""Counts in tagged texts which part of speech a word that is read in two ways has, and what stands before it.

Readings are misaki's (Apache-2.0), tags are those of hibari's tagger, by which the teachers read these words.
"""

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from firstword.models.tokenizer.heteronyms import (
    PARTS_OF_SPEECH,
    REACH,
    TOKEN,
    Heteronym,
    clues,
    write_heteronyms,
)
from training.text.arpabet import marks_of

_LEXICON = "lexicon_us_gold.json.gz"
_PART_OF_TAG = {
    "NN": "noun",
    "VBD": "past",
    "VBN": "participle",
    "VB": "verb",
    "JJ": "adjective",
    "RB": "adverb",
}
_KEY_OF_PART = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV"}
_KEY_OF_PART |= {"past": "VBD", "participle": "VBN"}
_LEFT_OUT = frozenset(("that", "used"))  # differs by stress alone; is told by the word behind
_KNOWN_WORDS = 150  # at each distance before
_OWN_WEIGHT = 2.0  # occurrences that a word is given of what all words are on average
_UNSEEN = 0.5  # occurrences of what was not counted
_DISTANCE_WEIGHTS = (1.0, 0.5)  # the words before do not come independently of each other

Readings = dict[str, tuple[str, ...]]
"""The sounds by part of speech."""


class Seen(NamedTuple):
    word: str
    part: str
    before: tuple[str, ...]


def write_table(path: Path, texts: Iterable[str]) -> None:
    words = readings()
    write_heteronyms(path, *count(words, list(occurrences(texts, words))))


def readings() -> dict[str, Readings]:
    """Of each word that is read in two ways those readings that are not the dictionary's."""
    import hibari

    found = {}
    entries = json.loads(gzip.decompress((Path(hibari.__file__).parent / "assets" / _LEXICON).read_bytes()))
    for word, read in entries.items():
        if not isinstance(read, dict) or not word.isalpha() or not word.islower() or word in _LEFT_OUT:
            continue
        marks = {key: marks_of(symbols) for key, symbols in read.items() if symbols}
        usual = marks["DEFAULT"]
        others: Readings = {}
        for part, key in _KEY_OF_PART.items():
            sounds = marks.get(key) or (marks.get("VERB") if part in ("past", "participle") else None)
            if sounds is not None and sounds != usual:
                others[part] = sounds
        if others and usual is not None:
            found[word] = others
    return found


def occurrences(texts: Iterable[str], words: Iterable[str]) -> Iterator[Seen]:
    """Where the texts have one of the words, with its part of speech in the tagger's eyes."""
    from hibari.g2p import G2P

    wanted, g2p = frozenset(words), G2P(oov=False)
    for text in texts:
        tokens = list(TOKEN.finditer(text))
        if wanted.isdisjoint(token[0].lower() for token in tokens):
            continue
        parts = _parts_by_place(g2p, text)
        for number, token in enumerate(tokens):
            if token[0].lower() in wanted and token.start() in parts:
                before = tuple(one[0] for one in tokens[max(0, number - REACH) : number])
                yield Seen(token[0].lower(), parts[token.start()], before)


def _parts_by_place(g2p: Any, text: str) -> dict[int, str]:
    """The part of speech of what begins at each place."""
    parts, end = {}, 0
    for token in g2p.tokenize(text):
        start = text.find(token.text, end)
        if start < 0:
            break  # the tagger has read it as other characters
        end = start + len(token.text)
        tag = token.tag or ""
        parts[start] = _PART_OF_TAG.get(tag) or _PART_OF_TAG.get(tag[:2], "other")
    return parts


def count(
    words: dict[str, Readings], seen: list[Seen]
) -> tuple[dict[str, Heteronym], list[dict[str, list[float]]]]:
    """-> the table of the words, and of the clues before them at each distance."""
    of_all = Counter(one.part for one in seen)
    of_words = Counter((one.word, one.part) for one in seen)
    times = Counter(one.word for one in seen)
    common: list[dict[str, object]] = []
    for distance in range(REACH):
        there = Counter(one.before[-1 - distance].lower() for one in seen if distance < len(one.before))
        common.append(dict.fromkeys(word for word, _ in there.most_common(_KNOWN_WORDS) if word[0].isalpha()))
    of_clues: Counter[tuple[int, str, str]] = Counter()
    for one in seen:
        of_clues.update((distance, clue, one.part) for distance, clue in clues(one.before, common))
    table = {}
    for word, others in words.items():
        scores = []
        for part in PARTS_OF_SPEECH:
            share = (of_all[part] + _UNSEEN) / (len(seen) + _UNSEEN * len(PARTS_OF_SPEECH))
            own = of_words[word, part] + _OWN_WEIGHT * share
            scores.append(round(math.log(own / (times[word] + _OWN_WEIGHT)), 2))
        table[word] = Heteronym(others, tuple(scores))
    before: list[dict[str, list[float]]] = []
    for distance, weight in enumerate(_DISTANCE_WEIGHTS):
        names = sorted({clue for where, clue, _ in of_clues if where == distance})
        totals = {part: of_all[part] + _UNSEEN * len(names) for part in PARTS_OF_SPEECH}
        scores_of: dict[str, list[float]] = {}
        for clue in names:
            shares = [(of_clues[distance, clue, part] + _UNSEEN) / totals[part] for part in PARTS_OF_SPEECH]
            scores_of[clue] = [round(weight * math.log(share), 2) for share in shares]
        before.append(scores_of)
    return table, before
