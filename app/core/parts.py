"""The parts of a running voice that all its streams share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from firstword.app.audio.watermark import Watermark
from firstword.app.budget import Work
from firstword.app.clients import Client
from firstword.app.core.admission import Admission
from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.prompt import PromptBuilder
from firstword.app.core.request import EngineInfo, ResolvedReading, SynthesisRequest
from firstword.app.core.token2wav_pool import Token2WavPool
from firstword.app.events import Subscriber, ignore
from firstword.app.options import HopStrategy
from firstword.app.speakers.interface import PreparedSpeaker, PreparedSpeakers
from firstword.app.text.language import primary_language
from firstword.app.text.marks import Reading, SpeechMarks
from firstword.app.text.segment import Item, Mode, Segment, main_language
from firstword.models.lm.tokens import TokenGenerator


class ItemFeed(Protocol):
    """Reads a text that comes in pieces; used by one thread at a time."""

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> Sequence[Item]:
        """Return the segments that are complete, and what happens between them.

        is_end: False, text will follow what is flushed.
        """
        ...


class TextReader(Protocol):
    """The text step; `firstword.app.text.stream.TextFrontend` implements it. Any thread may call it."""

    @property
    def marks(self) -> SpeechMarks: ...

    @property
    def version(self) -> str: ...

    def open(
        self,
        mode: Mode,
        language: str | None,
        reading: Reading,
        warnings: list[str],
        work: Work,
        finds_words: bool = False,
    ) -> ItemFeed: ...


@dataclass(frozen=True, slots=True)
class Pacing:
    """Limits to how far streams run ahead of their listeners and their writers."""

    listener_buffer_s: float
    hop_strategy: HopStrategy = "fixed"
    writer_pause_s: float = 0.0  # 0: what came is not spoken before its sentence has ended


@dataclass(frozen=True, slots=True, eq=False)
class PostProcessing:
    """What is done to samples before anybody hears them."""

    trims_silence: bool = True  # before a stream's first sound
    gain_of: Callable[[str, PreparedSpeaker], float] | None = None  # by its identity; None: as it is
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StreamParts:
    """The networks and services that make a stream. A voice by itself has no admission and no cache."""

    info: EngineInfo
    speakers: PreparedSpeakers
    text: TextReader
    prompt_builder: PromptBuilder
    generator: TokenGenerator
    pool: Token2WavPool
    clock: Callable[[], float]
    pacing: Pacing
    post_processing: PostProcessing = PostProcessing()
    on_event: Subscriber = ignore  # told of every stream's events
    admission: Admission | None = None
    phrases: PhraseCache | None = None

    def resolved(self, request: SynthesisRequest) -> ResolvedReading:
        """Raises InvalidRequest for a language that is unknown or not spoken, and SpeakerNotFound."""
        tag = request.voice.language
        language = self.info.language_of(tag)
        reading, own = request.reading, None
        follows_text = self.info.speaker_of(request) == ""
        name = request.voice.speaker
        if name is None and request.speech is None:
            name = self.info.default_speakers.get(language or "")
        if request.voice.reference is None:
            speaker = self.speakers.get(name, request.client)
            own = speaker.language if speaker.description is None else speaker.description.language
            spoken = "" if follows_text else primary_language(own or "")
            reading = replace(reading, speaker_lexicon=speaker.lexicon, speaker_language=spoken)
        reading = replace(reading, accent=self.info.accent_of(tag, own))
        num_item_chars = len(request.text or "") if request.delivery.is_background else 0
        work = Work(self.info.limits, num_item_chars)
        return ResolvedReading(language, name, follows_text, reading, work)

    def speaker_of_text(self, resolved: ResolvedReading, items: Iterable[Item]) -> str | None:
        """Return who speaks a whole text, as it was read; None: the default speaker."""
        if not resolved.follows_text:
            return resolved.speaker
        language = main_language(item for item in items if isinstance(item, Segment))
        return self.info.default_speakers.get(language or "")

    async def prepared(
        self, request: SynthesisRequest, name: str | None, on_miss: Callable[[], None] = lambda: None
    ) -> PreparedSpeaker:
        """Return the request's speaker, of that name. Raises as `PreparedSpeakers.prepared` does."""
        reference = request.voice.reference
        if isinstance(reference, PreparedSpeaker):
            return reference
        speaker = await self.speakers.prepared(name, request.client, reference, on_miss)
        if reference is not None:
            reference.release()
        return speaker

    async def gain(self, name: str | None, client: Client, speaker: PreparedSpeaker) -> float:
        """Return the factor that brings the speaker of that name to the wanted loudness."""
        if self.post_processing.gain_of is None:
            return 1.0
        return self.post_processing.gain_of(await self.speakers.identity(name, client), speaker)

    async def aclose(self) -> None:
        """End what computes; a stream that still runs fails."""
        await self.generator.aclose()
        await self.pool.aclose()
