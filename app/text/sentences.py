# ruff: noqa: RUF001  Chinese punctuation is meant
"""Gathers phrases into sentences as they come, and cuts the sentences that are too long."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from app.text import vocabulary
from app.text.english import ends_before
from app.text.phrases import Phrase
from app.text.segment import SegmentLimits

MIN_FIRST_LENGTH = 4  # a shorter beginning is not worth a segment of its own
LENGTH_OF_DIGIT = 2  # at least, once it is in words

_CLOSING = "\"'”’」』）》】)]*_"
_STOP = re.compile(rf"(?:[.!?…]|[。！？；])[{re.escape(_CLOSING)}]*$")
_SURE_STOP = re.compile(r"[\w)%°][.!?]+$")
_ELLIPSIS = re.compile(r"(?:\.\.|…)")
_COMMA = re.compile(rf"[,;:，、：；—–][{re.escape(_CLOSING)}]*$")
_ONLY_CLOSING = re.compile(rf"[{re.escape(_CLOSING)}。！？!?.…]+")
_NEW_PARAGRAPH = re.compile(r"\n[^\S\n]*\n|\n[^\S\n]*$")
_BULLET = re.compile(r"[-*•–#]+|\d{1,2}[.)]")
_ITEM_NUMBER = re.compile(r"\d{1,3}\.")
_DIGIT = re.compile(r"\d")


class Ending(Enum):
    NONE = auto()
    IF_CAPITAL_FOLLOWS = auto()
    UNLESS_CLOSING_FOLLOWS = auto()
    SURE = auto()


@dataclass(frozen=True, slots=True)
class Sentence:
    """phrases: at least one. is_whole: not cut off in the middle for its length."""

    phrases: tuple[Phrase, ...]
    is_whole: bool = True

    @property
    def source(self) -> str:
        return "".join(phrase.source for phrase in self.phrases)


@dataclass(slots=True)
class SentenceFinder:
    """add() gives each sentence as soon as it is surely whole, flush() the rest.

    A sentence longer than `limits.max_length` is cut at a comma, else at a blank, else anywhere. The first
    one is cut at a comma as soon as it is longer than `first_max_length`.
    """

    length: Callable[[str], int]
    limits: SegmentLimits
    first_max_length: int
    _phrases: list[Phrase] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)
    _ending: Ending = Ending.NONE  # of the last phrase, with what closes it
    _is_first: bool = True

    def add(self, phrases: Iterable[Phrase]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for phrase in phrases:
            is_closing = not phrase.has_blank and _ONLY_CLOSING.fullmatch(phrase.text) is not None
            if self._phrases and not is_closing and _ends_before(phrase, self._ending):
                sentences.append(self._take(len(self._phrases)))
            is_at_start = not self._phrases
            for part in self._fitting(phrase):
                sentences += self._append(part)
            is_number_of_item = is_at_start and _ITEM_NUMBER.fullmatch(phrase.text) is not None
            if not is_closing or self._ending is Ending.NONE:
                self._ending = Ending.NONE if is_number_of_item else _ending(phrase)
            if self._ending is Ending.SURE:
                sentences.append(self._take(len(self._phrases)))
        return sentences

    def flush(self) -> list[Sentence]:
        sentences = [self._take(len(self._phrases))] if self._phrases else []
        self._is_first = True
        return sentences

    def _append(self, phrase: Phrase) -> list[Sentence]:
        self._phrases.append(phrase)
        self._lengths.append(self._length(phrase))
        sentences: list[Sentence] = []
        if self._is_first and sum(self._lengths) > self.first_max_length:
            place = self._last_comma(MIN_FIRST_LENGTH)
            if place:
                sentences.append(self._take(place, is_whole=False))
        while len(self._phrases) > 1 and sum(self._lengths) > self.limits.max_length:
            place = self._last_comma(self.limits.merge_length) or self._last_blank()
            sentences.append(self._take(place or len(self._phrases) - 1, is_whole=False))
        return sentences

    def _take(self, count: int, is_whole: bool = True) -> Sentence:
        taken = Sentence(tuple(self._phrases[:count]), is_whole)
        del self._phrases[:count], self._lengths[:count]
        self._is_first = False
        self._ending = Ending.NONE if not self._phrases else self._ending
        return taken

    def _last_comma(self, min_length: int) -> int:
        """How many phrases stand before the last place to cut at a comma; 0: there is none."""
        for count in range(len(self._phrases) - 1, 0, -1):
            is_long_enough = sum(self._lengths[:count]) >= min_length
            if _COMMA.search(self._phrases[count - 1].source) and is_long_enough:
                return count
        return 0

    def _last_blank(self) -> int:
        blanks = (count for count in range(len(self._phrases) - 1, 0, -1) if self._phrases[count].has_blank)
        return next(blanks, 0)

    def _length(self, phrase: Phrase) -> int:
        return max(self.length(phrase.source), LENGTH_OF_DIGIT * len(_DIGIT.findall(phrase.source)))

    def _fitting(self, phrase: Phrase) -> list[Phrase]:
        """The phrase, or the parts of one that alone is too long."""
        middle = len(phrase.source) // 2
        if middle == 0 or self._length(phrase) <= self.limits.max_length:
            return [phrase]
        first = Phrase(phrase.source[:middle], phrase.previous)
        second = Phrase(phrase.source[middle:], "", phrase.following)
        return self._fitting(first) + self._fitting(second)


def _ends_before(phrase: Phrase, ending: Ending) -> bool:
    blank = phrase.source[: len(phrase.source) - len(phrase.source.lstrip())]
    if _NEW_PARAGRAPH.search(blank):
        is_item = blank.count("\n") == 1
        return (
            not is_item
            or _BULLET.fullmatch(phrase.text.split(maxsplit=1)[0] if phrase.text else "") is not None
        )
    if ending is Ending.NONE:
        return False
    if ending is Ending.IF_CAPITAL_FOLLOWS:
        first = vocabulary.core(phrase.text)[:1]
        return not first.islower()
    return True


def _ending(phrase: Phrase) -> Ending:
    """Whether a sentence ends with the phrase, as far as the phrase tells."""
    text = phrase.text
    if not _STOP.search(text):
        return Ending.NONE
    word = text.rpartition(" ")[2]
    if vocabulary.is_abbreviation(word):
        bare = vocabulary.core(word)
        is_never = (
            bare in vocabulary.TITLES or bare in vocabulary.COUNTED or vocabulary.INITIAL.fullmatch(bare)
        )
        if is_never or not phrase.following or not ends_before(phrase.following, bare):
            return Ending.NONE
        return Ending.IF_CAPITAL_FOLLOWS
    if not _ELLIPSIS.search(word) and _SURE_STOP.search(word):
        return Ending.SURE
    return Ending.UNLESS_CLOSING_FOLLOWS if text[-1] in "。！？；" else Ending.IF_CAPITAL_FOLLOWS
