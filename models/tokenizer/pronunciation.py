"""Text read as sounds: words become ARPAbet tokens, `[HH][AH0][L][OW1]`, before they are tokenized.

A dictionary and, for words it does not have, a small network over letters. Word by word, so that text can
come word by word; what is no word stays as it is, tokens that a client wrote among it.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from string import ascii_letters
from typing import Final

import numpy as np
import onnxruntime

from firstword.models.onnx_graphs.session import session_options
from firstword.models.tokenizer.arpabet import ARPABET_TOKENS
from firstword.models.tokenizer.interface import TextTokenizer, TokenizerError, read_sorted_lines
from firstword.models.tokenizer.mandarin import Mandarin
from firstword.models.tokenizer.qwen2 import QWEN2_MARKS

DICTIONARY_FILE = "dictionary.gz"
NETWORK_FILE = "letters.onnx"
FIRST_CODE = 0x21  # of the characters that stand for sounds in the dictionary's file
LETTERS = "abcdefghijklmnopqrstuvwxyz'"

SOUNDS = tuple(token for token in ARPABET_TOKENS if f"{token[:-1]}0]" not in ARPABET_TOKENS)
"""Consonants, and vowels with their stress."""

Dictionary = dict[str, tuple[str, ...]]

_OF_DICTIONARIES = f"{ascii_letters}'\t\n".encode() + bytes(
    range(FIRST_CODE, FIRST_CODE + len(SOUNDS))
)  # what may stand in their files
# Nothing is begun anew within what has failed: a long run of any character takes a time in proportion.
_UNIT = re.compile(r"\[[^\[\]\s]*+\]|<[^<>\s]*+>|(?<!')'*+[^\W\d_](?:[^\W\d_]|')*")
_MARK = re.compile(r"\[[^\[\]\s]*+\]|<[^<>\s]*+>")
_LONGEST_INITIALS = 5
_MAX_LETTERS = 60  # that the network reads at once
MAX_LISTED: Final = 64  # letters: longer words are in no dictionary
_VOICELESS = frozenset(("[P]", "[T]", "[K]", "[F]", "[TH]"))
_SIBILANT = frozenset(("[S]", "[Z]", "[SH]", "[ZH]", "[CH]", "[JH]"))


def read_dictionary(path: Path) -> Dictionary:
    """Raises TokenizerError."""
    return dict(SortedDictionary(path).items())


class SortedDictionary:
    """A dictionary's file: one word a line, a tab, its sounds as a character each, in the words' order.

    Looked up where it stands, because splitting hundreds of thousands of lines takes longer than a start may.
    """

    def __init__(self, path: Path) -> None:
        """Raises TokenizerError."""
        lines = read_sorted_lines(path)
        content = "\n".join(lines).encode()
        if content.count(b"\t") != len(lines) or content.translate(None, _OF_DICTIONARIES):
            raise TokenizerError(f"{path}: expected a word, a tab and sounds a line")
        self._lines = lines

    def get(self, word: str) -> tuple[str, ...] | None:
        key = f"{word}\t"
        index = bisect_left(self._lines, key)
        if index == len(self._lines) or not self._lines[index].startswith(key):
            return None
        return _decoded(self._lines[index].removeprefix(key))

    def items(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for line in self._lines:
            word, codes = line.split("\t")
            yield word, _decoded(codes)


def _decoded(codes: str) -> tuple[str, ...]:
    return tuple(SOUNDS[ord(code) - FIRST_CODE] for code in codes)


def letters_of(word: str) -> list[int]:
    """What the network reads: 1 + the index in LETTERS."""
    return [1 + LETTERS.index(letter) for letter in word.lower() if letter in LETTERS]


def collapse(best: list[int]) -> tuple[str, ...]:
    """The best class of every slot -> sounds: repetitions are one, class 0 none (CTC)."""
    sounds = [one for index, one in enumerate(best) if one and (index == 0 or one != best[index - 1])]
    return tuple(SOUNDS[one - 1] for one in sounds)


class Pronunciation:
    """The dictionary and the network of a folder. Threads may share one."""

    def __init__(self, folder: Path) -> None:
        """Raises TokenizerError, naming the file at fault."""
        self._dictionary = SortedDictionary(folder / DICTIONARY_FILE)
        path = folder / NETWORK_FILE
        try:
            self._network = onnxruntime.InferenceSession(
                path.read_bytes(), session_options(1), providers=["CPUExecutionProvider"]
            )
            self._read_letters("ab")
        except Exception as error:  # the library raises many kinds, bare Exception among them
            raise TokenizerError(f"{path}: not the network that reads words ({error})") from error
        self.sounds_of = lru_cache(maxsize=20_000)(self._sounds_of)

    def write(self, text: str) -> str:
        """Replace each word by its sounds."""

        def written(found: re.Match[str]) -> str:
            unit = found[0]
            if unit[0] == "[" or unit in QWEN2_MARKS or unit.startswith("<|"):
                return unit
            if unit[0] == "<":  # no token of the language model
                return _UNIT.sub(written, unit.strip("<>/"))
            word = unit if unit.isascii() else plain_letters(unit)
            return "".join(self.sounds_of(word)) if word.isascii() and letters_of(word) else unit

        return _UNIT.sub(written, text.replace("\u2019", "'"))

    def _sounds_of(self, word: str) -> tuple[str, ...]:
        """Letters and apostrophes, at least one letter -> sounds."""
        word = word.strip("'") or word
        end, num_endings = len(word), 0
        while (sounds := self._listed(word, end)) is None and word[max(0, end - 2) : end].lower() == "'s":
            end, num_endings = end - 2, num_endings + 1
            while end and word[end - 1] == "'":
                end -= 1
        return with_endings(self._guessed(word[:end]) if sounds is None else sounds, num_endings)

    def _listed(self, word: str, end: int) -> tuple[str, ...] | None:
        """Return the sounds of the word up to there."""
        if end > MAX_LISTED:
            return None
        forms = (self._dictionary.get(form) for form in forms_of(word[:end]))
        return next((sounds for sounds in forms if sounds is not None), None)

    def _guessed(self, word: str) -> tuple[str, ...]:
        plain = word.replace("'", "")
        if plain.isupper() and len(plain) <= _LONGEST_INITIALS:
            return tuple(sound for letter in plain for sound in self._dictionary.get(letter) or ())
        parts = (plain[start : start + _MAX_LETTERS] for start in range(0, len(plain), _MAX_LETTERS))
        return tuple(sound for part in parts for sound in self._read_letters(part))

    def _read_letters(self, word: str) -> tuple[str, ...]:
        if not (letters := letters_of(word)):
            return ()
        (logits,) = self._network.run(None, {"letters": np.array([letters], np.int64)})
        return collapse(logits[0].argmax(-1).tolist())


class PronouncingTokenizer:
    """A tokenizer in front of which words are written as sounds, and Chinese characters where it has a reader
    of them."""

    def __init__(
        self, tokenizer: TextTokenizer, pronunciation: Pronunciation, mandarin: Mandarin | None = None
    ) -> None:
        """Raises TokenizerError for a tokenizer without the reader's marks."""
        for mark in () if mandarin is None else mandarin.marks:
            if len(tokenizer.encode(mark)) != 1:
                raise TokenizerError(
                    f"the text tokenizer has no token {mark}, which Mandarin needs; "
                    "does tokenizer.json belong to this checkpoint?"
                )
        self._tokenizer = tokenizer
        self.pronunciation = pronunciation
        self.mandarin = mandarin
        self.vocab_size = tokenizer.vocab_size
        self.end_of_prompt_id = tokenizer.end_of_prompt_id

    @property
    def speech_marks(self) -> tuple[str, ...]:
        """The sounds that words become."""
        return SOUNDS if self.mandarin is None else SOUNDS + self.mandarin.marks

    def encode(self, text: str) -> list[int]:
        if self.mandarin is not None:
            text = self.mandarin.write_characters(text)
        return self._tokenizer.encode(self.pronunciation.write(text))

    def encode_text(self, text: str) -> list[int]:
        """Marks in the text are read as the words in them."""
        ids: list[int] = []
        start = 0
        for found in _MARK.finditer(text):
            if self._tokenizer.encode_text(found[0]) != self._tokenizer.encode(found[0]):
                ids += self.encode(text[start : found.start()]) + self.encode(found[0].strip("[]<>/"))
                start = found.end()
        return ids + self.encode(text[start:])

    def decode(self, ids: Sequence[int]) -> str:
        """The words' sounds come back, not their letters."""
        return self._tokenizer.decode(ids)


def plain_letters(word: str) -> str:
    """Latin letters without accents and strokes; others as they are.

    >>> plain_letters("Łódź"), plain_letters("Straße"), plain_letters("Þór")
    ('Lodz', 'Strasse', 'Thor')
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))
    return "".join(one if one.isascii() else _plain_letter(one) for one in plain)


@lru_cache(maxsize=1000)
def _plain_letter(letter: str) -> str:
    if letter.lower() in _LETTERS_OF_TWO:
        plain = _LETTERS_OF_TWO[letter.lower()]
        return plain.capitalize() if letter.isupper() else plain
    named = _LATIN.match(unicodedata.name(letter, ""))
    return (named[2] if named[1] == "CAPITAL" else named[2].lower()) if named else letter


_LETTERS_OF_TWO = {
    **{"ß": "ss", "ẞ": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "th", "ŋ": "ng", "ə": "a"},
    "\u0131": "i",  # without a dot
}
_LATIN = re.compile(r"LATIN (SMALL|CAPITAL) LETTER (?:TURNED |OPEN |REVERSED )?([A-Z]{1,2})\b")


def forms_of(word: str) -> tuple[str, str, str]:
    """How a dictionary may have it, the likeliest first."""
    return word, word.lower(), word.capitalize()


def with_endings(sounds: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Behind them so many possessive endings, "cat's's"."""
    return with_s(sounds) + ("[IH0]", "[Z]") * (number - 1) if number else sounds


def with_s(sounds: tuple[str, ...]) -> tuple[str, ...]:
    """Behind them the ending of "cat's", "dog's" or "bus's"."""
    if sounds[-1:] and sounds[-1] in _SIBILANT:
        return (*sounds, "[IH0]", "[Z]")
    return (*sounds, "[S]" if sounds[-1:] and sounds[-1] in _VOICELESS else "[Z]")
