"""One stream of speech, from its request to its end."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Literal

from firstword.app.core.admission import Slot
from firstword.app.core.audio import AudioTask
from firstword.app.core.audio_queue import AudioQueue
from firstword.app.core.interface import Audio, Flushed, StreamEvent, SynthesisStream
from firstword.app.core.parts import SpokenRequest, StreamParts
from firstword.app.core.phrase_cache import Phrase
from firstword.app.core.request import SynthesisRequest
from firstword.app.core.text import TextTask
from firstword.app.core.tokens import as_seen
from firstword.app.errors import CancelReason, InvalidRequest, Restarting, SynthesisFailed, TtsError
from firstword.app.events import Stopped, StreamEvents
from firstword.app.speakers.interface import PreparedSpeaker, SentRecording
from firstword.app.telemetry.stream_stats import StreamStats
from firstword.models.lm.tokens import TokenError

_log = logging.getLogger(__name__)

State = Literal["waiting", "admitted", "speaking", "ended"]


class SpeechStream(SynthesisStream):
    """Speaks one request; for a `SpeechEngine` and a `Voice`.

        waiting ──speaker, slot──► admitted ──first audio──► speaking
           │                          │                         │
           └──────── cancel(reason), leaving, an error ────────┴──► ended

    waiting: takes text, holds nothing else. admitted: holds its slot; a text task turns text into utterances,
    each a run of the language model, and an audio task turns those into samples. speaking: the client has
    taken audio. ended: everything is free, at once. A stream whose audio is all made gives back its slot
    before its client has taken the audio and left.

    Its tasks run while it is entered.
    """

    def __init__(
        self,
        request: SynthesisRequest,
        parts: StreamParts,
        events: StreamEvents | None = None,
        running: set["SpeechStream"] | None = None,
    ) -> None:
        """events: of the stream, with those who subscribed; None: nobody but the parts. running: holds the
        stream from its admission until it is left.

        Raises InvalidRequest for what the checkpoint cannot do, and SpeakerNotFound.
        """
        parts.info.check(request)
        events = events or StreamEvents(parts.clock, parts.on_event)
        self.request = request
        self.reading = parts.resolved(request)
        self.sample_rate_hz = parts.info.sample_rate_hz
        self.watermark = parts.post_processing.watermark
        self.stats = StreamStats(len(request.text or ""), parts.info.speaker_of(request))
        self.state: State = "waiting"
        self.has_left = asyncio.Event()
        events.subscribe(self.stats.on_event)
        seed = secrets.randbits(31) if request.seed is None else request.seed
        delivery = request.delivery
        samples_per_s = self.sample_rate_hz * delivery.speed
        buffer_s = parts.pacing.listener_buffer_s
        self._audio = AudioQueue(samples_per_s, buffer_s, parts.clock, delivery.is_played)
        self._spoken = SpokenRequest(request, self.reading, seed, parts, events, self.stats, self._audio)
        self._parts = parts
        self._events = events
        self._text = TextTask(self._spoken)
        self.transcripts = self._text.transcripts
        self._running = set() if running is None else running
        self._has_all_text = request.text is not None or request.speech is not None
        self._waiting: asyncio.Timeout | None = None  # while it waits to be admitted
        self._slot: Slot | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped_s: float | None = None  # when it was stopped before its tasks had ended

    async def __aenter__(self) -> "SpeechStream":
        if self._parts.generator.unready_reason:
            raise Restarting(self._parts.generator.unready_reason)
        try:
            async with asyncio.timeout(None) as self._waiting:
                speaking = await self._begin()
        except BaseException as error:
            self._waiting = None
            was_cancelled = self.state == "ended" and isinstance(error, TimeoutError)
            self.cancel(error)
            if was_cancelled:
                return self
            raise
        self._waiting = None
        if self.state == "ended":  # it was cancelled before, or as its slot came
            self._free()
            return self
        self.state = "admitted"
        self._running.add(self)
        self._task = asyncio.create_task(speaking(), name=f"speech {self.request.request_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel(error)
        self._running.discard(self)
        self.has_left.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._stopped_s is not None:
            self._events.emit(Stopped(self._parts.clock() - self._stopped_s))

    def push_text(self, text: str) -> None:
        if self._has_all_text:
            raise InvalidRequest("text came after its end; start a new stream for it", "text")
        num_characters = self.stats.characters + len(text)
        self._parts.info.limits.check_text(num_characters)
        if text:
            self._text.push(text)
            self.stats.characters = num_characters

    def flush(self) -> None:
        self._text.push(Flushed())

    def finish_text(self) -> None:
        if not self._has_all_text:
            self._text.push(None)
            self._has_all_text = True

    def cancel(self, reason: CancelReason | BaseException | None) -> None:
        """Stop what runs or waits, and free it; of two errors the client gets the first.

        A `CancelReason` drops the audio that is there. Else the client gets it and, behind it, the error
        if that is a TtsError.
        """
        self.state = "ended"
        if isinstance(reason, str):
            self._audio.clear()
        elif isinstance(reason, TtsError):
            self._audio.close(reason)
        if self._waiting is not None:
            self._waiting.reschedule(0)
            self._waiting = None
        if self._task is not None and not self._task.done():
            self._stopped_s = self._stopped_s or self._parts.clock()
            self._task.cancel()
        self._free()

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while (event := await self._audio.take()) is not None:
            if isinstance(event, Audio):
                self.stats.audio_samples += len(event.samples)
                if self.state == "admitted":
                    self.state = "speaking"
            yield event

    async def _begin(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Wait for the speaker and a slot; return what then speaks."""
        parts, request, events = self._parts, self.request, self._events
        key, phrase = await parts.phrases.find(request, self.reading, parts.speakers, parts.text.version)
        if phrase is not None:
            if parts.admission is not None:
                parts.admission.refuse_if_draining()
            return partial(self._replay, phrase)
        began_s = events.clock()
        name, note_miss = self.reading.speaker, self.stats.first.note_speaker_miss
        if request.voice.reference is None:
            speaker = await parts.leveled(name, request.client, note_miss)
        else:
            speaker = await parts.prepared(request, name, note_miss)  # as loud as it came
        if isinstance(request.speech, SentRecording):
            check_converts(speaker)
        prepared_s = events.passed("speaker", began_s, **({"name": self.speaker} if self.speaker else {}))
        if parts.admission is not None:
            delivery = request.delivery
            self._slot = await parts.admission.acquire(not delivery.is_played, delivery.is_background)
        counts = {} if request.delivery.is_played else {"is_file": 1}
        events.passed("queue", prepared_s, **counts)
        return partial(self._run, speaker, key)

    async def _run(self, speaker: PreparedSpeaker, phrase_key: str | None) -> None:
        """Speak; keep what was spoken under the key, if there is one."""
        parts, text = self._parts, self._text
        audio = AudioTask(self._spoken, keeps=phrase_key is not None)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(text.run(speaker))
                tasks.create_task(audio.run(text.utterances))
            # A text that was still being written says nothing of how fast it could have been made.
            if self._slot is not None and self.request.mode == "whole" and self.request.delivery.is_played:
                self._slot.made(audio.num_samples / self.sample_rate_hz, self._audio.held_up_s)
            if phrase_key is not None and audio.pieces:
                stats = self.stats
                kept = Phrase(
                    audio.pieces, self.transcripts, stats.word_times, self.speaker, tuple(stats.warnings)
                )
                parts.phrases.put(phrase_key, kept)
        except* (TtsError, TokenError) as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, TtsError | TokenError), error
            self._audio.close(as_seen(error))
        except* Exception as group:
            _log.exception("a stream failed", exc_info=group)
            self._audio.close(SynthesisFailed("the speech could not be made"))
        finally:
            self._free()

    async def _replay(self, phrase: Phrase) -> None:
        """Give out speech that was kept."""
        self.transcripts[:] = phrase.transcripts
        self.stats.word_times = phrase.word_times
        self.stats.warnings += phrase.warnings
        self._events.passed("speaker", self._events.clock(), name=phrase.speaker)
        try:
            for piece in phrase.pieces:
                await self._audio.put(piece)
        finally:
            self._free()

    def _free(self) -> None:
        """The audio queue keeps what the client may still take."""
        self._audio.close()
        self._text.stop()
        if self._slot is not None:
            self._slot.release()


def check_converts(speaker: PreparedSpeaker) -> None:
    """Raise InvalidRequest for a speaker whose voice a recording cannot be converted to."""
    if not speaker.features.has_prompt:
        raise InvalidRequest(
            "voice conversion needs a speaker with a recorded prompt and this one has none; name another "
            "speaker or give a reference",
            "speaker",
        )
