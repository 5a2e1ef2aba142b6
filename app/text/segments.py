"""Cuts a whole text into segments: what is written, and what of it is said."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from app.text.characters import cleaned
from app.text.family import FamilyRules
from app.text.language import detect_language
from app.text.normalise import is_only_punctuation
from app.text.normaliser import Normaliser, joined
from app.text.phrases import find_phrases
from app.text.segment import SegmentLimits, merged_runs
from app.text.sentences import Sentence, SentenceFinder


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
        normaliser: Normaliser,
        length: Callable[[str], int],
        limits: SegmentLimits,
        first_max_length: int,
        family_rules: FamilyRules | None = None,
    ) -> None:
        self._normaliser = normaliser
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
        spoken = self._normaliser.read_all(sentence.phrases, language)
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
