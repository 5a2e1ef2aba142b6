# ruff: noqa: RUF001  Chinese punctuation is meant
"""Find the sentences of a text as it comes, and cut those that are too long."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from firstword.app.text.chinese.breaks import WINDOW, is_break
from firstword.app.text.english import vocabulary
from firstword.app.text.english.contexts import LEADING_WORDS
from firstword.app.text.english.reader import ends_sentence
from firstword.app.text.markup import PICTURE
from firstword.app.text.multilingual.locales import ARTICLES
from firstword.app.text.phrases import SILENT_MARKS, Phrase

MIN_FIRST_LENGTH = 4  # a shorter beginning is not worth a segment of its own
MAX_SHORT_LINE = 32  # characters; a longer one may be prose that was wrapped
LENGTH_OF_DIGIT = 2  # at least, once it is in words

CLOSING = "\"'”’」』）》】)]"
_CLOSING_MARKS = CLOSING + "*_"
_STOP = re.compile(rf"(?:[.!?…]|[。！？；])[{re.escape(_CLOSING_MARKS)}]*$")
_SURE_STOP = re.compile(r"[\w)%°][.!?]+$")
_ELLIPSIS = re.compile(r"(?:\.\.|…)")
_COMMA = re.compile(rf"[,;:，、：；—–][{re.escape(_CLOSING_MARKS)}]*$")
_ONLY_CLOSING = re.compile(rf"[{re.escape(_CLOSING_MARKS)}。！？!?.…{SILENT_MARKS}-\U0010ffff]+")
_BULLET = re.compile(rf"[-+*•◦▪●–#]+|\d{{1,2}}[.)]|[{PICTURE}]+")
_HEADING = re.compile(r"\s*#{1,6}\s")
_ITEM = re.compile(rf"\s*(?:{_BULLET.pattern})\s")
_ITEM_NUMBER = re.compile(r"\d{1,3}\.")
_DIGIT = re.compile(r"\d")
_OPENING = "\"'“‘(["

Encode = Callable[[str], Sequence[int]]
"""A tokenizer's: text to text token ids."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """phrases: at least one. is_whole: not cut off in the middle for its length."""

    phrases: tuple[Phrase, ...]
    is_whole: bool = True

    @property
    def source(self) -> str:
        return "".join(phrase.source for phrase in self.phrases)


class Ending(Enum):
    NONE = auto()
    IF_CAPITAL_FOLLOWS = auto()
    UNLESS_CLOSING_FOLLOWS = auto()
    SURE = auto()


@dataclass(slots=True)
class SentenceFinder:
    """`add` returns each sentence as soon as it is surely whole, `flush` the rest.

    Lengths are in text tokens. A sentence longer than `max_length` is cut behind `merge_length` at a comma,
    else at a blank or beside a Chinese word that is sure to be whole, else anywhere. The first one is cut at
    a comma as soon as it is longer than `first_max_length`.
    """

    encode: Encode
    max_length: int
    merge_length: int
    first_max_length: int
    _phrases: list[Phrase] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)
    _ending: Ending = Ending.NONE  # of the last phrase, with what closes it
    _is_first: bool = True
    _line: str = ""  # how the line of the last phrase begins

    def add(self, phrases: Iterable[Phrase]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for phrase in phrases:
            is_closing = not phrase.has_blank and _ONLY_CLOSING.fullmatch(phrase.text) is not None
            if self._phrases and not is_closing and self._ends_before(phrase.source):
                sentences.append(self._take(len(self._phrases)))
            self._line = ("" if "\n" in phrase.source else self._line) + phrase.source
            self._line = self._line[: MAX_SHORT_LINE + 2]
            is_at_start = not self._phrases
            for part, length in self._measured(phrase):
                self._phrases.append(part)
                self._lengths.append(length)
                is_too_long = self._is_first and sum(self._lengths) > self.first_max_length
                if is_too_long and (count := self._last_comma(MIN_FIRST_LENGTH)):
                    sentences.append(self._take(count, is_whole=False))
                while len(self._phrases) > 1 and sum(self._lengths) > self.max_length:
                    last = len(self._phrases) - 1
                    blanks = (count for count in range(last, 0, -1) if self._phrases[count].has_blank)
                    count = self._last_comma(self.merge_length) or self._last_break()
                    count = count or next(blanks, last)
                    sentences.append(self._take(count, is_whole=False))
            is_number_of_item = is_at_start and _ITEM_NUMBER.fullmatch(phrase.text) is not None
            if not is_closing or self._ending is Ending.NONE:
                self._ending = Ending.NONE if is_number_of_item else _ending(phrase)
            if self._ending is Ending.SURE:
                sentences.append(self._take(len(self._phrases)))
        return sentences

    def flush(self) -> list[Sentence]:
        sentences = [Sentence(tuple(self._phrases))] if self._phrases else []
        self._phrases.clear()
        self._lengths.clear()
        self._ending = Ending.NONE
        self._is_first = True
        self._line = ""
        return sentences

    def _ends_before(self, source: str) -> bool:
        """Whether a phrase begins another sentence than the one before it."""
        if ends_line(self._line, self._phrases[-1].text, source):
            return True
        if self._ending is Ending.IF_CAPITAL_FOLLOWS:
            return not source.lstrip().strip(vocabulary.EDGES)[:1].islower()
        return self._ending is not Ending.NONE

    def _take(self, count: int, is_whole: bool = True) -> Sentence:
        taken = Sentence(tuple(self._phrases[:count]), is_whole)
        del self._phrases[:count], self._lengths[:count]
        self._is_first = False
        self._ending = Ending.NONE if not self._phrases else self._ending
        return taken

    def _last_comma(self, min_length: int) -> int:
        """How many phrases stand before the last comma to cut at; 0: there is none."""
        for count in range(len(self._phrases) - 1, 0, -1):
            is_long_enough = sum(self._lengths[:count]) >= min_length
            if _COMMA.search(self._phrases[count - 1].source) and is_long_enough:
                return count
        return 0

    def _last_break(self) -> int:
        """How many phrases stand before the last blank or end of a word to cut at; 0: there is none."""
        length = sum(self._lengths)
        for count in range(len(self._phrases) - 1, 0, -1):
            length -= self._lengths[count]
            if length < self.merge_length:
                break
            before, after = (
                "".join(phrase.source for phrase in part)
                for part in (
                    self._phrases[max(0, count - WINDOW) : count],
                    self._phrases[count : count + WINDOW],
                )
            )
            if after[0].isspace() or is_break(before, after):
                return count
        return 0

    def _measured(self, phrase: Phrase) -> list[tuple[Phrase, int]]:
        """The phrase, or the parts of one that alone is too long, each with its length."""
        source = phrase.source
        length = max(len(self.encode(source)), LENGTH_OF_DIGIT * len(_DIGIT.findall(source)))
        middle = len(source) // 2
        if middle == 0 or length <= self.max_length:
            return [(phrase, length)]
        first = Phrase(source[:middle], phrase.previous)
        second = Phrase(source[middle:], "", phrase.following)
        return self._measured(first) + self._measured(second)


def ends_line(line: str, last: str, source: str) -> bool:
    """Whether a line's end ends a sentence though no mark does.

    It does before a blank line or an item of a list, and behind a heading, an item, or a short line whose
    next one begins anew. line: how it begins. last: its last phrase or word. source: the next phrase.
    """
    text = source.lstrip()
    blank = source[: len(source) - len(text)]
    if "\n" not in blank:
        return False
    first_word, *_ = text.split(maxsplit=1) or [""]
    if blank.count("\n") > 1 or _BULLET.fullmatch(first_word) or _HEADING.match(line):
        return True
    begins_anew = text.lstrip(_OPENING)[:1].isupper() or text[:1].isdigit()
    if not begins_anew or last[-1:] in ",;:-–—" or last.lower() in LEADING_WORDS:
        return False
    is_item = _ITEM.match(line) is not None and blank[-1] == "\n"
    return is_item or len(line.strip()) <= MAX_SHORT_LINE


def _ending(phrase: Phrase) -> Ending:
    """Whether a sentence ends with the phrase, judged by the phrase alone."""
    text = phrase.text
    if not _STOP.search(text):
        return Ending.NONE
    word = text.rpartition(" ")[2]
    if phrase.following and _ITEM_NUMBER.fullmatch(word) and phrase.previous.lower() in ARTICLES:
        return Ending.NONE  # a German ordinal
    if vocabulary.is_abbreviation(word) or vocabulary.HALF_APART.search(text):
        is_end = phrase.following != "" and ends_sentence(word, phrase)
        return Ending.IF_CAPITAL_FOLLOWS if is_end else Ending.NONE
    if not _ELLIPSIS.search(word) and _SURE_STOP.search(word):
        return Ending.UNLESS_CLOSING_FOLLOWS if phrase.is_before_closing_mark else Ending.SURE
    return Ending.UNLESS_CLOSING_FOLLOWS if text[-1] in "。！？；" else Ending.IF_CAPITAL_FOLLOWS
