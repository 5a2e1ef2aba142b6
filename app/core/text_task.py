"""What the tasks of a stream share, and its text task, which turns text into runs of the language model."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

from firstword.app.core.admission import Admission
from firstword.app.core.audio_queue import AudioQueue
from firstword.app.core.interface import Audio, EngineInfo, Flushed, SynthesisRequest
from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.prompt import PromptBuilder
from firstword.app.core.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.core.tokens import start
from firstword.app.core.transcript import Silence, UtteranceTranscript
from firstword.app.core.word_aligner import UtteranceWords
from firstword.app.engine.loudness import Loudness
from firstword.app.options import HopStrategy
from firstword.app.speakers.interface import PreparedSpeaker, PreparedSpeakers, SentRecording
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.stream_record import StreamStats
from firstword.app.text.language import unspoken_languages
from firstword.app.text.marks import Pause, Rate, Reading, SpeechMarks, Voice
from firstword.app.text.segment import Item, Mode, Segment
from firstword.models.lm.tokens import TokenGenerator, TokenStream

MAX_PENDING_COMMANDS = 10_000  # pieces of text and flushes that were not read yet
_CHECK_EVERY_S = 0.05
_SPEAKING_TAKES_S = 0.4  # from the end of a text to its audio, at most but for a busy machine


class ItemFeed(Protocol):
    """A text in pieces to segments and what happens between them; used by one thread at a time."""

    def read(self, piece: str, flushes: bool) -> Sequence[Item]: ...


class TextReader(Protocol):
    """The text step, of which `firstword.app.text.stream.TextFrontend` says more. Any thread may call it."""

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
        finds_words: bool = False,
    ) -> ItemFeed: ...


@dataclass(frozen=True, slots=True, eq=False)
class EngineParts:
    """What all streams of an engine share."""

    info: EngineInfo
    admission: Admission
    speakers: PreparedSpeakers
    text: TextReader
    prompt_builder: PromptBuilder
    generator: TokenGenerator
    token2wav: StreamingToken2Wav
    pool: Token2WavPool
    metrics: Metrics
    clock: Callable[[], float]
    listener_buffer_s: float
    hop_strategy: HopStrategy
    writer_pause_s: float  # 0: what came is not spoken before its sentence has ended
    trims_silence: bool  # before a stream's first sound
    phrases: PhraseCache
    loudness: Loudness | None  # None: speakers are as loud as the networks make them


class Mark(Enum):
    FLUSH = auto()
    END = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """One run of the language model: a segment, or in continuous mode all text up to a flush."""

    tokens: TokenStream
    transcript: UtteranceTranscript
    seed: int
    started_s: float
    speaker: PreparedSpeaker
    uses_flow_prompt: bool
    rate: float
    gain: float  # of its samples
    words: UtteranceWords | None  # None: nobody asked


@dataclass(slots=True, eq=False)
class StreamState:
    """Everything the tasks of one stream share; deleting it frees all of it."""

    request: SynthesisRequest
    speaker: PreparedSpeaker = field(init=False)  # set before the tasks run
    seed: int
    parts: EngineParts
    stats: StreamStats
    audio: AudioQueue
    commands: asyncio.Queue[str | Mark] = field(
        default_factory=lambda: asyncio.Queue(MAX_PENDING_COMMANDS)
    )  # text that comes in pieces, and its marks
    utterances: asyncio.Queue[Utterance | Silence | Flushed | None] = field(
        default_factory=lambda: asyncio.Queue(1)
    )  # for the audio task; None: there are no more
    transcripts: list[UtteranceTranscript] = field(default_factory=list)
    token_streams: list[TokenStream] = field(default_factory=list)  # of the language model, until they end
    gain: float = 1.0  # of the request's speaker
    phrase_key: str | None = None  # None: its audio is not kept
    pieces: list[Audio] = field(default_factory=list)  # all its audio, where it is kept
    num_samples: int = 0  # made so far

    async def gain_of(self, name: str | None, speaker: PreparedSpeaker) -> float:
        """Return what brings the speaker of that name to the wanted loudness, as a factor."""
        if self.parts.loudness is None:
            return 1.0
        identity = await self.parts.speakers.identity(name, self.request.client)
        return self.parts.loudness.gain_of(identity, speaker)

    async def put(self, audio: Audio) -> None:
        """Hand it to the listener, and keep it where the whole audio is to be kept."""
        self.num_samples += len(audio.samples)
        if self.phrase_key is not None:
            self.pieces.append(audio)
        await self.audio.put(audio)


class TextTask:
    """Turns text into utterances. The next one's tokens are generated while the last one is spoken.

    All work on text runs in threads; nothing else does here.
    """

    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._open: Utterance | None = None  # the one that text is pushed to, in continuous mode
        self._speaker = state.speaker  # of what follows, as the rate is
        self._rate = 1.0
        self._gain = state.gain
        self._char_start = 0  # of the item that is handled, in the stream's text

    async def run(self) -> None:
        """Speak text as early as is safe; what cannot be spoken becomes no utterance."""
        state = self._state
        request, parts = state.request, state.parts
        if request.speech is not None:
            await self._speak_tokens(request.speech)
            return
        assert request.mode != "tokens", "tokens are no text"
        reading, warnings = request.reading, state.stats.warnings
        feed = await asyncio.to_thread(
            parts.text.open, request.mode, request.language, reading, warnings, request.wants_words
        )
        command: str | Mark = ""
        while command is not Mark.END:
            command = await self._next_command()
            is_mark = isinstance(command, Mark)
            items = await self._in_thread(feed.read, "" if is_mark else command, is_mark)
            names = {  # before anything is spoken
                item.name: parts.speakers.get(item.name, request.client, takes_alias=True).name
                for item in items
                if isinstance(item, Voice) and item.name is not None
            }
            for item in items:
                if not isinstance(item, Segment):
                    self._finish_open()
                match item:
                    case Segment() if request.mode == "continuous":
                        await self._continue(item)
                    case Segment():
                        utterance = await self._start(item)
                        await utterance.tokens.wait_until_ended()
                    case Pause():
                        num_samples = round(item.seconds * parts.token2wav.sample_rate_hz)
                        silence = Silence(UtteranceTranscript(item.source, 0, num_samples), num_samples)
                        state.transcripts.append(silence.transcript)
                        await state.utterances.put(silence)
                    case Voice(name=None):
                        self._speaker, self._gain = state.speaker, state.gain
                    case Voice():
                        name = names[item.name or ""]
                        self._speaker = await parts.speakers.prepared(name, request.client)
                        self._gain = await state.gain_of(name, self._speaker)
                    case Rate():
                        self._rate = item.rate
                if isinstance(item, Segment | Pause):  # the source of the others goes with what follows
                    self._char_start += len(item.source)
                if request.pauses is not None and self._char_start in request.pauses:
                    self._pause()
            if is_mark:
                self._finish_open()
            if command is Mark.FLUSH:
                await state.utterances.put(Flushed())
        await state.utterances.put(None)

    async def _next_command(self) -> str | Mark:
        """Wait for more text. Where the writer pauses and the listener has no more audio, speak what came."""
        state, pause_s = self._state, self._state.parts.writer_pause_s
        wait_s, num_tokens = pause_s, -1
        while self._open is not None and pause_s and state.request.pauses is None:
            try:
                async with asyncio.timeout(wait_s):
                    return await state.commands.get()
            except TimeoutError:
                wait_s = state.audio.playout_deadline_s - state.parts.clock() - _SPEAKING_TAKES_S
            is_waiting = num_tokens == len(self._open.tokens.ids)  # the language model, for text
            num_tokens = len(self._open.tokens.ids)
            if wait_s <= 0 and is_waiting and state.audio.is_empty:
                self._pause()
            wait_s = max(wait_s, _CHECK_EVERY_S)
        return await state.commands.get()

    def _pause(self) -> None:
        """Speak the text that came to its end, though its sentence goes on."""
        if self._open is not None:
            self._finish_open()
            self._state.stats.pauses.append(self._char_start)

    async def _speak_tokens(self, speech: SentRecording | tuple[int, ...]) -> None:
        """Hand on speech tokens, or those of a recording to convert, as one utterance."""
        state = self._state
        parts, request = state.parts, state.request
        if isinstance(speech, SentRecording):
            recording, speech = speech, await parts.speakers.source_tokens(speech)
            recording.release()
        tokens = TokenStream()
        tokens.ids += speech
        tokens.end("eos")
        uses_prompt = parts.prompt_builder.uses_flow_prompt(
            state.speaker.features, request.instruct, request.voice_mode
        )
        transcript = UtteranceTranscript()
        utterance = Utterance(
            tokens,
            transcript,
            state.seed,
            parts.clock(),
            state.speaker,
            uses_prompt,
            self._rate,
            self._gain,
            words=None,
        )
        state.transcripts.append(transcript)
        await state.utterances.put(utterance)
        await state.utterances.put(None)

    async def _in_thread(self, work: Callable[..., Sequence[Item]], *arguments: object) -> Sequence[Item]:
        parts = self._state.parts
        began_s = parts.clock()
        items = await asyncio.to_thread(work, *arguments)
        segments = [item for item in items if isinstance(item, Segment)]
        ended_s = parts.clock()
        took_s = ended_s - began_s
        self._state.request.trace.add("text", began_s, ended_s, segments=len(segments))
        parts.metrics.stage_seconds.labels(stage="normalize").observe(took_s)
        stats = self._state.stats
        stats.compute_s += took_s
        if not self._state.transcripts:
            stats.first.text_s = (stats.first.text_s or 0.0) + took_s
        for segment in segments:
            unspoken = unspoken_languages(segment.spoken, segment.language, parts.info.languages)
            warnings = map(parts.info.warning_of, unspoken)
            stats.warnings += [warning for warning in warnings if warning not in stats.warnings]
        return items

    async def _continue(self, segment: Segment) -> None:
        """Push text to the open utterance, or open one for it."""
        if self._open is None:
            if not segment.text_ids:
                return
            self._open = await self._start(None)
        self._open.transcript.source += segment.source
        if self._open.words is not None:
            self._open.words.add(segment.source, segment.words, len(segment.text_ids), self._char_start)
        parts, accent = self._state.parts, self._state.request.reading.accent
        parts.generator.push_text(self._open.tokens, parts.prompt_builder.in_accent(segment.text_ids, accent))

    def _finish_open(self) -> None:
        if self._open is not None:
            self._state.parts.generator.finish_text(self._open.tokens)
            self._open = None

    async def _start(self, segment: Segment | None) -> Utterance:
        """segment None: its text is pushed later."""
        state = self._state
        parts = state.parts
        seed = state.seed + len(state.transcripts)
        asked, speaker = state.request, self._speaker
        request = parts.prompt_builder.utterance(
            speaker.features,
            None if segment is None else segment.text_ids,
            asked.instruct,
            seed,
            asked.voice_mode,
            asked.reading.accent,
        )
        request = replace(request, sampling=asked.sampling, wants_attention=asked.wants_words)
        tokens = start(parts.generator, request)
        state.token_streams[:] = [*(one for one in state.token_streams if not one.has_ended), tokens]
        transcript = UtteranceTranscript(segment.source if segment else "", char_start=self._char_start)
        words = None
        if asked.wants_words:
            samples_per_token = parts.info.sample_rate_hz / parts.info.token_rate_hz
            words = UtteranceWords(samples_per_token, parts.info.sample_rate_hz, self._rate)
            if segment is not None:
                words.add(segment.source, segment.words, len(segment.text_ids), self._char_start)
        utterance = Utterance(
            tokens,
            transcript,
            seed,
            parts.clock(),
            speaker,
            request.uses_flow_prompt,
            self._rate,
            self._gain,
            words,
        )
        state.transcripts.append(transcript)
        await state.utterances.put(utterance)
        return utterance
