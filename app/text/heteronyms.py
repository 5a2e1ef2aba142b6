"""Words that are read in another way than usual, in text that comes in pieces.

The words before them tell which of two ways, or the accent does, or the characters around them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from firstword.app.text.marks import Part, PartReader, Span, SpeechMarks

_MAX_BEFORE: Final = 100  # characters before the text that comes next, which have the last words


class Heteronyms(Protocol):
    """Which words of a text are read in another way than usual."""

    def find(self, text: str, before: str) -> Iterable[tuple[int, int, tuple[str, ...]]]:
        """Where each begins and ends, and its sounds as speech marks. before: the text in front of it."""
        ...

    def num_open(self, text: str) -> int:
        """How many characters at the end of a text may be read otherwise once more comes."""
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
        whole = len(text) - (0 if is_last else self.heteronyms.num_open(text))
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
