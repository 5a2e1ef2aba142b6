"""Words that are spelled alike and read in two ways: "a record", "to record". The words before tell which.

What stands behind is not looked at, so that text which comes word by word is read as a whole text is. The
part of speech is guessed by naive Bayes: how probable each is for the word, times how probable the two words
before are in front of each. `training.pronunciation.heteronyms` counts both in tagged texts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from firstword.models.tokenizer.arpabet import ARPABET_TOKENS
from firstword.models.tokenizer.interface import TokenizerError, read_text_file

HETERONYMS_FILE: Final = "heteronyms.json"
PARTS_OF_SPEECH: Final = ("noun", "verb", "past", "participle", "adjective", "adverb", "other")
REACH: Final = 2  # words before that are looked at
TOKEN: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|['\u2019])*|\d+|[^\w\s]")  # a word, a number or a sign

_MAX_OPEN: Final = 40  # letters of a word that may go on
_OPEN_WORD = re.compile(rf"[A-Za-z][A-Za-z'\u2019]{{0,{_MAX_OPEN}}}\Z")
_NOTHING = (0.0,) * len(PARTS_OF_SPEECH)
_ENDING = re.compile("(?:n't|'ll|'ve|'re|'s|ly|ing|ed|al|ive|ous|ful|less|ic|ble|ary|est|ion|er|s)$")


def clues(before: Sequence[str], known: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, str]]:
    """What tells something of the word behind: how far back it stands, from 0, and what it is.

    before: words, numbers and signs of the text, the last one next to the word. known: the words that are
    told apart at each distance; of others only the ending counts.
    """
    for distance, words in enumerate(known):
        word = before[-1 - distance].lower().replace("\u2019", "'") if distance < len(before) else "^"
        if word in words or word == "^":
            yield distance, word
        elif word[0].isalpha():
            ending = _ENDING.search(word)
            yield distance, f"-{ending[0]}" if ending else "-"
        else:
            yield distance, "#" if word[0].isdigit() else "."


@dataclass(frozen=True, slots=True)
class Heteronym:
    readings: Mapping[str, tuple[str, ...]]  # by part of speech, where it is not that of the dictionary
    scores: tuple[float, ...]  # of PARTS_OF_SPEECH, logarithms


def length_of_open_word(text: str) -> int:
    """The number of letters at its end, of a word that may go on."""
    found = _OPEN_WORD.search(text)
    return 0 if found is None else len(found[0])


class Heteronyms:
    """The table of a checkpoint. Threads may share one."""

    def __init__(
        self, words: Mapping[str, Heteronym], before: Sequence[Mapping[str, Sequence[float]]]
    ) -> None:
        """before: at each distance by clue the scores of PARTS_OF_SPEECH, logarithms."""
        self.words = words
        self._before = before

    def find(self, text: str, before: str = "") -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where a word begins and ends that is not read as the dictionary has it, and its sounds.

        before: the text in front of it, of which the last words are enough.
        """
        words: list[str] = TOKEN.findall(before)
        for token in TOKEN.finditer(text):
            if found := self.words.get(token[0].lower()):
                scores = list(found.scores)
                for distance, clue in clues(words[-REACH:], self._before):
                    more = self._before[distance].get(clue, _NOTHING)
                    scores = [score + other for score, other in zip(scores, more, strict=True)]
                sounds = found.readings.get(PARTS_OF_SPEECH[scores.index(max(scores))])
                if sounds is not None:
                    yield token.start(), token.end(), sounds
            words.append(token[0])

    def num_open(self, text: str) -> int:
        """How many characters at the end of a text may be read otherwise once more comes."""
        return length_of_open_word(text)

    def write(self, text: str) -> str:
        """Replace each of these words by its sounds."""
        return with_sounds(text, self.find(text))


def with_sounds(text: str, found: Iterable[tuple[int, int, Sequence[str]]]) -> str:
    """Replace words of a text by their sounds; found: in order, where each begins and ends, its sounds."""
    pieces, written = [], 0
    for start, end, sounds in found:
        pieces += [text[written:start], *sounds]
        written = end
    return "".join([*pieces, text[written:]])


def read_heteronyms(path: Path) -> Heteronyms:
    """Raises TokenizerError."""
    try:
        content = json.loads(read_text_file(path))
        words = {
            word: Heteronym(
                {part: _sounds(sounds) for part, sounds in entry["readings"].items()},
                _scores(entry["scores"]),
            )
            for word, entry in content["words"].items()
        }
        before = [
            {clue: _scores(scores) for clue, scores in scores_of.items()} for scores_of in content["before"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TokenizerError(f"{path}: not a table of words that are read in two ways ({error})") from error
    return Heteronyms(words, before)


def write_heteronyms(
    path: Path, words: Mapping[str, Heteronym], before: Sequence[Mapping[str, Sequence[float]]]
) -> None:
    """The same tables give the same bytes; a word or a clue a line."""
    entries = {
        word: {
            "readings": {
                part: " ".join(one.strip("[]") for one in read) for part, read in one.readings.items()
            },
            "scores": one.scores,
        }
        for word, one in sorted(words.items())
    }
    tables = [{clue: list(table[clue]) for clue in sorted(table)} for table in before]
    lines = [f'{{"words": {{\n{_lines(entries)}\n}}, "before": [']
    lines.append(",\n".join(f"{{\n{_lines(table)}\n}}" for table in tables))
    path.write_text("\n".join([*lines, "]}\n"]), encoding="utf-8")


def _lines(entries: Mapping[str, object]) -> str:
    return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items())


def _sounds(written: str) -> tuple[str, ...]:
    sounds = tuple(f"[{one}]" for one in written.split())
    if not sounds or not set(sounds) <= set(ARPABET_TOKENS):
        raise ValueError(f"{written!r} are no sounds")
    return sounds


def _scores(given: Sequence[float]) -> tuple[float, ...]:
    scores = tuple(float(one) for one in given)
    if len(scores) != len(PARTS_OF_SPEECH):
        raise ValueError(f"{len(scores)} scores, expected {len(PARTS_OF_SPEECH)}")
    return scores
