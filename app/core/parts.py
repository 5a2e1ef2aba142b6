"""What streams are made with: the parts of a running voice, and the request that they speak."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from firstword.app.audio.watermark import Watermark
from firstword.app.budget import Work
from firstword.app.clients import Client
from firstword.app.core.admission import Admission
from firstword.app.core.audio_queue import AudioQueue
from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.request import EngineInfo, ResolvedReading, SynthesisRequest
from firstword.app.core.token2wav_pool import Token2WavPool
from firstword.app.core.tokens import PromptBuilder
from firstword.app.events import StreamEvents, Subscriber, ignore
from firstword.app.options import PacingOptions
from firstword.app.speakers.interface import PreparedSpeaker, PreparedSpeakers
from firstword.app.telemetry.stream_stats import StreamStats
from firstword.app.text.language import primary_language
from firstword.app.text.marks import Voice
from firstword.app.text.segment import Item, Segment, main_language
from firstword.app.text.stream import TextFrontend
from firstword.models.lm.tokens import TokenGenerator


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
    text: TextFrontend
    prompt_builder: PromptBuilder
    generator: TokenGenerator
    pool: Token2WavPool
    clock: Callable[[], float]
    pacing: PacingOptions
    post_processing: PostProcessing = PostProcessing()
    on_event: Subscriber = ignore  # told of every stream's events
    admission: Admission | None = None
    phrases: PhraseCache = field(default_factory=lambda: PhraseCache(0))

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
            own = (speaker.description or speaker.prompt).language
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

    async def leveled(
        self, name: str | None, client: Client, on_miss: Callable[[], None] = lambda: None
    ) -> PreparedSpeaker:
        """Return the speaker of that name with its gain. Raises as `PreparedSpeakers.prepared` does."""
        speaker = await self.speakers.prepared(name, client, on_miss=on_miss)
        gain_of = self.post_processing.gain_of
        if gain_of is None:
            return speaker
        return replace(speaker, gain=gain_of(await self.speakers.identity(name, client), speaker))

    def named_speakers(self, items: Iterable[Item], client: Client) -> dict[str, str]:
        """Return the speakers that marks name, by the name in the mark. Raises SpeakerNotFound."""
        names = [item.name for item in items if isinstance(item, Voice) and item.name is not None]
        return {name: self.speakers.get(name, client, takes_alias=True).name for name in names}

    async def aclose(self) -> None:
        """End what computes; a stream that still runs fails."""
        await self.generator.aclose()
        await self.pool.aclose()


@dataclass(frozen=True, slots=True, eq=False)
class SpokenRequest:
    """A request as it is spoken: what the tasks of its stream share."""

    request: SynthesisRequest
    reading: ResolvedReading
    seed: int  # of the first utterance
    parts: StreamParts
    events: StreamEvents
    stats: StreamStats
    audio: AudioQueue  # what the listener has not taken yet
