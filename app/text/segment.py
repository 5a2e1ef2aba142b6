"""Split text into segments for synthesis.

What the CosyVoice checkpoints expect of a segment, beyond being readable.

Cuts a long text into pieces of about a sentence or a few, as CosyVoice checkpoints expect them.

Gathers phrases into sentences as they come, and cuts the sentences that are too long.

Cuts a whole text into segments: what is written, and what of it is said.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import groupby
from typing import Literal

from firstword.app.text import english_vocabulary as vocabulary
from firstword.app.text.characters import cleaned
from firstword.app.text.chinese import CHINESE
from firstword.app.text.english import ends_before
from firstword.app.text.language import detect_language, primary_language
from firstword.app.text.normalize import Normalizer, is_only_punctuation, joined
from firstword.app.text.phrases import Phrase, find_phrases

# ruff: noqa: RUF001  Chinese punctuation is meant


_CLOSING = "\"'”’」』）》】)]"
_DROPPED = re.compile("[（）【】`]")
_LAST_COMMAS = re.compile("[，,、]+$")
_STOPPED = re.compile(rf"[.?!…。？！][{re.escape(_CLOSING)}\s]*$")
_LOOSE_END = re.compile(r"[\s,;:—–-]+$")
_CHINESE_STOP = re.compile(r"(?<=[\u4e00-\u9fff])\.(?!\w)")


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """adds_final_stop: after a last word. plain_chinese_marks: the published replacements. stops_cuts: a
    segment ends in a stop wherever its sentence was cut, for a language model that has read no other end.
    """

    adds_final_stop: bool = True
    plain_chinese_marks: bool = True
    stops_cuts: bool = False

    def apply(self, spoken: str, language: str, is_whole: bool) -> str:
        """spoken: with a word in it. is_whole: a sentence that was not cut in the middle."""
        is_chinese = primary_language(language) in CHINESE
        if is_chinese and self.plain_chinese_marks:
            spoken = _DROPPED.sub("", spoken).replace("——", " ")
            spoken = _CHINESE_STOP.sub("。", spoken)
            spoken = _LAST_COMMAS.sub("。", spoken) if is_whole else spoken
        if is_whole and self.adds_final_stop and _ends_in_word(spoken):
            spoken += "。" if is_chinese or language == "ja" else "."
        return spoken

    def ended(self, spoken: str) -> str:
        """spoken: of a whole segment, in a language with Latin marks."""
        if not self.stops_cuts or _STOPPED.search(spoken):
            return spoken
        return _LOOSE_END.sub("", spoken) + "."


def _ends_in_word(spoken: str) -> bool:
    return spoken.rstrip(_CLOSING)[-1:].isalnum()


# ruff: noqa: RUF001  Chinese punctuation is meant


Language = Literal["zh", "en"]

TERMINATORS: dict[Language, str] = {"zh": "。？！；：、.?!;", "en": ".?!;:"}
COMMAS = "，,"
FINAL_STOP: dict[Language, str] = {"zh": "。", "en": "."}
CLOSING_QUOTES = '"”'


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """In what `length` counts: characters for Chinese, text tokens for English.

    A segment that has more than `min_length` ends before the sentence that would take it past
    `max_length`; a rest shorter than `merge_length` joins the segment before it.
    """

    max_length: int = 80
    min_length: int = 60
    merge_length: int = 20


def split_paragraph(
    text: str,
    language: Language,
    length: Callable[[str], int],
    limits: SegmentLimits = SegmentLimits(),
    cuts_at_commas: bool = False,
) -> list[str]:
    """The segments of a text; none for an empty one. Of several terminators in a row the first is kept."""
    if not text:
        return []
    terminators = TERMINATORS[language] + (COMMAS if cuts_at_commas else "")
    if text[-1] not in terminators:
        text += FINAL_STOP[language]
    sentences = _sentences(text, terminators)
    return ["".join(sentences[run]) for run in merged_runs(sentences, length, limits)]


def _sentences(text: str, terminators: str) -> list[str]:
    """Pieces that end in a terminator and the closing quote behind it, if there is one."""
    sentences: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if character not in terminators:
            continue
        if start < place:
            sentences.append(text[start : place + 1])
        start = place + 1
        if sentences and text[start : start + 1] in tuple(CLOSING_QUOTES):
            sentences[-1] += text[start]
            start += 1
    return sentences


def merged_runs(sentences: list[str], length: Callable[[str], int], limits: SegmentLimits) -> list[slice]:
    """Which sentences make a segment each."""
    runs: list[slice] = []
    start, current = 0, ""
    for place, sentence in enumerate(sentences):
        if length(current + sentence) > limits.max_length and length(current) > limits.min_length:
            runs.append(slice(start, place))
            start, current = place, ""
        current += sentence
    if current and runs and length(current) < limits.merge_length:
        runs[-1] = slice(runs[-1].start, len(sentences))
    elif current:
        runs.append(slice(start, len(sentences)))
    return runs


# ruff: noqa: RUF001  Chinese punctuation is meant


MIN_FIRST_LENGTH = 4  # a shorter beginning is not worth a segment of its own
LENGTH_OF_DIGIT = 2  # at least, once it is in words

_CLOSING_MARKS = "\"'”’」』）》】)]*_"
_STOP = re.compile(rf"(?:[.!?…]|[。！？；])[{re.escape(_CLOSING_MARKS)}]*$")
_SURE_STOP = re.compile(r"[\w)%°][.!?]+$")
_ELLIPSIS = re.compile(r"(?:\.\.|…)")
_COMMA = re.compile(rf"[,;:，、：；—–][{re.escape(_CLOSING_MARKS)}]*$")
_ONLY_CLOSING = re.compile(rf"[{re.escape(_CLOSING_MARKS)}。！？!?.…]+")
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


@dataclass(frozen=True, slots=True)
class Segment:
    """source: a piece of the text exactly as it was given. spoken: how it is read. language: ISO 639-1."""

    source: str
    spoken: str
    language: str


class Segmenter:
    """length: in what `limits` and `first_max_length` count. Any thread may call it."""

    def __init__(
        self,
        normalizer: Normalizer,
        length: Callable[[str], int],
        limits: SegmentLimits,
        first_max_length: int,
        family_rules: FamilyRules | None = None,
    ) -> None:
        self._normalizer = normalizer
        self._length = length
        self._limits = limits
        self._first_max_length = first_max_length
        self._rules = family_rules or FamilyRules()

    def split(self, text: str, language: str | None, normalize: bool) -> list[Segment]:
        """The sources concatenate to the text; [] where nothing in it can be said.

        language: None, it is found for each sentence. normalize: False, what is said is what is written.
        """
        finder = self.sentence_finder()
        sentences = finder.add(find_phrases(text)) + finder.flush()
        read = [self.read(sentence, language, normalize) for sentence in sentences]
        return [self.ended(segment) for segment in self._merged(with_unspeakable_attached(read))]

    def ended(self, segment: Segment) -> Segment:
        """As a segment that is spoken by itself ends, even if its sentence goes on."""
        return replace(segment, spoken=self._rules.ended(segment.spoken))

    def sentence_finder(self) -> SentenceFinder:
        return SentenceFinder(self._length, self._limits, self._first_max_length)

    def read(self, sentence: Sentence, language: str | None, normalize: bool) -> Segment:
        """`spoken` is empty where nothing in the sentence can be said."""
        source = sentence.source
        language = language or detect_language(source)
        if not normalize:
            spoken = source.strip() if is_speakable(cleaned(source)) else ""
            return Segment(source, spoken, language)
        spoken = self._normalizer.read_all(sentence.phrases, language)
        if not is_speakable(spoken):
            return Segment(source, "", language)
        return Segment(source, self._rules.apply(spoken, language, sentence.is_whole), language)

    def _merged(self, segments: list[Segment]) -> list[Segment]:
        if not segments:
            return []
        count = self._count_of_first(segments)
        merged = [_join(segments[:count])]
        for _, group in groupby(segments[count:], key=lambda segment: segment.language):
            alike = list(group)
            runs = merged_runs([segment.spoken + " " for segment in alike], self._length, self._limits)
            merged += [_join(alike[run]) for run in runs]
        return merged

    def _count_of_first(self, segments: list[Segment]) -> int:
        """How many sentences are short enough together to be spoken first."""
        count, spoken = 1, segments[0].spoken
        for segment in segments[1:]:
            spoken += " " + segment.spoken
            is_alike = segment.language == segments[0].language
            if not is_alike or self._length(spoken) > self._first_max_length:
                break
            count += 1
        return count


def is_speakable(spoken: str) -> bool:
    return not is_only_punctuation("".join(spoken.split()))


def with_unspeakable_attached(segments: Iterable[Segment]) -> list[Segment]:
    """What cannot be said goes with the segment before it, at the beginning with the one after it."""
    attached: list[Segment] = []
    waiting = ""
    for segment in segments:
        if segment.spoken:
            attached.append(Segment(waiting + segment.source, segment.spoken, segment.language))
            waiting = ""
        elif attached:
            last = attached[-1]
            attached[-1] = Segment(last.source + segment.source, last.spoken, last.language)
        else:
            waiting += segment.source
    return attached


def _join(segments: list[Segment]) -> Segment:
    spoken = ""
    for segment in segments:
        spoken = joined(spoken, segment.spoken, segment.source[:1].isspace())
    return Segment("".join(segment.source for segment in segments), spoken, segments[0].language)
