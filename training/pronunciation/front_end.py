"""Writes the words of a text as marks, `[HH][AH0][L][OW1]`, for a language model that reads sounds.

Word by word, so that text can come word by word; what is no word, marks that a user wrote among it, stays.
"""

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnxruntime

from training.pronunciation.dictionary import read_dictionary
from training.pronunciation.letters import collapse, letters_of

DICTIONARY_FILE = "dictionary.gz"
NETWORK_FILE = "letters.onnx"
_PIECE = re.compile(r"\[[^\]\s]*\]|<[^>\s]*>|[A-Za-z']*[A-Za-z][A-Za-z']*")
_LONGEST_INITIALS = 5
_VOICELESS = frozenset(("[P]", "[T]", "[K]", "[F]", "[TH]"))
_HISSING = frozenset(("[S]", "[Z]", "[SH]", "[ZH]", "[CH]", "[JH]"))


class FrontEnd:
    """A folder's dictionary and network. May be shared between threads."""

    def __init__(self, folder: Path) -> None:
        self._words = read_dictionary(folder / DICTIONARY_FILE)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = str(folder / NETWORK_FILE)
        self._network = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.pronounce = lru_cache(maxsize=20_000)(self._pronounce)

    def __call__(self, text: str) -> str:
        return _PIECE.sub(lambda match: self._written(match[0]), text.replace("\u2019", "'"))

    def _written(self, piece: str) -> str:
        return piece if piece[0] in "[<" else "".join(self.pronounce(piece))

    def _pronounce(self, word: str) -> tuple[str, ...]:
        """Letters and apostrophes, at least one letter -> marks."""
        word = word.strip("'") or word
        for form in (word, word.lower(), word.capitalize()):
            if form in self._words:
                return self._words[form]
        if word.lower().endswith("'s"):
            return self._with_s(self.pronounce(word[:-2]))
        plain = word.replace("'", "")
        if plain.isupper() and len(plain) <= _LONGEST_INITIALS:
            return tuple(mark for letter in plain for mark in self._words.get(letter, ()))
        (logits,) = self._network.run(None, {"letters": np.array([letters_of(plain)], np.int64)})
        return collapse(logits[0].argmax(-1).tolist())

    def _with_s(self, marks: tuple[str, ...]) -> tuple[str, ...]:
        if marks[-1:] and marks[-1] in _HISSING:
            return (*marks, "[IH0]", "[Z]")
        return (*marks, "[S]" if marks[-1:] and marks[-1] in _VOICELESS else "[Z]")
