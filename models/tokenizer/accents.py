"""Words as a speaker with another accent reads them, and those that are spelled alike and read in two ways.

A language model that was trained on several accents is told which by a token in front of the text; by the
sounds of its own accent it then says most words. Only those that differ in more than that stand in a table.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from firstword.models.tokenizer.heteronyms import TOKEN, Heteronyms
from firstword.models.tokenizer.pronunciation import SortedDictionary, forms_of, with_s

ACCENTS: Final = ("british",)
ACCENT_TOKEN: Final = "[accent]"  # in front of a text that is spoken with one
_POSSESSIVE: Final = "'s"


def accent_file(accent: str) -> str:
    """The name of its table, in the checkpoint's folder of pronunciations."""
    return f"{accent}.gz"


class AccentedWords:
    """The table of an accent. Threads may share one."""

    def __init__(self, path: Path, heteronyms: Heteronyms | None = None) -> None:
        """heteronyms: of the checkpoint, read first. Raises TokenizerError."""
        self._words = SortedDictionary(path)
        self._heteronyms = heteronyms

    def find(self, text: str, before: str = "") -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where a word begins and ends that is not read as the dictionary has it, and its sounds.

        before: the text in front of it, of which the last words are enough.
        """
        heteronyms = [] if self._heteronyms is None else self._heteronyms.find(text, before)
        others = {start: sounds for start, _, sounds in heteronyms}
        for token in TOKEN.finditer(text):
            sounds = others.get(token.start()) or self._read(token[0].replace("\u2019", "'"))
            if sounds is not None:
                yield token.start(), token.end(), sounds

    def write(self, text: str) -> str:
        """Replace each of these words by its sounds."""
        pieces, written = [], 0
        for start, end, sounds in self.find(text):
            pieces += [text[written:start], *sounds]
            written = end
        return "".join([*pieces, text[written:]])

    def _read(self, word: str) -> tuple[str, ...] | None:
        for form in forms_of(word):
            if (sounds := self._words.get(form)) is not None:
                return sounds
        owner = word[: -len(_POSSESSIVE)]
        if owner and word.lower().endswith(_POSSESSIVE) and (sounds := self._read(owner)) is not None:
            return with_s(sounds)
        return None
