"""An engine without networks, for tests of everything that stands above it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field, replace
from types import TracebackType

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.budget import DEFAULT_LIMITS
from firstword.app.core.interface import (
    Audio,
    EngineStatus,
    Flushed,
    ListedTokens,
    ReadPart,
    StreamEvent,
    TextReport,
)
from firstword.app.core.request import EngineInfo, SynthesisRequest
from firstword.app.core.transcript import TimedWord, UtteranceTranscript
from firstword.app.errors import CancelReason, Draining, SpeakerNotFound
from firstword.app.events import StreamEvents
from firstword.app.telemetry.stream_stats import StreamStats
from firstword.app.text.language import detect_language
from firstword.app.text.other_languages import OtherLanguages, SpokenLanguages

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_CHARACTER = 1200  # 50 ms
SENTENCE_ENDS = ".!?。！？"  # noqa: RUF001  Chinese ones are meant
INFO = EngineInfo(
    checkpoint="fake-voice",
    backend="fake",
    sample_rate_hz=SAMPLE_RATE_HZ,
    default_speaker="hum",
    can_continue_text=True,
    languages=("en", "zh"),
    limits=DEFAULT_LIMITS,
)

READY = EngineStatus(is_ready=True)


def tone(character: str, num_samples: int = SAMPLES_PER_CHARACTER) -> Samples:
    """What a character sounds like: a sine of its own pitch, the same each time."""
    pitch_hz = 200 + 25 * (ord(character) % 64)
    time_s = np.arange(num_samples) / SAMPLE_RATE_HZ
    return (0.3 * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)


def speech(text: str, num_samples: int = SAMPLES_PER_CHARACTER) -> Samples:
    """What a whole text sounds like."""
    return np.concatenate([tone(character, num_samples) for character in text] or [tone(" ", 0)])


@dataclass(eq=False)
class FakeEngine:
    """Opens streams that do what the fields say; a field counts for streams entered after it is set.

    Chunk counts are of audio given out by one stream: with 0, `failure` and `pause` strike before the first.
    """

    info: EngineInfo = INFO
    max_streams: int = 8
    status: EngineStatus = READY
    refusal: Exception | None = None  # of `admit`
    speakers: frozenset[str] = frozenset({"hum", "anna"})
    samples_per_character: int = SAMPLES_PER_CHARACTER
    failure: Exception | None = None
    fails_after_chunks: int = 0
    pause: asyncio.Event | None = None  # the stream waits for it
    pauses_after_chunks: int = 0
    streams: list["FakeStream"] = field(default_factory=list)  # every one that was entered
    has_opened: asyncio.Event = field(default_factory=asyncio.Event)  # at least one

    @property
    def open_streams(self) -> list["FakeStream"]:
        return [stream for stream in self.streams if stream.is_open]

    def open(self, request: SynthesisRequest, events: StreamEvents | None = None) -> "FakeStream":
        name = request.voice.speaker or self.info.default_speaker
        stream = FakeStream(self, request, name)
        if name not in self.speakers:
            raise SpeakerNotFound(f"No speaker is named {name!r}; GET /speakers lists them.")
        self.info.check(request)
        return stream

    def list_tokens(self, request: SynthesisRequest) -> AsyncGenerator[ListedTokens]:
        self.open(request)
        return self._tokens(request.text or "")

    async def _tokens(self, text: str) -> AsyncGenerator[ListedTokens]:
        """A token for each character; `failure` counts as for chunks."""
        await self.admit()
        for number, character in enumerate(text):
            if self.failure is not None and number >= self.fails_after_chunks:
                raise self.failure
            reason = "eos" if number == len(text) - 1 else None
            warnings = ("a mark is left out",) if "[breath]" in text else ()
            yield ListedTokens(0, text, (ord(character),), (-0.5,), reason, warnings)

    async def read_text(self, request: SynthesisRequest) -> TextReport:
        """A segment of all of it, a token for each character."""
        self.open(request)
        text = request.text or ""
        return TextReport((ReadPart(text, text, "en", tuple(map(ord, text))),), ())

    async def wait_for_free_slot(self) -> None:
        """There is always some."""

    async def admit(self) -> None:
        """Entering a stream waits for it."""
        if self.refusal is not None:
            raise self.refusal

    async def drain(self, timeout_s: float) -> None:
        self.status = EngineStatus(is_ready=False, reason="draining")
        self.refusal = Draining("The server is shutting down; try again later.", retry_after_s=1)
        try:
            async with asyncio.timeout(timeout_s):
                for stream in self.open_streams:
                    await stream.closed.wait()
        except TimeoutError:
            for stream in self.open_streams:
                stream.fail(self.refusal)


class FakeStream:
    """Says each character as one chunk of `tone`, and makes a chunk only when somebody takes it."""

    def __init__(self, engine: FakeEngine, request: SynthesisRequest, speaker: str) -> None:
        self.request = request
        self.speaker = speaker
        self.language = engine.info.language_of(request.voice.language)
        self.sample_rate_hz = engine.info.sample_rate_hz
        self.stats = StreamStats()
        self.watermark = None
        self.is_open = True  # until it is left, or its iteration ended
        self.cancels: list[CancelReason] = []  # at most one: later ones do nothing
        self.text = ""  # all that came
        self.transcripts: list[UtteranceTranscript] = []  # of it; the time of each character is known
        self.num_chunks = 0  # of audio made so far
        self.closed = asyncio.Event()
        self._languages = OtherLanguages(SpokenLanguages(engine.info.checkpoint, engine.info.languages))
        self._engine = engine  # from the time when it is entered on: a copy, so that nothing changes for it
        self._waiting = ""  # pushed, not yet due
        self._due: deque[str | Flushed] = deque()
        self._is_finished = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        if request.text is not None:
            self.push_text(request.text)
            self.finish_text()
        elif request.speech is not None:
            self.push_text("converted")
            self.finish_text()

    async def __aenter__(self) -> "FakeStream":
        await self._engine.admit()
        self._engine.streams.append(self)
        self._engine.has_opened.set()
        self._engine = replace(self._engine)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes a few turns of the loop, as one does that waits for its tasks."""
        self._close()
        for _ in range(5):
            await asyncio.sleep(0)

    def push_text(self, text: str) -> None:
        self._engine.info.limits.check_text(len(self.text) + len(text))
        self.text += text
        total = self._engine.samples_per_character * len(self.text)
        self.transcripts = [UtteranceTranscript(self.text, total_samples=total)]
        self.stats.characters += len(text)
        for warning in self._languages.read(text, self.language or detect_language(text)):
            if warning not in self.stats.warnings:
                self.stats.warnings.append(warning)
        for character in text:
            self._waiting += character
            is_sentence = self.request.mode == "segments" and character in SENTENCE_ENDS
            if is_sentence or self.request.mode == "continuous":
                self._speak()

    def flush(self) -> None:
        self._speak()
        self._due.append(Flushed())
        self._changed.set()

    def finish_text(self) -> None:
        self._is_finished = True
        self._speak()

    def cancel(self, reason: CancelReason) -> None:
        if self.is_open:
            self.cancels.append(reason)
            self._close()

    def fail(self, error: Exception) -> None:
        """Ends the stream; whoever takes from it gets the error."""
        self._failure = error
        self._close()

    def spoken_text(self, num_samples: int) -> str:
        num_characters = num_samples // self._engine.samples_per_character
        if num_characters >= len(self.text) or self.text[num_characters].isspace():
            return self.text[:num_characters]
        return self.text[: self.text.rfind(" ", 0, num_characters) + 1].rstrip()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[StreamEvent]:
        while await self._has_due():
            event = self._due.popleft()
            if isinstance(event, Flushed):
                yield event
                continue
            if not await self._may_speak():
                break
            samples = tone(event, self._engine.samples_per_character)
            self.num_chunks += 1
            self.stats.speech_tokens += 1
            self.stats.audio_samples += len(samples)
            yield Audio(samples, self._ended_words())
        self._close()
        if self._failure is not None:
            raise self._failure

    def _ended_words(self) -> list[TimedWord]:
        """The word that ends in the last chunk: one chunk is one character."""
        end = self.num_chunks
        if not self.request.delivery.wants_words:
            return []
        is_end = end == len(self.text) or self.text[end].isspace()
        word = self.text[:end].rpartition(" ")[2]
        if not is_end or not word:
            return []
        self.stats.word_times = "estimated"
        per_chunk = self._engine.samples_per_character
        return [TimedWord(word, end - len(word), end, (end - len(word)) * per_chunk, end * per_chunk)]

    async def _has_due(self) -> bool:
        """Waits for something to speak; False once nothing will come."""
        while self.is_open and not self._due and not self._is_finished:
            self._changed.clear()
            await self._changed.wait()
        return self.is_open and bool(self._due)

    async def _may_speak(self) -> bool:
        """Fails and pauses as told; False if the stream was cancelled meanwhile."""
        engine = self._engine
        if engine.pause is not None and self.num_chunks >= engine.pauses_after_chunks:
            await _first_of(engine.pause, self.closed)
        if self.is_open and engine.failure and self.num_chunks >= engine.fails_after_chunks:
            self.fail(engine.failure)
        return self.is_open

    def _speak(self) -> None:
        """What cannot be spoken waits for something that can."""
        if any(character.isalnum() for character in self.text):
            self._due.extend(self._waiting)
            self._waiting = ""
        self._changed.set()

    def _close(self) -> None:
        self.is_open = False
        self.closed.set()
        self._changed.set()


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
