"""Turn text into segments: a whole text at once, text that comes in pieces as early as is safe."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from firstword.app.text.language import detect_language
from firstword.app.text.normalize import is_speakable
from firstword.app.text.phrases import Phrase, PhraseFinder, blank_between
from firstword.app.text.segment import Segment, Segmenter, Sentence

LANGUAGE_WINDOW = 160  # characters up to a word by which its language is detected


class TextFeed(Protocol):
    """Turns text in pieces into segments, however it was cut; used by one thread at a time."""

    def push(self, piece: str) -> Sequence[Segment]: ...

    def flush(self) -> Sequence[Segment]: ...


class TextFrontend(Segmenter):
    """The text step of a checkpoint: whole texts, by `split`, and texts that come in pieces."""

    def open_feed(
        self, mode: Literal["segments", "continuous"], language: str | None, normalize: bool
    ) -> TextFeed:
        """Begin a text that comes in pieces: by sentences, or word by word."""
        feed = WordFeed if mode == "continuous" else SentenceFeed
        return feed(self, language, normalize)


class SentenceFeed:
    """Returns each sentence as soon as it is surely whole.

    What cannot be spoken waits for the next sentence; if none comes it is dropped.
    """

    def __init__(self, segmenter: Segmenter, language: str | None = None, normalize: bool = True) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._phrases = PhraseFinder()
        self._sentences = segmenter.sentence_finder()
        self._unspoken = ""

    def push(self, piece: str) -> list[Segment]:
        return self._read(self._sentences.add(self._phrases.push(piece)))

    def flush(self) -> list[Segment]:
        sentences = self._sentences.add(self._phrases.flush())
        return self._read(sentences + self._sentences.flush())

    def _read(self, sentences: list[Sentence]) -> list[Segment]:
        segments: list[Segment] = []
        for sentence in sentences:
            segment = self._segmenter.read(sentence, self._language, self._normalize)
            self._unspoken += segment.source
            if segment.spoken:
                segments.append(self._segmenter.finish(replace(segment, source=self._unspoken)))
                self._unspoken = ""
        return segments


class WordFeed:
    """Returns each word as soon as nothing that follows can change how it is spoken.

    The `spoken` of all segments up to a flush concatenate to the normalized text, blanks included, and
    their `text_ids` to what the language model reads. Before the first word of a flush what cannot be spoken
    alone is held back. Every segment says something but the last one of a flush, which may carry the
    source of what cannot be spoken.
    """

    def __init__(self, segmenter: Segmenter, language: str | None = None, normalize: bool = True) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._phrases = PhraseFinder()
        self._state = _FlushState()

    def push(self, piece: str) -> list[Segment]:
        return [segment for phrase in self._phrases.push(piece) for segment in self._read(phrase)]

    def flush(self) -> list[Segment]:
        segments = [segment for phrase in self._phrases.flush() for segment in self._read(phrase)]
        state = self._state
        if state.source:
            segments.append(Segment(state.source, "", self._language or detect_language(state.window)))
        self._state = _FlushState()
        return segments

    def _read(self, phrase: Phrase) -> list[Segment]:
        state = self._state
        state.source += phrase.source
        state.window = (state.window + phrase.source)[-LANGUAGE_WINDOW:]
        language = self._language or detect_language(state.window)
        normalizer = self._segmenter.normalizer
        spoken = normalizer.normalize_phrase(phrase, language) if self._normalize else phrase.text
        state.has_blank |= phrase.has_blank
        if not spoken:
            return []
        if self._normalize:
            blank = blank_between(state.last, spoken, state.has_blank)
        else:
            blank = " " if state.has_blank and state.last else ""
        state.held.append(blank + spoken)
        state.last = spoken[-1]
        state.has_blank = False
        state.has_words = state.has_words or is_speakable(spoken)
        if not state.has_words:
            return []
        ids = tuple(id for part in state.held for id in self._segmenter.encode(part))
        segment = Segment(state.source, "".join(state.held), language, ids)
        state.source = ""
        state.held = []
        return [segment]


@dataclass(slots=True)
class _FlushState:
    """Of a `WordFeed`, from one flush to the next."""

    source: str = ""  # of what was not given out yet
    window: str = ""  # the source that came last
    held: list[str] = field(default_factory=list)  # normalized, before the first word
    last: str = ""  # the last character normalized
    has_words: bool = False
    has_blank: bool = False  # before what is spoken next
