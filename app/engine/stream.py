"""One stream: a text task, an audio task and the state they share.

What all streams of an engine share.

Which words a listener has heard: text against audio, utterance by utterance. Pure.

When enough speech tokens are ready for token2wav: a pure decision, one object per utterance.

One stream's text on its way to speech tokens: pieces of text in, utterances out.

One stream's utterances on their way to its listener: speech tokens in, audio out, chunk by chunk.

One stream: text goes in, audio comes out, and everything it owns is freed together.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from firstword.app.audio.dsp import LeadingSilence, Samples
from firstword.app.engine.admission import Slot
from firstword.app.engine.audio_queue import AudioQueue
from firstword.app.engine.interface import Audio, EngineInfo, Flushed, Mode, StreamEvent, SynthesisRequest
from firstword.app.engine.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.engine.tokens.interface import TokenGenerator, TokenStream
from firstword.app.engine.tokens.prompt import PromptBuilder
from firstword.app.errors import CancelReason, InvalidRequest, SynthesisFailed, TtsError
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.stream_record import StreamStats
from firstword.app.text.normalize import is_only_punctuation
from firstword.app.text.segment import Segment
from firstword.models.token2wav import StepInput


class TextFeed(Protocol):
    """Turns text as it comes into segments; used by one thread at a time."""

    def push(self, piece: str) -> Sequence[Segment]: ...

    def flush(self) -> Sequence[Segment]: ...


FeedFactory = Callable[[Mode, str | None, bool], TextFeed]
"""Of a mode, a language (None: found for each segment), and whether to normalize."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineParts:
    info: EngineInfo
    generator: TokenGenerator
    prompt_builder: PromptBuilder
    token2wav: StreamingToken2Wav
    pool: Token2WavPool
    feed: FeedFactory
    metrics: Metrics
    clock: Callable[[], float]
    listener_buffer_s: float
    trims_silence: bool  # before a stream's first sound


_SECONDS_PER_LETTER = 0.07
_SECONDS_PER_IDEOGRAPH = 0.22
_IDEOGRAPHS = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"  # and kana, and hangul
_IDEOGRAPH = re.compile(_IDEOGRAPHS)
_WORD_END = re.compile(rf"(?<=\S)(?=\s)|(?<={_IDEOGRAPHS})|$")


@dataclass(slots=True)
class UtteranceTranscript:
    """One utterance: its part of the text, exactly as it was given, and its audio so far."""

    source: str = ""
    num_samples: int = 0
    total_samples: int | None = None  # None: not known yet

    def expected_samples(self, sample_rate_hz: int) -> int:
        """All its audio; while that is not known, guessed from the length of the text."""
        if self.total_samples is not None:
            return self.total_samples
        ideographs = len(_IDEOGRAPH.findall(self.source))
        letters = len(self.source) - ideographs
        guess_s = _SECONDS_PER_IDEOGRAPH * ideographs + _SECONDS_PER_LETTER * letters
        return max(self.num_samples, round(guess_s * sample_rate_hz))


def spoken_text(said: Sequence[UtteranceTranscript], num_samples: int, sample_rate_hz: int) -> str:
    """The text of the first `num_samples` samples; within an utterance in proportion, to a whole word."""
    spoken = ""
    for one in said:
        expected = one.expected_samples(sample_rate_hz)
        if num_samples < expected:
            return spoken + _whole_words(one.source, num_samples / expected)
        spoken += one.source
        num_samples -= expected
    return spoken


def _whole_words(text: str, share: float) -> str:
    """The words of `text` that end within its first `share`."""
    limit = share * len(text)
    ends = [match.start() for match in _WORD_END.finditer(text) if match.start() <= limit]
    return text[: max(ends, default=0)]


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """Tokens [start, stop) of an utterance; none at all where only its end was still to be told."""

    start: int
    stop: int
    is_last: bool


@dataclass(slots=True)
class ChunkSchedule:
    """Hands out an utterance's tokens hop by hop.

    How many tokens a hop wants, lookahead included, is told by the grid of the network (25 tokens, the
    first hop fewer so that audio starts early), so the chunks depend on token counts alone and never on
    how fast tokens or listeners are. Hops do not grow: with the incremental flow a long one saves nothing.
    """

    handed_tokens: int = 0
    is_finished: bool = False

    def tokens_due(self, wanted_tokens: int) -> int:
        """How many tokens the utterance must have until its next chunk, wanted_tokens of them new."""
        return self.handed_tokens + wanted_tokens

    def next_chunk(self, ready_tokens: int, wanted_tokens: int, has_ended: bool) -> TokenChunk | None:
        """ready_tokens: of the utterance so far; has_ended: no more come. None: wait, or all is done."""
        ready_tokens = max(ready_tokens, self.handed_tokens)  # a loop takes back some that were handed out
        due = self.tokens_due(wanted_tokens)
        if self.is_finished or (ready_tokens < due and not has_ended):
            return None
        stop = min(due, ready_tokens)
        chunk = TokenChunk(self.handed_tokens, stop, has_ended and stop == ready_tokens)
        self.handed_tokens, self.is_finished = stop, chunk.is_last
        return chunk


MAX_PENDING_COMMANDS = 10_000  # pieces of text and flushes that were not read yet


def nothing_to_say() -> InvalidRequest:
    return InvalidRequest("the text has nothing that can be spoken; send at least one word", "text")


class Mark(Enum):
    FLUSH = auto()
    END = auto()


Command = str | Mark  # a piece of text, or what comes after it


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """One run of the language model: a segment, or in continuous mode all text up to a flush."""

    tokens: TokenStream
    said: UtteranceTranscript
    seed: int
    began_s: float


@dataclass(slots=True, eq=False)
class TextTask:
    """Reads ahead by one utterance: the next one's tokens are made while the last one is spoken."""

    request: SynthesisRequest
    speaker: PreparedSpeaker
    seed: int
    shared: EngineParts
    stats: StreamStats
    commands: asyncio.Queue[Command] = field(default_factory=lambda: asyncio.Queue(MAX_PENDING_COMMANDS))
    utterances: asyncio.Queue[Utterance | Flushed | None] = field(default_factory=lambda: asyncio.Queue(1))
    said: list[UtteranceTranscript] = field(default_factory=list)
    _alive: list[TokenStream] = field(default_factory=list)
    _open: Utterance | None = None  # the one that text is pushed to

    async def run(self) -> None:
        """Until the text ends; None is the last of `utterances`. Raises InvalidRequest."""
        request = self.request
        feed = self.shared.feed(request.mode, request.language, request.normalize)
        while True:
            command = await self.commands.get()
            if isinstance(command, str):
                await self._say(await self._segments(feed.push, command))
                continue
            await self._say(await self._segments(feed.flush))
            self._close_utterance()
            if command is Mark.END:
                if not self.said:
                    raise nothing_to_say()
                await self.utterances.put(None)
                return
            await self.utterances.put(Flushed())

    def stop(self) -> None:
        """Ends every utterance that is still being made, and frees its place in the generator."""
        for tokens in self._alive:
            self.shared.generator.stop(tokens)
        self._alive.clear()

    async def _segments(self, work: Callable[..., Sequence[Segment]], *arguments: str) -> Sequence[Segment]:
        began = self.shared.clock()
        segments = await asyncio.to_thread(work, *arguments)
        took = self.shared.clock() - began
        self.shared.metrics.stage_seconds.labels(stage="normalize").observe(took)
        self.stats.compute_s += took
        return segments

    async def _say(self, segments: Sequence[Segment]) -> None:
        if self.request.mode == "continuous":
            await self._continue(segments)
            return
        for segment in segments:
            utterance = await self._start(segment.spoken, segment.source)
            await utterance.tokens.wait_until_ended()

    async def _continue(self, segments: Sequence[Segment]) -> None:
        """Pushes text to the running utterance, or starts one with it."""
        encode = self.shared.prompt_builder.tokenizer.encode
        ids = await asyncio.to_thread(lambda: [id for segment in segments for id in encode(segment.spoken)])
        if self._open is None:
            if not ids:
                return
            self._open = await self._start("", "")
        self._open.said.source += "".join(segment.source for segment in segments)
        self.shared.generator.push_text(self._open.tokens, ids)

    def _close_utterance(self) -> None:
        if self._open is not None:
            self.shared.generator.finish_text(self._open.tokens)
            self._open = None

    async def _start(self, spoken: str, source: str) -> Utterance:
        seed = self.seed + len(self.said)
        mode, instruct = self.request.mode, self.request.instruct
        asked = self.shared.prompt_builder.utterance(self.speaker.features, spoken, mode, instruct, seed)
        tokens = self.shared.generator.start(asked)
        self._alive = [*(one for one in self._alive if not one.has_ended), tokens]
        utterance = Utterance(tokens, UtteranceTranscript(source), seed, self.shared.clock())
        self.said.append(utterance.said)
        await self.utterances.put(utterance)
        return utterance


_FADE_S = 0.003  # at both ends of an utterance, so that joins never click
_SILENCE_PEAK = 10 ** (-45 / 20)


class AudioTask:
    def __init__(
        self,
        speaker: PreparedSpeaker,
        instruct: str | None,
        shared: EngineParts,
        listener: AudioQueue,
        stats: StreamStats,
    ) -> None:
        self.speaker, self.shared, self.listener, self.stats = speaker, shared, listener, stats
        self._uses_prompt = shared.prompt_builder.uses_flow_prompt(speaker.features, instruct)
        sample_rate_hz = shared.token2wav.sample_rate_hz
        self._num_fade = round(_FADE_S * sample_rate_hz)
        self._silence = LeadingSilence(sample_rate_hz) if shared.trims_silence else None

    async def run(self, utterances: "asyncio.Queue[Utterance | Flushed | None]") -> None:
        """Until None comes. Raises SynthesisFailed."""
        while (item := await utterances.get()) is not None:
            if isinstance(item, Flushed):
                await self.listener.put(item)
            else:
                await self._speak(item)

    async def _speak(self, utterance: Utterance) -> None:
        try:
            await self._speak_chunks(utterance)
        finally:
            self.stats.compute_s += utterance.tokens.compute_s

    async def _speak_chunks(self, utterance: Utterance) -> None:
        tokens, session = utterance.tokens, self.shared.token2wav
        state = session.start(self.speaker.prompt_state, utterance.seed, self._uses_prompt)
        schedule = ChunkSchedule()
        loudest = 0.0
        await self._await_first_hop(utterance, session.tokens_wanted(state))
        while not schedule.is_finished:
            wanted = session.tokens_wanted(state)
            await tokens.wait_for(schedule.tokens_due(wanted))
            chunk = schedule.next_chunk(len(tokens.ids), wanted, tokens.has_ended)
            assert chunk is not None, "woken without enough tokens"
            samples = await self._samples(utterance, state, chunk)
            loudest = max(loudest, float(np.abs(samples).max(initial=0)))
            if len(samples):
                await self.listener.put(Audio(samples))
        self._finish(utterance, loudest)

    async def _await_first_hop(self, utterance: Utterance, num_tokens: int) -> None:
        stages, clock = self.shared.metrics.stage_seconds, self.shared.clock
        await utterance.tokens.wait_for(1)
        stages.labels(stage="llm_first_token").observe(clock() - utterance.began_s)
        await utterance.tokens.wait_for(num_tokens)
        stages.labels(stage="llm_first_hop").observe(clock() - utterance.began_s)

    async def _samples(self, utterance: Utterance, state: Any, chunk: TokenChunk) -> Samples:
        given = StepInput(state, utterance.tokens.ids[chunk.start : chunk.stop], chunk.is_last)
        wave = await self.shared.pool.run(given, self.listener.playout_deadline_s)
        self.stats.compute_s += wave.compute_s
        self.stats.speech_tokens += chunk.stop - chunk.start
        samples = wave.samples
        if self._silence is not None:
            samples = self._silence.trim(samples, chunk.is_last)
        is_first = utterance.said.num_samples == 0
        utterance.said.num_samples += len(samples)
        return faded(samples, self._num_fade, is_first, chunk.is_last)

    def _finish(self, utterance: Utterance, loudest: float) -> None:
        utterance.said.total_samples = utterance.said.num_samples
        anomalies = self.shared.metrics.generation_anomalies
        reason = utterance.tokens.reason
        if reason in ("token_loop", "max_tokens"):
            anomalies.labels(kind=reason).inc()
        if utterance.said.num_samples == 0:
            anomalies.labels(kind="empty").inc()
            raise SynthesisFailed("the language model said nothing for a segment")
        if loudest < _SILENCE_PEAK:
            anomalies.labels(kind="silence").inc()


def faded(samples: Samples, num_fade: int, is_first: bool, is_last: bool) -> Samples:
    """Samples (n,) of an utterance, its first rising from zero and its last falling to it."""
    num_fade = min(num_fade, len(samples))
    if not num_fade or not (is_first or is_last):
        return samples
    samples = samples.copy()
    ramp = np.linspace(0, 1, num_fade, dtype=np.float32)
    if is_first:
        samples[:num_fade] *= ramp
    if is_last:
        samples[-num_fade:] *= ramp[::-1]
    return samples


_log = logging.getLogger(__name__)


class SpeechStream:
    """The engine's `SynthesisStream`: a reader and a talker, each a task, and the listener's buffer."""

    def __init__(
        self,
        request: SynthesisRequest,
        name: str,
        speaker: PreparedSpeaker,
        resources: EngineParts,
        place: Slot,
        on_end: Callable[["SpeechStream"], None],
    ) -> None:
        self.request, self.speaker, self.stats = request, name, StreamStats()
        self.sample_rate_hz = resources.token2wav.sample_rate_hz
        self._shared, self._place, self._on_end = resources, place, on_end
        seed = secrets.randbits(31) if request.seed is None else request.seed
        self._listener = AudioQueue(self.sample_rate_hz, resources.listener_buffer_s, resources.clock)
        self._reader = TextTask(request, speaker, seed, resources, self.stats)
        self._talker = AudioTask(speaker, request.instruct, resources, self._listener, self.stats)
        self._has_words = False
        self._is_finished = False
        self._task: asyncio.Task[None] | None = None
        self._stopped_s: float | None = None  # when its listener stopped it before its end

    async def __aenter__(self) -> "SpeechStream":
        self._task = asyncio.create_task(self._run(), name=f"speech {self.request.request_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._on_end(self)
        assert self._task is not None, "left before it was entered"
        await asyncio.wait([self._task])
        if self._stopped_s is not None:
            self._shared.metrics.cancel_to_stop_seconds.observe(self._shared.clock() - self._stopped_s)

    def push_text(self, text: str) -> None:
        if self._is_finished:
            raise InvalidRequest("text came after its end; start a new stream for it", "text")
        num_characters = self.stats.characters + len(text)
        self._shared.info.check_length(num_characters)
        if text:
            self._command(text)
            self.stats.characters = num_characters
            self._has_words |= not is_only_punctuation("".join(text.split()))

    def flush(self) -> None:
        self._command(Mark.FLUSH)

    def finish_text(self) -> None:
        if self._is_finished:
            return
        if not self._has_words:
            raise nothing_to_say()
        self._command(Mark.END)
        self._is_finished = True

    def cancel(self, reason: CancelReason) -> None:
        self._listener.clear()
        self._stop()

    def fail(self, error: TtsError) -> None:
        """Ends the stream with an error that its listener sees, after the audio that is there."""
        self._listener.close(error)
        self._free()

    def spoken_text(self, num_samples: int) -> str:
        return spoken_text(self._reader.said, num_samples, self.sample_rate_hz)

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while (event := await self._listener.take()) is not None:
            if isinstance(event, Audio):
                self.stats.audio_samples += len(event.samples)
            yield event

    def _command(self, command: Command) -> None:
        try:
            self._reader.commands.put_nowait(command)
        except asyncio.QueueFull:
            raise InvalidRequest(
                f"{MAX_PENDING_COMMANDS} pieces of text wait to be spoken; send longer pieces or wait", "text"
            ) from None

    def _stop(self) -> None:
        """At the listener's word: measures how long it takes."""
        if self._task is not None and not self._task.done() and self._stopped_s is None:
            self._stopped_s = self._shared.clock()
        self._free()

    def _free(self) -> None:
        """Stops what still runs, gives the place back. The buffer keeps what its listener may still take."""
        if self._task is not None:
            self._task.cancel()
        self._listener.close()
        self._end()

    def _end(self) -> None:
        self._reader.stop()
        self._place.release()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reader.run())
                tasks.create_task(self._talker.run(self._reader.utterances))
        except* TtsError as group:
            self._listener.close(_first(group))
        except* Exception as group:
            _log.exception("a stream failed", exc_info=group)
            self._listener.close(SynthesisFailed("the speech could not be made"))
        finally:
            self._listener.close()
            self._end()


def _first(group: BaseExceptionGroup[TtsError]) -> TtsError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, TtsError), error
    return error
