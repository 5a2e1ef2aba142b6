"""Turn text as it comes into segments.

Text that comes in pieces, turned into segments as early as is safe, however it was cut.
"""

from dataclasses import dataclass, field, replace

from firstword.app.text.characters import is_blank_between
from firstword.app.text.language import detect_language
from firstword.app.text.normalize import Normalizer
from firstword.app.text.phrases import Phrase, PhraseFinder
from firstword.app.text.segment import Segment, Segmenter, Sentence, SentenceFinder

LANGUAGE_WINDOW = 160  # characters before a word that tell its language


class WholeFeed:
    """Mode "whole": everything is kept until the flush."""

    def __init__(self, segmenter: Segmenter, language: str | None = None, normalize: bool = True) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._pieces: list[str] = []

    def push(self, piece: str) -> list[Segment]:
        self._pieces.append(piece)
        return []

    def flush(self) -> list[Segment]:
        text = "".join(self._pieces)
        self._pieces = []
        return self._segmenter.split(text, self._language, self._normalize)


class SentenceFeed:
    """Mode "segments": each sentence as soon as it is surely whole.

    What cannot be said waits for the next sentence; if none comes it is not given out.
    """

    def __init__(self, segmenter: Segmenter, language: str | None = None, normalize: bool = True) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._phrases = PhraseFinder()
        self._sentences: SentenceFinder = segmenter.sentence_finder()
        self._unsaid = ""

    def push(self, piece: str) -> list[Segment]:
        return self._read(self._sentences.add(self._phrases.push(piece)))

    def flush(self) -> list[Segment]:
        sentences = self._sentences.add(self._phrases.flush())
        return self._read(sentences + self._sentences.flush())

    def _read(self, sentences: list[Sentence]) -> list[Segment]:
        segments: list[Segment] = []
        for sentence in sentences:
            read = self._segmenter.read(sentence, self._language, self._normalize)
            self._unsaid += read.source
            if read.spoken:
                segments.append(self._segmenter.ended(replace(read, source=self._unsaid)))
                self._unsaid = ""
        return segments


@dataclass(slots=True)
class WordFeed:
    """Mode "continuous": each word as soon as nothing that follows can change how it is read.

    The `spoken` of all segments up to a flush concatenate to the text as it is said, blanks included;
    every segment says something but the last one of a flush, which may carry what cannot be said.
    """

    normalizer: Normalizer
    language: str | None = None  # None: found for each word from those before it
    normalize: bool = True
    _phrases: PhraseFinder = field(default_factory=PhraseFinder)
    _window: str = ""  # what was read last
    _last: str = ""  # the last character said
    _unsaid: str = ""
    _has_blank: bool = False  # before what is said next

    def push(self, piece: str) -> list[Segment]:
        return [segment for phrase in self._phrases.push(piece) for segment in self._read(phrase)]

    def flush(self) -> list[Segment]:
        segments = [segment for phrase in self._phrases.flush() for segment in self._read(phrase)]
        if self._unsaid:
            segments.append(Segment(self._unsaid, "", self._language_here()))
        self._window = self._last = self._unsaid = ""
        self._has_blank = False
        return segments

    def _read(self, phrase: Phrase) -> list[Segment]:
        self._unsaid += phrase.source
        self._window = (self._window + phrase.source)[-LANGUAGE_WINDOW:]
        language = self._language_here()
        said = self.normalizer.read(phrase, language) if self.normalize else phrase.text
        self._has_blank |= phrase.has_blank
        if not said:
            return []
        is_blank = self._has_blank and (is_blank_between(self._last, said) if self.normalize else self._last)
        spoken = f" {said}" if is_blank else said
        segment = Segment(self._unsaid, spoken, language)
        self._last, self._unsaid, self._has_blank = said[-1], "", False
        return [segment]

    def _language_here(self) -> str:
        return self.language or detect_language(self._window)
