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
_KNOWN_WORDS = 150  # of each place before
_OWN_WEIGHT = 2.0  # occurrences that a word is given of what all words are on average
_UNSEEN = 0.5  # occurrences of what was not counted
_PLACE_WEIGHTS = (1.0, 0.5)  # the words before do not come independently of each other

Readings = dict[str, tuple[str, ...]]


class Seen(NamedTuple):
    word: str
    part: str
    before: tuple[str, ...]


def write_table(path: Path, texts: Iterable[str]) -> None:
    words = readings()
    write_heteronyms(path, *count(words, list(occurrences(texts, words))))


def readings() -> dict[str, tuple[tuple[str, ...], Readings]]:
    """Of each word in two readings that of the dictionary, and by part of speech those that are others."""
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
            found[word] = (usual, others)
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
    words: dict[str, tuple[tuple[str, ...], Readings]], seen: list[Seen]
) -> tuple[dict[str, Heteronym], list[dict[str, list[float]]]]:
    """-> the table of the words, and of the clues before them at each place."""
    of_all = Counter(one.part for one in seen)
    of_words = Counter((one.word, one.part) for one in seen)
    times = Counter(one.word for one in seen)
    common: list[dict[str, object]] = []
    for place in range(REACH):
        there = Counter(one.before[-1 - place].lower() for one in seen if place < len(one.before))
        common.append(dict.fromkeys(word for word, _ in there.most_common(_KNOWN_WORDS) if word[0].isalpha()))
    of_clues: Counter[tuple[int, str, str]] = Counter()
    for one in seen:
        of_clues.update((place, clue, one.part) for place, clue in clues(one.before, common))
    table = {}
    for word, (_, others) in words.items():
        scores = []
        for part in PARTS_OF_SPEECH:
            share = (of_all[part] + _UNSEEN) / (len(seen) + _UNSEEN * len(PARTS_OF_SPEECH))
            own = of_words[word, part] + _OWN_WEIGHT * share
            scores.append(round(math.log(own / (times[word] + _OWN_WEIGHT)), 2))
        table[word] = Heteronym(others, tuple(scores))
    before: list[dict[str, list[float]]] = []
    for place, weight in enumerate(_PLACE_WEIGHTS):
        names = sorted({clue for where, clue, _ in of_clues if where == place})
        before.append(
            {
                clue: [
                    round(
                        weight
                        * math.log(
                            (of_clues[place, clue, part] + _UNSEEN) / (of_all[part] + _UNSEEN * len(names))
                        ),
                        2,
                    )
                    for part in PARTS_OF_SPEECH
                ]
                for clue in names
            }
        )
    return table, before
