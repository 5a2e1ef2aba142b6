# ruff: noqa: RUF001  Chinese punctuation is meant
"""Cut a text into segments: the runs of sentences that the language model speaks in one go each."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, Protocol

from firstword.app.text.chinese import CHINESE
from firstword.app.text.language import detect_language, has_ordinal_stops, primary_language
from firstword.app.text.marks import Pause, Rate, Voice
from firstword.app.text.markup import clean_phrase
from firstword.app.text.normalize import Normalizer, is_speakable
from firstword.app.text.phrases import HAN, SILENT_MARKS, SOUND_MARKS, PhraseFinder, blank_between
from firstword.app.text.sentences import CLOSING, Encode, Sentence, SentenceFinder
from firstword.app.text.words import Word

_CLOSING_END = re.compile(rf"[{re.escape(CLOSING)}{SILENT_MARKS}-\U0010ffff]+$")
_DROPPED = re.compile("[（）【】`]")
_LAST_COMMAS = re.compile("[，,、]+$")
_STOPPED = re.compile(rf"[.?!…。？！][{re.escape(CLOSING)}\s]*$")
_LEADING_MARKS = re.compile(r"^[\s.,:;?!…•·，。、；：？！—–]+(?=.)", re.DOTALL)
_LOOSE_END = re.compile(r"[\s,;:，、；：—–-]+$")
_CHINESE_STOP = re.compile(r"(?<=[\u4e00-\u9fff])\.(?!\w)")
_HAN = re.compile(f"[{HAN}]")


@dataclass(frozen=True, slots=True)
class Segment:
    """source: a part of the text exactly as it was given. spoken: normalized. language: ISO 639-1.

    text_ids: the text tokens of `spoken`, for the language model. words: those of `source`, where they were
    asked for. first_ids, ending_ids: of a word that may be the first or the last of an utterance, the tokens
    without the blank before it, and those that end the utterance behind it.
    """

    source: str
    spoken: str
    language: str
    text_ids: tuple[int, ...] = field(default=(), compare=False)
    words: tuple[Word, ...] = ()
    first_ids: tuple[int, ...] = field(default=(), compare=False)
    ending_ids: tuple[int, ...] = field(default=(), compare=False)


Mode = Literal["whole", "segments", "continuous"]
Item = Segment | Pause | Voice | Rate


class ItemFeed(Protocol):
    """Text in pieces to segments and what happens between them; used by one thread at a time."""

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        """flushes: all text so far is given out. is_end: False, more will come; a last article or the like
        may wait for it. Raises InvalidRequest."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """In text tokens.

    A segment that has more than `min_length` ends before the sentence that would take it past
    `max_length`; a rest shorter than `merge_length` joins the segment before it.
    """

    max_length: int = 80
    min_length: int = 60
    merge_length: int = 20


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """What a checkpoint expects of a segment.

    adds_final_stop: after a last word. plain_chinese_marks: the published replacements. stops_cuts: a
    segment ends in a stop wherever its sentence was cut, for a language model that has read no other end, and
    marks in front of the first word are left out, since it has read no such beginning either. unread: the
    characters that its tokenizer leaves out.
    """

    adds_final_stop: bool = True
    plain_chinese_marks: bool = True
    stops_cuts: bool = False
    unread: Callable[[str], str] = lambda _: ""

    def apply(self, spoken: str, language: str, is_whole: bool) -> str:
        """spoken: with a word in it. is_whole: a sentence that was not cut in the middle."""
        is_chinese = primary_language(language) in CHINESE
        if is_chinese and self.plain_chinese_marks:
            spoken = _DROPPED.sub("", spoken).replace("——", " ")
            spoken = _CHINESE_STOP.sub("。", spoken)
            spoken = _LAST_COMMAS.sub("。", spoken) if is_whole else spoken
        last = _CLOSING_END.sub("", spoken)[-1:]
        if is_whole and self.adds_final_stop and (last.isalnum() or last >= SOUND_MARKS):
            spoken += _final_stop(language)
        return spoken

    def begin(self, spoken: str) -> str:
        """spoken: of the beginning of an utterance."""
        return _LEADING_MARKS.sub("", spoken) if self.stops_cuts else spoken

    def end(self, spoken: str, language: str) -> str:
        """spoken: of a whole segment."""
        if not self.stops_cuts or _STOPPED.search(spoken):
            return spoken
        return _LOOSE_END.sub("", spoken) + _final_stop(language)


def _final_stop(language: str) -> str:
    primary = primary_language(language)
    return "。" if primary in CHINESE or primary == "ja" else "."


def main_language(segments: Iterable[Segment]) -> str | None:
    """Return the language of most of a text; None where nothing of it is spoken."""
    lengths = Counter[str]()
    for segment in segments:
        lengths[primary_language(segment.language)] += len(segment.text_ids)
    return lengths.most_common(1)[0][0] if lengths.total() else None


def first_sentence(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Return those of the first sentence, which may not be complete."""
    spoken = [segment for segment in segments if segment.text_ids]
    ends = (place for place, segment in enumerate(spoken, 1) if _STOPPED.search(segment.source))
    return spoken[: next(ends, None)]


class Segmenter:
    """Text in, segments with their text tokens out. Any thread may call it.

    encode: the tokenizer of the checkpoint, in whose tokens lengths count.
    """

    def __init__(
        self,
        normalizer: Normalizer,
        encode: Encode,
        limits: SegmentLimits,
        first_max_length: int,
        family_rules: FamilyRules | None = None,
    ) -> None:
        self.normalizer = normalizer
        self.encode = encode
        self._limits = limits
        self._first_max_length = first_max_length
        self.rules = family_rules or FamilyRules()
        self._stop_ids: tuple[int, ...] | None = None
        self._blank_ids: tuple[int, ...] | None = None

    def split(self, text: str, language: str | None, normalize: bool, before: str = "") -> list[Segment]:
        """Cut a whole text. The sources concatenate to it; [] where nothing in it can be spoken.

        language: None, it is detected for each sentence. normalize: False, what is spoken is what is written.
        before: the language of what stands in front of it.
        """
        phrases = self.phrase_finder(language)
        finder = self.sentence_finder()
        sentences = finder.add(phrases.push(text) + phrases.flush()) + finder.flush()
        segments: list[Segment] = []
        parts: list[Sentence] = []  # of one sentence that was cut
        for sentence in sentences:
            parts.append(sentence)
            if sentence.is_whole or sentence is sentences[-1]:
                whole = "".join(part.source for part in parts)
                for part in parts:
                    before = language or self.detected(part.source, whole, before)
                    segments.append(self.read(part, before, normalize))
                parts = []
        return [self.finish(segment) for segment in self._merge(attach_unspeakable(segments))]

    def phrase_finder(self, language: str | None) -> PhraseFinder:
        spoken = self.normalizer.spoken if language is None else (language,)
        return PhraseFinder(has_ordinal_stops(*spoken))

    def sentence_finder(self) -> SentenceFinder:
        limits = self._limits
        return SentenceFinder(self.encode, limits.max_length, limits.merge_length, self._first_max_length)

    def detected(self, text: str, sentence: str, before: str) -> str:
        """Return the language of a text. sentence: as much of it as is known; where it has Chinese characters
        it is in one language. before: that of what stands in front of it."""
        text = sentence if _HAN.search(sentence) else text
        return detect_language(text, self.normalizer.spoken, before)

    def read(self, sentence: Sentence, language: str, normalize: bool) -> Segment:
        """Normalize a sentence; `spoken` is empty where nothing in it can be spoken."""
        source = sentence.source
        if not normalize:
            spoken = source.strip() if is_speakable(clean_phrase(source)) else ""
            return Segment(source, spoken, language)
        spoken = self.normalizer.normalize_phrases(sentence.phrases, language)
        if "\n" in source[: len(source) - len(source.lstrip())]:
            spoken = spoken.removeprefix("，").removeprefix(". ")  # the line's, if any
        if not is_speakable(spoken):
            return Segment(source, "", language)
        return Segment(source, self.rules.apply(spoken, language, sentence.is_whole), language)

    def finish(self, segment: Segment) -> Segment:
        """End a segment as one that is spoken by itself, even if its sentence goes on, and tokenize it."""
        spoken = self.rules.end(self.rules.begin(segment.spoken), segment.language)
        return replace(segment, spoken=spoken, text_ids=tuple(self.encode(spoken)))

    @property
    def waits_for_more(self) -> bool:
        """Whether the language model misreads an utterance that ends behind an article or the like."""
        return self.rules.stops_cuts

    def begin(self, spoken: str) -> str:
        return self.rules.begin(spoken)

    def ending_ids(self, spoken: str) -> tuple[int, ...]:
        """Return the text tokens that end an utterance behind what was spoken last; () for none."""
        if not self.rules.stops_cuts or _STOPPED.search(spoken):
            return ()
        if self._stop_ids is None:
            self._stop_ids = tuple(self.encode("."))
        return self._stop_ids

    def without_blank(self, spoken: str, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the text tokens of a word as the first of an utterance."""
        if self._blank_ids is None:
            self._blank_ids = tuple(self.encode(" "))
        length = len(self._blank_ids)
        return ids[length:] if spoken[:1] == " " and ids[:length] == self._blank_ids else ids

    def _merge(self, segments: list[Segment]) -> list[Segment]:
        """Join sentences of one language up to the limits; the first segment is kept short."""
        if not segments:
            return []
        first, *others = segments
        length = len(self.encode(first.spoken + " ")) - 1 if others else 0
        count = 1  # of the sentences that are short enough together to be spoken first
        for segment in others:
            behind = " " + segment.spoken
            if segment.language != first.language:
                break
            if length + len(self.encode(behind)) > self._first_max_length:
                break
            length += len(self.encode(behind + " ")) - 1
            count += 1
        runs = [segments[:count]]
        for _, group in groupby(segments[count:], key=lambda segment: segment.language):
            alike = list(group)
            spoken = [segment.spoken for segment in alike]
            runs += [alike[run] for run in merged_runs(spoken, self.encode, self._limits)]
        merged: list[Segment] = []
        for run in runs:
            joined = ""
            for segment in run:
                joined += blank_between(joined, segment.spoken, segment.source[:1].isspace())
                joined += segment.spoken
            merged.append(Segment("".join(segment.source for segment in run), joined, run[0].language))
        return merged


def merged_runs(sentences: Sequence[str], encode: Encode, limits: SegmentLimits) -> list[slice]:
    """Which sentences make a segment each.

    Lengths count a blank behind each sentence, which is one token where nothing follows. A tokenizer begins
    a new word at a blank, so lengths add up and no join has to be tokenized.
    """
    runs: list[slice] = []
    start = total = 0
    for index, sentence in enumerate(sentences):
        longer = total - 1 + len(encode(f" {sentence} "))
        if index == start or (longer > limits.max_length and total > limits.min_length):
            if index > start:
                runs.append(slice(start, index))
            start = index
            longer = len(encode(f"{sentence} "))
        total = longer
    if runs and total < limits.merge_length:
        runs[-1] = slice(runs[-1].start, len(sentences))
    elif sentences:
        runs.append(slice(start, len(sentences)))
    return runs


def attach_unspeakable(segments: Iterable[Segment]) -> list[Segment]:
    """Join what cannot be spoken to the segment before it, at the beginning to the one after it."""
    attached: list[Segment] = []
    waiting = ""
    for segment in segments:
        if segment.spoken:
            attached.append(replace(segment, source=waiting + segment.source))
            waiting = ""
        elif attached:
            attached[-1] = replace(attached[-1], source=attached[-1].source + segment.source)
        else:
            waiting += segment.source
    return attached
