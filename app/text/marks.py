"""Read the marks in a client's text: the tokenizer's speech marks, pauses, voices and rates.

A speech mark becomes one private character, which no client can write and nothing cuts or changes; the
encoder turns it into the mark's tokens.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from firstword.app.errors import InvalidRequest
from firstword.app.text.phrases import MARK, SILENT_MARKS, SOUND_MARKS, UNSPACED_MARK, UNSPACED_MARKS
from firstword.app.text.sounds import find_sound, may_begin_sound

MAX_PAUSE_S = 10.0
MIN_RATE, MAX_RATE = 0.5, 2.0
MAX_NAME_CHARS = 256
MAX_VALUE_CHARS = 16  # of a pause or a rate
MAX_LEXICON_ENTRIES = 10_000

_CONTROLS = ("[pause:", "[voice:", "[rate:")
_CANDIDATE = re.compile(rf"[\[<(*{MARK}]")
_PRIVATE = re.compile(f"[{MARK}]")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED_MARK}]")
_UNSPACED = re.compile(rf"(?:(?<![^\S\n])[^\S\n]+)?([{UNSPACED_MARK}])[^\S\n]*")
_MARK = re.compile(
    rf"\[(?P<name>voice):(?P<voice>[^\[\]\n]{{0,{MAX_NAME_CHARS}}})\]"
    rf"|\[(?P<kind>pause|rate):(?P<value>[^\[\]\n]{{0,{MAX_VALUE_CHARS}}})\]"
    r"|\[[^\[\]<>\s]{1,20}\]|</?[a-z]{1,20}>|<\|[^|<>\s]{1,20}\|>"
)
_OPEN_CONTROL = re.compile(
    rf"\[voice:[^\[\]\n]{{0,{MAX_NAME_CHARS}}}|\[(?:pause|rate):[^\[\]\n]{{0,{MAX_VALUE_CHARS}}}"
)
_TIME = re.compile(r"(\d{1,5}(?:\.\d{1,6})?|\.\d{1,6})\s?(ms|s)", re.ASCII)
_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,6})?|\.\d{1,6}", re.ASCII)
_PLAIN_LETTERS = re.compile(r"\[[A-Za-z]+\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """source: as the client wrote it. written: what is read of it instead; often the same."""

    source: str
    written: str

    @property
    def is_plain(self) -> bool:
        return self.source == self.written


@dataclass(frozen=True, slots=True)
class Pause:
    source: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Voice:
    """name None: the speaker of the request again."""

    source: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Rate:
    """Of what follows, whatever the rate before it was."""

    source: str
    rate: float


@dataclass(frozen=True, slots=True)
class Language:
    """language None: that of the request again."""

    source: str
    language: str | None


Part = Span | Pause | Voice | Rate | Language


@dataclass(frozen=True, slots=True)
class Reading:
    """How a text is to be read.

    normalize: write numbers and the like in words. marks: False, marks are text. ssml: None, the text is
    SSML where it begins with `<speak` and marks are read. lexicon: word to what is spoken for it;
    speaker_lexicon: the speaker's, behind that. speaker_language: decides where the text itself says nothing
    of its language. accent: "" for the checkpoint's own.
    """

    normalize: bool = True
    marks: bool = True
    ssml: bool | None = None
    lexicon: Mapping[str, str] = field(default_factory=dict, hash=False)
    speaker_lexicon: Mapping[str, str] = field(default_factory=dict, hash=False)
    speaker_language: str = ""
    accent: str = ""


class PartReader(Protocol):
    """Text in pieces to parts, however it was cut; the parts' sources concatenate to the text."""

    def read(self, piece: str, is_last: bool) -> list[Part]:
        """is_last: nothing is held back; more text may follow all the same.

        Raises InvalidRequest for a mark whose value is bad.
        """
        ...


class SpeechMarks:
    """The speech marks that a checkpoint takes, and those that only others take. Any thread may use it."""

    def __init__(
        self,
        encode_text: Callable[[str], Sequence[int]],
        encode_mark: Callable[[str], Sequence[int]],
        taken: Iterable[str],
        known: Iterable[str],
        phonemes: Collection[str],
        unspaced: Iterable[str] = (),
    ) -> None:
        """encode_text: reads special tokens as text; encode_mark: one mark. taken: by this checkpoint.

        known: by any checkpoint of the architecture. phonemes: those of them that are sounds of speech.
        unspaced: those of `taken` beside which blanks are left out.
        """
        self._encode_text = encode_text
        self._characters: dict[str, str] = {}
        self._ids: dict[str, list[int]] = {}
        joined = frozenset(unspaced)
        self._has_unspaced = bool(joined)
        self._texts: dict[int, str] = {}  # of marks without a token of their own
        for index, mark in enumerate(dict.fromkeys(taken)):
            first = (
                UNSPACED_MARKS if mark in joined else SOUND_MARKS if mark.startswith("[") else SILENT_MARKS
            )
            character = chr(ord(first) + index)
            self._characters[unicodedata.normalize("NFC", mark)] = character
            ids = list(encode_mark(mark))
            if ids == list(encode_text(mark)):
                self._texts[ord(character)] = mark
            else:
                self._ids[character] = ids
        self._names = {character: mark for mark, character in self._characters.items()}
        self._others = {unicodedata.normalize("NFC", mark) for mark in known} - self._characters.keys()
        self._phonemes = frozenset(unicodedata.normalize("NFC", mark) for mark in phonemes)
        both = [*self._characters, *self._others, *_CONTROLS]
        forms = {*both, *(unicodedata.normalize("NFD", mark) for mark in both)}
        self._beginnings = {mark[:end] for mark in forms for end in range(1, len(mark) + 1)}

    @property
    def taken(self) -> tuple[str, ...]:
        return tuple(self._characters)

    def character(self, mark: str) -> str | None:
        """Return what stands for a mark: "" for one that only others take; None: it is no mark."""
        mark = unicodedata.normalize("NFC", mark)
        return "" if mark in self._others else self._characters.get(mark)

    def is_phoneme(self, mark: str) -> bool:
        return unicodedata.normalize("NFC", mark) in self._phonemes

    def may_begin(self, text: str) -> bool:
        """Whether more text could make it a mark."""
        return text in self._beginnings or _OPEN_CONTROL.fullmatch(text) is not None

    def encode(self, text: str) -> list[int]:
        """Return text tokens; a mark's character gives the mark's, everything else is text."""
        if self._has_unspaced:
            text = _UNSPACED.sub(r"\1", text)
        text = text.translate(self._texts)
        ids: list[int] = []
        start = 0
        for found in _PRIVATE.finditer(text):
            ids += [*self._encode_text(text[start : found.start()]), *self._ids.get(found[0], ())]
            start = found.end()
        return [*ids, *self._encode_text(text[start:])]

    def plain(self, text: str) -> str:
        """Return text without the characters that stand for marks."""
        return _PRIVATE.sub("", text)

    def shown(self, text: str) -> str:
        """Return text with its marks as clients write them."""
        return _PRIVATE.sub(lambda found: self._names.get(found[0], ""), text)

    def found(self, text: str) -> tuple[str, ...]:
        return tuple(self._names[one] for one in _PRIVATE.findall(text) if one in self._names)


class MarkReader:
    """Reads marks in brackets. What could still become one is held back until it is known."""

    def __init__(self, marks: SpeechMarks, reads_marks: bool, warn: Callable[[str], None]) -> None:
        """reads_marks: False, everything is text. warn: called for a mark that the checkpoint lacks."""
        self._marks = marks
        self._reads_marks = reads_marks
        self._warn = warn
        self._rest = ""
        self._last = ""  # the character that was given out last
        self._is_behind_mark = False  # that the checkpoint lacks, or of a sound of speech

    def read(self, piece: str, is_last: bool) -> list[Part]:
        text = self._rest + piece
        parts: list[Part] = []
        start = position = 0  # of the text that is not given out yet; of the search
        end = len(text)
        while found := _CANDIDATE.search(text, position):
            at = found.start()
            is_behind_mark = self._is_behind_mark and at == start
            part = self._part_at(text, at, is_last, is_behind_mark)
            if part is _UNDECIDED:
                end = at
                break
            position = at + 1
            if part is not None:
                if start < at:
                    parts.append(Span(text[start:at], text[start:at]))
                parts.append(part)
                start = position = at + len(part.source)
                self._is_behind_mark = (
                    isinstance(part, Span)
                    and part.source[0] == "["
                    and (not part.written or self._marks.is_phoneme(part.source))
                )
        if start < end:
            parts.append(Span(text[start:end], text[start:end]))
            self._is_behind_mark = False
        self._rest = text[end:]
        self._last = text[:end][-1:] or self._last
        return parts

    def _part_at(self, text: str, at: int, is_last: bool, is_behind_mark: bool) -> Part | None:
        """None: what stands there is text. _UNDECIDED: more of the text has to come."""
        marks = self._marks
        if text[at] not in "[<(*":
            return Span(text[at], "")
        if not self._reads_marks:
            return None
        found = _MARK.match(text, at)
        is_mark = found is not None and marks.character(found[0]) is not None
        if not is_mark and (sound := find_sound(text, at, self._last)):
            is_at_end = at + len(sound[0]) == len(text)
            return _UNDECIDED if text[at] == "*" and is_at_end and not is_last else self._sound(*sound)
        if found is None:
            may_begin = marks.may_begin(text[at:]) or may_begin_sound(text[at:])
            return _UNDECIDED if not is_last and may_begin else None
        source = found[0]
        if found["name"] is not None:
            return voice(source, found["voice"])
        if found["kind"] is not None:
            return (pause if found["kind"] == "pause" else rate)(source, found["value"])
        character = marks.character(source)
        if character is None:
            return None
        may_be_text = not character or _UNSPACED_CHARACTER.fullmatch(character) is not None
        is_plain = marks.is_phoneme(source) and _PLAIN_LETTERS.fullmatch(source)
        if may_be_text and is_plain and not is_behind_mark:
            # [a] alone may well be text: it is a phoneme behind such a mark, or before another phoneme.
            following = _MARK.match(text, found.end())
            rest = text[found.end() :]
            if following is None and not is_last and (not rest or marks.may_begin(rest)):
                return _UNDECIDED
            if following is None or not marks.is_phoneme(following[0]):
                return None
        if not character:
            self._warn(f"this checkpoint does not take the mark {source!a:.40}; it was left out")
        return Span(source, character)

    def _sound(self, source: str, mark: str) -> Part:
        """Another engine's tag, as the mark of this checkpoint for it, or left out."""
        character = self._marks.character(mark) if mark else ""
        if not character:
            self._warn(f"the tag {source!a:.40} describes a sound; this checkpoint has none for it")
        return Span(source, character or "")


_UNDECIDED: Final = Span("", "")


def pause(source: str, value: str) -> Pause:
    """Raise InvalidRequest for what is no time of 0 to MAX_PAUSE_S."""
    found = _TIME.fullmatch(value.strip())
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else -1.0
    if not 0 <= seconds <= MAX_PAUSE_S:
        raise bad_mark(source, f"a time of 0 to {MAX_PAUSE_S:g} s, such as 0.8s or 300ms")
    return Pause(source, seconds)


def rate(source: str, value: str) -> Rate:
    """Raise InvalidRequest for what is no number from MIN_RATE to MAX_RATE."""
    value = value.strip()
    number = float(value) if _NUMBER.fullmatch(value) else -1.0
    if not MIN_RATE <= number <= MAX_RATE:
        raise bad_mark(source, f"a number from {MIN_RATE:g} to {MAX_RATE:g}, such as 0.9")
    return Rate(source, number)


def voice(source: str, value: str) -> Voice:
    """Raise InvalidRequest for an empty name."""
    if not value.strip():
        raise bad_mark(source, "the name of a speaker")
    return Voice(source, value.strip())


def bad_mark(source: str, expected: str) -> InvalidRequest:
    return InvalidRequest(
        f"the mark {source[:80]} in the text has a bad value; expected {expected}; correct it, or send "
        '"marks": false to have brackets read as text',
        "text",
    )
