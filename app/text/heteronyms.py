"""Words that are read in another way than usual, in text that comes in pieces.

The words before them tell which of two ways, or the accent does.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from firstword.app.text.marks import Part, PartReader, Span, SpeechMarks

_MAX_HELD: Final = 40  # letters of a word that may go on
_MAX_BEFORE: Final = 100  # characters before the text that comes next, which have the last words
_OPEN_WORD = re.compile(rf"[A-Za-z][A-Za-z'\u2019]{{0,{_MAX_HELD}}}\Z")


class Heteronyms(Protocol):
    """Which words of a text are read in another way than usual."""

    def find(self, text: str, before: str) -> Iterable[tuple[int, int, tuple[str, ...]]]:
        """Where each begins and ends, and its sounds as speech marks. before: the text in front of it."""
        ...


@dataclass(slots=True, eq=False)
class HeteronymReader:
    """A `PartReader` that writes those words of the plain text of another one as their sounds."""

    reader: PartReader
    heteronyms: Heteronyms
    marks: SpeechMarks
    _held: str = ""  # a word whose end is not there yet
    _before: str = ""  # as it was written; behind a pause a text begins anew

    def read(self, piece: str, is_last: bool) -> list[Part]:
        parts: list[Part] = []
        for part in self.reader.read(piece, is_last):
            if isinstance(part, Span) and part.is_plain:
                parts += self._replace(part.source, is_last=False)
            else:
                parts += [*self._replace("", is_last=True), part]
                self._before = (self._before + part.source)[-_MAX_BEFORE:] if isinstance(part, Span) else ""
        return parts + self._replace("", is_last=True) if is_last else parts

    def _replace(self, more: str, is_last: bool) -> list[Part]:
        text = self._held + more
        open_word = None if is_last else _OPEN_WORD.search(text)
        whole = len(text) if open_word is None else open_word.start()
        text, self._held = text[:whole], text[whole:]
        parts: list[Part] = []
        written = 0
        for start, end, sounds in self.heteronyms.find(text, self._before):
            characters = "".join(self.marks.character(sound) or "" for sound in sounds)
            parts += [Span(text[written:start], text[written:start])] if written < start else []
            parts.append(Span(text[start:end], characters))
            written = end
        if written < len(text):
            parts.append(Span(text[written:], text[written:]))
        self._before = (self._before + text)[-_MAX_BEFORE:]
        return parts
