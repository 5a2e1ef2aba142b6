"""Pronunciations by word: what stands in a text is read as something else."""

import json
import logging
import re
import threading
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from xml.parsers import expat

from firstword.app.text.marks import MAX_LEXICON_ENTRIES, Part, PartReader, Span, SpeechMarks
from firstword.app.text.phonemes import ALPHABETS, phoneme_marks
from firstword.app.text.phrases import UNSPACED

MAX_WORD_CHARS: Final = 100
MAX_SPOKEN_CHARS: Final = 400
MAX_FILE_BYTES: Final = 8 << 20

_UNSPACED = re.compile(f"[{UNSPACED}]")
_MARK = re.compile(r"\[[^\[\]\s]{1,20}\]|</?[a-z]{1,20}>")
_POSSESSIVE = re.compile(r"['\u2019][sS](?![^\W_])")
_APOSTROPHES = ("'", "\u2019")
_PRONUNCIATION = re.compile(rf"({'|'.join(ALPHABETS)}|arpabet):(.*)", re.DOTALL)

Entries = Mapping[str, str]
_log = logging.getLogger(__name__)


class LexiconError(ValueError):
    """An entry, or a file of them, that cannot be used; the message names it."""


class Lexicon:
    """Words and what is spoken for each. Any thread may share one.

    A word written in small letters is found however its letters are written, another one only as it is
    written. The longest word wins; none is found within another word.
    """

    def __init__(
        self, entries: Entries, marks: SpeechMarks, on_bad: Callable[[str], None] | None = None
    ) -> None:
        """entries: word to an alias, in which speech marks are read, or to `ipa:`, `arpabet:` or `pinyin:`
        and its sounds. on_bad: is told of a bad one, which is left out; None: LexiconError is raised.
        """
        if len(entries) > MAX_LEXICON_ENTRIES:
            raise LexiconError(f"{len(entries)} entries; expected {MAX_LEXICON_ENTRIES} at most")
        self._spoken: dict[str, dict[str, str]] = {}  # folded word -> word as it is written -> what is spoken
        lengths: dict[str, set[int]] = {}
        for word, spoken in entries.items():
            plain = word.strip()
            try:
                written = _read(plain, spoken.strip(), marks)
            except LexiconError as error:
                if on_bad is None:
                    raise
                on_bad(str(error))
                continue
            self._spoken.setdefault(_folded(plain), {})[plain] = written
            lengths.setdefault(_folded(plain[0]), set()).add(len(plain))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._words = sorted(self._spoken)

    def find(self, text: str, folded: str, at: int, before: str, is_last: bool) -> tuple[int, str] | None:
        """What begins at a place of a text: (length, what is spoken); (0, ""): nothing.

        None: more of the text has to come. before: the two characters before it, "" at the beginning.
        """
        lengths = self._lengths.get(folded[at])
        if lengths is None or _joins(before[-1:], text[at]):
            return 0, ""
        if before[-1:] in _APOSTROPHES and _joins(before[:-1], text[at]):
            return 0, ""
        if not is_last:
            rest = folded[at : at + MAX_WORD_CHARS]
            index = bisect_left(self._words, rest)
            # Behind a whole word two more characters tell whether it ends there ("'s").
            is_open = len(text) - at <= lengths[0] + 2 and (
                (index < len(self._words) and self._words[index].startswith(rest))
                or any(rest[:length] in self._spoken for length in lengths if len(rest) <= length + 2)
            )
            if is_open:
                return None
        for length in lengths:
            forms = self._spoken.get(folded[at : at + length])
            if forms is None or at + length > len(text) or _goes_on(text, at + length):
                continue
            spoken = forms.get(text[at : at + length]) or forms.get(folded[at : at + length])
            if spoken is not None:
                return length, spoken
        return 0, ""


class LexiconReader:
    """A `PartReader` that replaces words in the plain text of another one; the first lexicon goes before."""

    def __init__(self, reader: PartReader, lexicons: list[Lexicon]) -> None:
        self._reader = reader
        self._lexicons = lexicons
        self._held = ""
        self._before = ""

    def read(self, piece: str, is_last: bool) -> list[Part]:
        parts: list[Part] = []
        for part in self._reader.read(piece, is_last):
            if isinstance(part, Span) and part.is_plain:
                parts += self._replace(part.source, is_last=False)
                continue
            parts += self._replace("", is_last=True)
            parts.append(part)
            self._before = self._before + part.written if isinstance(part, Span) else ""
        return parts + self._replace("", is_last=True) if is_last else parts

    def _replace(self, more: str, is_last: bool) -> list[Part]:
        text = self._held + more
        folded = _folded(text)
        parts: list[Part] = []
        start = at = 0
        while at < len(text):
            before = (self._before + text[max(0, at - 2) : at])[-2:]
            answers = [lexicon.find(text, folded, at, before, is_last) for lexicon in self._lexicons]
            if None in answers:
                break
            length, spoken = max((answer for answer in answers if answer), key=lambda answer: answer[0])
            if length:
                parts += [Span(text[start:at], text[start:at])] if start < at else []
                parts.append(Span(text[at : at + length], spoken))
                start = at + length
            at += max(length, 1)
        if start < at:
            parts.append(Span(text[start:at], text[start:at]))
        self._before = (self._before + text[max(0, at - 2) : at])[-2:]
        self._held = text[at:]
        return parts


class LexiconFile:
    """The server's lexicon: read again when its file has changed. Threads may share it."""

    def __init__(self, path: Path, marks: SpeechMarks) -> None:
        """Raises LexiconError and OSError."""
        self._path = path
        self._marks = marks
        self._lock = threading.Lock()
        self._failure = ""
        self._state = self._read_state()
        self._lexicon = self._load()

    def current(self) -> Lexicon:
        """A file that cannot be used any more is told in the log, and what was read before stays."""
        with self._lock:
            try:
                state = self._read_state()
                if state != self._state:
                    self._state = state
                    self._lexicon = self._load()
                    _log.info("%s: read again", self._path)
            except (LexiconError, OSError) as error:
                if self._failure != str(error):
                    _log.warning("the lexicon stays as it was: %s", error)
                self._failure = str(error)
            else:
                self._failure = ""
            return self._lexicon

    def _read_state(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> Lexicon:
        def on_bad(message: str) -> None:
            _log.warning("%s: left out: %s", self._path, message)

        return Lexicon(read_lexicon(self._path), self._marks, on_bad)


def read_lexicon(path: Path) -> dict[str, str]:
    """Read a JSON object of word to what is spoken, or a W3C pronunciation lexicon (PLS).

    Raises LexiconError for what is neither, OSError for a file that cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise LexiconError(f"{path}: larger than {MAX_FILE_BYTES} bytes; make it smaller")
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        return _read_pls(path, content)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LexiconError(f"{path}: neither JSON nor PLS ({error})") from None
    if not isinstance(found, dict) or not all(isinstance(spoken, str) for spoken in found.values()):
        raise LexiconError(f'{path}: expected an object of words to text, such as {{"Nguyen": "win"}}')
    return found


def _read_pls(path: Path, content: bytes) -> dict[str, str]:
    """An alias goes before a phoneme."""
    entries: dict[str, str] = {}
    words: list[str] = []
    spoken: dict[str, str] = {}
    text: list[str] = []
    alphabets = ["ipa"]

    def refuse(*_: object) -> None:
        raise LexiconError(f"{path}: it has a document type; write it without <!DOCTYPE>")

    def start(name: str, given: dict[str, str]) -> None:
        text.clear()
        if name in ("lexicon", "phoneme") and "alphabet" in given:
            alphabets.append(given["alphabet"])
        elif name == "phoneme":
            alphabets.append(alphabets[0] if len(alphabets) == 1 else alphabets[1])

    def end(name: str) -> None:
        content = "".join(text).strip()
        match name:
            case "grapheme":
                words.append(content)
            case "alias" | "phoneme":
                alphabet = alphabets.pop() if name == "phoneme" else ""
                spoken.setdefault(name, f"{alphabet}:{content}" if alphabet else content)
            case "lexeme":
                for word in words:
                    if spoken:
                        entries[word] = spoken.get("alias") or spoken["phoneme"]
                words.clear()
                spoken.clear()

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise LexiconError(f"{path}: no well-formed XML ({error})") from None
    return entries


def _read(word: str, spoken: str, marks: SpeechMarks) -> str:
    if not 1 <= len(word) <= MAX_WORD_CHARS or not 1 <= len(spoken) <= MAX_SPOKEN_CHARS:
        raise LexiconError(
            f"{word[:40]!r}: expected a word of 1 to {MAX_WORD_CHARS} characters and 1 to "
            f"{MAX_SPOKEN_CHARS} for what is spoken"
        )
    found = _PRONUNCIATION.fullmatch(spoken)
    if found is None:
        # An alias: its marks are read, what could be one of our own characters is not.
        return _MARK.sub(lambda mark: marks.character(mark[0]) or mark[0], marks.plain(spoken))
    try:
        sounds = phoneme_marks("x-cmu-arpabet" if found[1] == "arpabet" else found[1], found[2])
    except ValueError as error:
        raise LexiconError(f"{word[:40]!r}: {error}") from None
    characters = [marks.character(sound) for sound in sounds]
    if not all(characters):
        raise LexiconError(
            f"{word[:40]!r}: this checkpoint takes no phonemes, or not {spoken[:40]!r}; write how it sounds "
            "in letters"
        )
    return "".join(character or "" for character in characters)


def _folded(text: str) -> str:
    """Small letters, as many as there were."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(one.lower()[:1] or one for one in text)


def _joins(left: str, right: str) -> bool:
    """Whether two characters beside each other are of one word."""
    if not left or not right or _UNSPACED.match(left) or _UNSPACED.match(right):
        return False
    return _is_of_word(left) and _is_of_word(right)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _goes_on(text: str, end: int) -> bool:
    """Whether a word that ends there goes on: by a letter, or by an apostrophe and letters but "'s"."""
    following = text[end : end + 1]
    if following in _APOSTROPHES:
        return _joins(text[end - 1], text[end + 1 : end + 2]) and _POSSESSIVE.match(text, end) is None
    return _joins(text[end - 1], following)
