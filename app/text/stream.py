"""Turn text into segments: marks are read first, text that comes in pieces is spoken as early as is safe."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from firstword.app.budget import Work
from firstword.app.errors import InvalidRequest
from firstword.app.text.english.contexts import ARTICLES, LEADING_WORDS
from firstword.app.text.heteronyms import HeteronymReader, Heteronyms
from firstword.app.text.lexicon import Lexicon, LexiconError, LexiconFile, LexiconReader
from firstword.app.text.marks import (
    Language,
    MarkReader,
    Part,
    PartReader,
    Pause,
    Rate,
    Reading,
    Span,
    SpeechMarks,
    Voice,
)
from firstword.app.text.normalize import Normalizer, is_speakable, unread_numbers
from firstword.app.text.other_languages import JudgedFeed, OtherLanguages, SpokenLanguages
from firstword.app.text.phrases import Phrase, blank_between
from firstword.app.text.segment import FamilyRules, Item, ItemFeed, Mode, Segment, Segmenter, SegmentLimits
from firstword.app.text.sentences import Sentence
from firstword.app.text.ssml import SsmlReader, begins_ssml
from firstword.app.text.words import Word, find_words, in_source

LANGUAGE_WINDOW = 160  # characters up to a word by which its language is detected
MAX_NUMBERS = 4  # phrases that wait for a word which tells their language
MAX_WAITING = 12  # words that wait for the next one
MAX_VOICES = 8  # in one text
MAX_WARNINGS = 16  # of one text
MAX_CONTROLS = 500  # pauses, voices, rates and languages in one text


class TextFeed(Protocol):
    """Turns text in pieces into segments, however it was cut; used by one thread at a time.

    Each is made with the text's language, None where it is detected, and that of what stands `before` it.
    """

    def push(self, piece: str) -> Sequence[Segment]: ...

    def flush(self, is_end: bool = True) -> Sequence[Segment]:
        """is_end: False, more text will come; a last article or the like may wait for it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Pronunciations:
    """What a server knows of words, behind the lexicons of requests: first its file, then the heteronyms."""

    file: LexiconFile | None = None
    heteronyms: Mapping[str, Sequence[Heteronyms]] = field(default_factory=dict)  # of each accent, in order


class TextFrontend(Segmenter):
    """The text step of a checkpoint. Any thread may call it."""

    def __init__(
        self,
        normalizer: Normalizer,
        marks: SpeechMarks,
        limits: SegmentLimits,
        first_max_length: int,
        family_rules: FamilyRules | None = None,
        pronunciations: Pronunciations | None = None,
        languages: SpokenLanguages | None = None,
    ) -> None:
        """languages: of the checkpoint; None: no text is judged by its own."""
        super().__init__(normalizer, marks.encode, limits, first_max_length, family_rules)
        self.marks = marks
        self._pronunciations = pronunciations or Pronunciations()
        self._languages = languages

    @property
    def version(self) -> str:
        """Another one where the server's lexicon, and so what a text says, is another."""
        file = self._pronunciations.file
        return "" if file is None else file.version

    def open(
        self,
        mode: Mode,
        language: str | None,
        reading: Reading,
        warnings: list[str],
        work: Work,
        finds_words: bool = False,
        refuses: bool = True,
    ) -> ItemFeed:
        """Begin a text, read as a whole, by sentences, or word by word.

        language: None, it is detected for each segment. warnings: gets what was ignored, each once.
        work: counts what is read. finds_words: segments tell their words. refuses: False, a text in a
        language that is not spoken is read all the same.
        """

        def warn(message: str) -> None:
            if message not in warnings and len(warnings) < MAX_WARNINGS:
                warnings.append(message)

        try:
            lexicons = [Lexicon(reading.lexicon, self.marks)] if reading.lexicon else []
        except LexiconError as error:
            raise InvalidRequest(f"lexicon: {error}", "lexicon") from None
        if reading.speaker_lexicon:
            left_out = "of the speaker's lexicon an entry is left out: "
            speakers = Lexicon(
                reading.speaker_lexicon, self.marks, lambda why: warn(left_out + ascii(why)[1:-1])
            )
            lexicons.append(speakers)
        if self._pronunciations.file is not None:
            lexicons.append(self._pronunciations.file.current())

        def opened(is_ssml: bool) -> PartReader:
            reader: PartReader
            if is_ssml:
                reader = SsmlReader(self.marks, reading.marks, warn, mode == "whole")
            else:
                reader = MarkReader(self.marks, reading.marks, warn)
            if lexicons:
                reader = LexiconReader(reader, lexicons)
            for heteronyms in self._pronunciations.heteronyms.get(reading.accent, ()):
                reader = HeteronymReader(reader, heteronyms, self.marks)
            return reader

        def feed_in(marked: str | None) -> TextFeed:
            return FEEDS[mode](self, marked or language, reading.normalize, reading.speaker_language)

        finds_form = reading.ssml is None and reading.marks
        feed = MarkedFeed(
            reader=_FormFinder(opened) if finds_form else opened(bool(reading.ssml)),
            feed_in=feed_in,
            feed=feed_in(None),
            normalizes=reading.normalize,
            encode=self.encode if finds_words else None,
            unread=self.rules.unread,
            warn=warn,
            work=work,
        )
        if self._languages is None:
            return feed
        return JudgedFeed(feed, OtherLanguages(self._languages, language), warnings, refuses)


class _FormFinder:
    """Reads a text as SSML or as plain text with marks; its beginning is held until it shows which."""

    def __init__(self, opened: Callable[[bool], PartReader]) -> None:
        """opened: returns a reader of SSML, or of plain text."""
        self._opened = opened
        self._reader = opened(False)
        self._held: str | None = ""  # None: it is known

    def read(self, piece: str, is_last: bool) -> list[Part]:
        if self._held is not None:
            piece = self._held + piece
            is_ssml = begins_ssml(piece)
            self._held = None if is_ssml is not None else "" if is_last else piece
            if self._held:
                return []
            if is_ssml:
                self._reader = self._opened(True)
        return self._reader.read(piece, is_last)


@dataclass(slots=True, eq=False)
class MarkedFeed:
    """Turns text in pieces into segments and what happens between them; used by one thread at a time.

    The items' sources concatenate to the text, but for what cannot be spoken at its end. A pause, a voice,
    a rate or a language ends the segment before it.
    """

    reader: PartReader
    feed_in: Callable[[str | None], TextFeed]  # makes one of a marked language; None: of the request's
    feed: TextFeed
    normalizes: bool
    encode: Callable[[str], Sequence[int]] | None  # None: nobody asks for words
    unread: Callable[[str], str]  # the characters that the tokenizer leaves out
    warn: Callable[[str], None]
    work: Work
    _language: str | None = None  # of what follows, by a mark; None: the request's
    _spans: deque[Span] = field(default_factory=deque)  # read, and in no item's source yet
    _voices: set[str] = field(default_factory=set)
    _num_controls: int = 0

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        """flushes: all text so far is given out, but where more will come for a last article or the like.

        Raises InvalidRequest for a bad mark, and as `Work.read` does.
        """
        items: list[Item] = []
        parts: list[Part | None] = [*self.reader.read(piece, flushes)]
        self.work.read(
            (part.written for part in parts if isinstance(part, Span)),
            sum(part.seconds for part in parts if isinstance(part, Pause)),
        )
        for part in [*parts, None] if flushes else parts:
            if isinstance(part, Span):
                self._spans.append(part)
                segments = self.feed.push(part.written) if part.written else ()
            else:
                segments = self.feed.flush(is_end or part is not None)
            items += map(self._with_source, segments)
            if part is not None and not isinstance(part, Span):
                items += self._control(part)
        if flushes and items and self._spans and not any(span.written for span in self._spans):
            items[-1] = replace(items[-1], source=items[-1].source + self._rest())
        return items

    def _with_source(self, segment: Segment) -> Segment:
        """The segment of what is read with the client's own text as its source."""
        spans = self._taken(len(segment.source))
        if self.normalizes and (warning := unread_numbers(segment.spoken, segment.language)):
            self.warn(warning)
        if unread := self.unread(segment.spoken):
            self.warn(f"the voice has no reading of {unread!a:.40}, which was left out")
        words: list[Word] = []
        if self.encode is not None:
            found = find_words(segment.source, segment.spoken, len(segment.text_ids), self.encode)
            words = in_source(found, spans)
        return replace(segment, source="".join(span.source for span in spans), words=tuple(words))

    def _control(self, part: Pause | Voice | Rate | Language) -> list[Item]:
        self._num_controls += 1
        if isinstance(part, Voice) and part.name is not None:
            self._voices.add(part.name)
        if self._num_controls > MAX_CONTROLS or len(self._voices) > MAX_VOICES:
            raise InvalidRequest(
                f"the text has more than {MAX_CONTROLS} marks or {MAX_VOICES} voices; send it in several "
                "requests",
                "text",
            )
        if isinstance(part, Language):
            self._language = part.language
        self.feed = self.feed_in(self._language)
        source = self._rest() + part.source
        if isinstance(part, Pause):
            return [replace(part, source=source)]
        self._spans.append(Span(source, ""))  # it goes with what follows
        return [] if isinstance(part, Language) else [part]

    def _taken(self, num_written: int) -> list[Span]:
        """Take out the next written characters, with all before them that was read as nothing."""
        taken: list[Span] = []
        while num_written:
            span = self._spans.popleft()
            written, rest = span.written[:num_written], span.written[num_written:]
            num_written -= len(written)
            if rest and span.is_plain:
                taken.append(Span(written, written))
                self._spans.appendleft(Span(rest, rest))
            else:  # of a replacement that is divided, the source goes with the first part
                taken.append(Span(span.source, written))
                if rest:
                    self._spans.appendleft(Span("", rest))
        return taken

    def _rest(self) -> str:
        """Take out all spans; return what the client wrote there."""
        source = "".join(span.source for span in self._spans)
        self._spans.clear()
        return source


class WholeFeed:
    """Reads all text up to a flush as a whole."""

    def __init__(
        self, segmenter: Segmenter, language: str | None = None, normalize: bool = True, before: str = ""
    ) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._before = before
        self._pieces: list[str] = []

    def push(self, piece: str) -> list[Segment]:
        self._pieces.append(piece)
        return []

    def flush(self, is_end: bool = True) -> list[Segment]:
        text = "".join(self._pieces)
        self._pieces = []
        return self._segmenter.split(text, self._language, self._normalize, self._before)


class SentenceFeed:
    """Returns each sentence as soon as it is surely whole.

    What cannot be spoken waits for the next sentence; if none comes it is dropped.
    """

    def __init__(
        self, segmenter: Segmenter, language: str | None = None, normalize: bool = True, before: str = ""
    ) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._before = before
        self._phrases = segmenter.phrase_finder(language)
        self._sentences = segmenter.sentence_finder()
        self._sentence = ""  # the parts of one that was cut
        self._unspoken = ""

    def push(self, piece: str) -> list[Segment]:
        return self._read(self._sentences.add(self._phrases.push(piece)))

    def flush(self, is_end: bool = True) -> list[Segment]:
        sentences = self._sentences.add(self._phrases.flush())
        return self._read(sentences + self._sentences.flush())

    def _read(self, sentences: list[Sentence]) -> list[Segment]:
        segments: list[Segment] = []
        for sentence in sentences:
            self._sentence += sentence.source
            self._before = self._language or self._segmenter.detected(
                sentence.source, self._sentence, self._before
            )
            self._sentence = "" if sentence.is_whole else self._sentence
            segment = self._segmenter.read(sentence, self._before, self._normalize)
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

    def __init__(
        self, segmenter: Segmenter, language: str | None = None, normalize: bool = True, before: str = ""
    ) -> None:
        self._segmenter = segmenter
        self._language = language
        self._normalize = normalize
        self._before = before
        self._phrases = segmenter.phrase_finder(language)
        self._state = _FlushState()
        self._numbers: list[Phrase] = []  # in front of the first word
        self._is_told = language is not None or len(segmenter.normalizer.spoken) < 2
        self._waiting: list[Segment] = []  # words that the next one belongs to
        self._has_given = False  # a word of this utterance

    def push(self, piece: str) -> list[Segment]:
        phrases = self._told(self._phrases.push(piece))
        segments = [segment for phrase in phrases for segment in self._read(phrase)]
        return self._released(segments, LEADING_WORDS)

    def flush(self, is_end: bool = True) -> list[Segment]:
        phrases = self._told(self._phrases.flush(), flushes=True)
        segments = [segment for phrase in phrases for segment in self._read(phrase)]
        state = self._state
        if is_end:
            segments = self._released(segments, frozenset())
        else:  # "What are you looking at" may be all of it, "looking at " is not
            segments = self._released(segments, LEADING_WORDS if state.source else ARTICLES)
        self._state = _FlushState()
        if self._waiting:
            first = self._waiting[0]
            spoken = first.spoken.lstrip()
            self._waiting[0] = replace(first, spoken=spoken, text_ids=first.first_ids)
            self._state = _FlushState(
                source=state.source,
                window=state.window,
                last=self._waiting[-1].spoken[-1],
                has_words=True,
                is_begun=True,
                has_blank=state.has_blank,
            )
        elif state.source:
            segments.append(Segment(state.source, "", self._detected(state)))
        return segments

    def _told(self, phrases: list[Phrase], flushes: bool = False) -> list[Phrase]:
        """Hold numbers in front of a text's first word, which tells their language."""
        told: list[Phrase] = []
        for phrase in phrases:  # what was pushed with the first word tells nothing
            if self._is_told:
                told.append(phrase)
                continue
            self._numbers.append(phrase)
            self._is_told = any(map(str.isalpha, phrase.source))
            if self._is_told or len(self._numbers) > MAX_NUMBERS:
                told += self._numbers_told()
        return told + self._numbers_told() if flushes else told

    def _numbers_told(self) -> list[Phrase]:
        numbers, self._numbers = self._numbers, []
        if numbers and self._language is None:
            text = "".join(phrase.source for phrase in numbers)
            self._before = self._segmenter.detected(text, text, self._before)
        return numbers

    def _released(self, segments: list[Segment], waiting_words: frozenset[str]) -> list[Segment]:
        """Return the words that need not wait: a last one of `waiting_words` does, unless it is the first."""
        if not self._segmenter.waits_for_more:
            return segments
        given = [*self._waiting, *segments]
        count = len(given)
        first = max(0 if self._has_given else 1, count - MAX_WAITING)
        while count > first and given[count - 1].spoken.strip(" .").lower() in waiting_words:
            count -= 1
        self._waiting = given[count:]
        self._has_given = bool(waiting_words) and (self._has_given or count > 0)
        return given[:count]

    def _detected(self, state: "_FlushState | None" = None) -> str:
        window = (state or self._state).window
        return self._language or self._segmenter.detected(window, window, self._before)

    def _read(self, phrase: Phrase) -> list[Segment]:
        state = self._state
        state.source += phrase.source
        state.window = (state.window + phrase.source)[-LANGUAGE_WINDOW:]
        language = self._detected()
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
        if not state.is_begun:
            state.is_begun = True
            state.held = [self._segmenter.begin("".join(state.held))]
        ids = tuple(id for part in state.held for id in self._segmenter.encode(part))
        text = "".join(state.held)
        segment = Segment(state.source, text, language, ids)
        if self._segmenter.waits_for_more:
            first_ids = self._segmenter.without_blank(text, ids)
            segment = replace(segment, first_ids=first_ids, ending_ids=self._segmenter.ending_ids(text))
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
    is_begun: bool = False  # marks in front of the first word are dealt with
    has_blank: bool = False  # before what is spoken next


FEEDS: Final[Mapping[Mode, Callable[[Segmenter, str | None, bool, str], TextFeed]]] = {
    "whole": WholeFeed,
    "segments": SentenceFeed,
    "continuous": WordFeed,
}
