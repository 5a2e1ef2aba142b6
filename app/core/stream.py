"""Run one stream: a text task, an audio task and the state they share.

The text task turns text into utterances, each a run of the language model, one ahead of what is spoken. The
audio task turns their speech tokens into samples, chunk by chunk, and puts them into the audio queue.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial
from types import TracebackType

from firstword.app.audio.dsp import LeadingSilence
from firstword.app.core.admission import Slot
from firstword.app.core.audio_queue import AudioQueue
from firstword.app.core.hops import Hops
from firstword.app.core.interface import Audio, Flushed, StreamEvent, SynthesisRequest
from firstword.app.core.phrase_cache import Phrase
from firstword.app.core.shaping import UtteranceShaper
from firstword.app.core.text_task import (
    MAX_PENDING_COMMANDS,
    EngineParts,
    Mark,
    StreamState,
    TextTask,
    Utterance,
)
from firstword.app.core.tokens import wait_for
from firstword.app.core.transcript import Silence, TimedWord, spoken_text
from firstword.app.errors import CancelReason, InvalidRequest, Restarting, SynthesisFailed, TtsError
from firstword.app.speakers.interface import PreparedSpeaker, SentRecording
from firstword.app.telemetry.stream_record import StreamStats
from firstword.models.token2wav_step import StepInput

_log = logging.getLogger(__name__)

REFERENCE = "(reference)"  # the speaker's name where a request brings its recording

_SILENCE_PEAK = 10 ** (-45 / 20)


class SpeechStream:
    """The `SynthesisStream` of a `SpeechEngine`. Its tasks run while it is entered."""

    def __init__(
        self,
        request: SynthesisRequest,
        prepared: PreparedSpeaker | None,
        parts: EngineParts,
        running: set["SpeechStream"],
    ) -> None:
        """prepared None: the speaker is the one that the request names. running: holds the stream from its
        admission until it is left."""
        self.request = request
        self.speaker = request.speaker or parts.info.default_speaker
        if request.reference is not None:
            self.speaker = REFERENCE
        self.sample_rate_hz = parts.token2wav.sample_rate_hz
        self.stats = StreamStats(characters=len(request.text or ""))
        seed = secrets.randbits(31) if request.seed is None else request.seed
        audio = AudioQueue(self.sample_rate_hz, parts.listener_buffer_s, parts.clock, request.is_played)
        self._state = StreamState(request, seed, parts, self.stats, audio)
        self._prepared = prepared
        self._running = running
        self.has_left = asyncio.Event()
        self._waiting: asyncio.Timeout | None = None  # while it waits to be admitted
        self._slot: Slot | None = None
        self._has_ended = False
        self._has_all_text = request.text is not None or request.speech is not None
        self._task: asyncio.Task[None] | None = None
        self._cancelled_s: float | None = None  # when its client stopped it before its end
        if request.text is not None:
            self._state.commands.put_nowait(request.text)
            self._state.commands.put_nowait(Mark.END)

    async def __aenter__(self) -> "SpeechStream":
        state, parts = self._state, self._state.parts
        metrics, clock = parts.metrics, parts.clock
        is_file = not self.request.is_played
        if parts.generator.unready_reason:
            raise Restarting(parts.generator.unready_reason)
        began_s = prepared_s = clock()
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting = waiting
                phrase = None
                if self._prepared is None:
                    state.phrase_key, phrase = await parts.phrases.find(
                        self.request, parts.speakers, parts.text.version
                    )
                if phrase is not None:
                    self._running.add(self)
                    self._task = asyncio.create_task(self._replay(phrase))
                    return self
                state.speaker = self._prepared or await self._speaker()
                prepared_s = clock()
                self.stats.first.speaker_s = prepared_s - began_s
                metrics.stage_seconds.labels(stage="speaker").observe(prepared_s - began_s)
                with (metrics.file_queue_depth if is_file else metrics.queue_depth).track_inprogress():
                    self._slot = await parts.admission.acquire(is_file, self.request.is_background)
        except BaseException as error:
            was_cancelled = self._has_ended and isinstance(error, TimeoutError)
            self._end()
            if not was_cancelled:
                raise
        finally:
            self._waiting = None
        if self._has_ended:  # it was cancelled before, or while it waited
            self._end()
            return self
        admitted_s = clock()
        self.stats.queue_wait_s = admitted_s - prepared_s
        self.request.trace.add("speaker", began_s, prepared_s, name=self.speaker)
        self.request.trace.add("queue", prepared_s, admitted_s)
        wait_seconds = metrics.file_queue_wait_seconds if is_file else metrics.queue_wait_seconds
        wait_seconds.observe(self.stats.queue_wait_s)
        self._running.add(self)
        self._task = asyncio.create_task(self._run(), name=f"speech {self.request.request_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._running.discard(self)
        self.has_left.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._cancelled_s is not None:
            parts = self._state.parts
            parts.metrics.cancel_to_stop_seconds.observe(parts.clock() - self._cancelled_s)

    async def _replay(self, phrase: Phrase) -> None:
        self._state.transcripts[:] = phrase.transcripts
        self.stats.word_times = phrase.word_times
        try:
            for piece in phrase.pieces:
                await self._state.audio.put(piece)
        finally:
            self._end()

    async def _speaker(self) -> PreparedSpeaker:
        request = self.request
        note_miss = partial(setattr, self.stats.first, "is_speaker_ready", False)
        parts = self._state.parts
        speaker = await parts.speakers.prepared(request.speaker, request.client, request.reference, note_miss)
        if request.reference is None:
            self._state.gain = await self._state.gain_of(request.speaker, speaker)
        if request.reference is not None:
            request.reference.release()
        if isinstance(request.speech, SentRecording) and not speaker.features.has_prompt:
            raise InvalidRequest(
                "voice conversion needs a speaker with a recorded prompt and this one has none; name another "
                "speaker or give a reference",
                "speaker",
            )
        return speaker

    def push_text(self, text: str) -> None:
        if self._has_all_text:
            raise InvalidRequest("text came after its end; start a new stream for it", "text")
        num_characters = self.stats.characters + len(text)
        self._state.parts.info.check_length(num_characters)
        if text:
            self._command(text)
            self.stats.characters = num_characters

    def flush(self) -> None:
        self._command(Mark.FLUSH)

    def finish_text(self) -> None:
        if not self._has_all_text:
            self._command(Mark.END)
            self._has_all_text = True

    def cancel(self, reason: CancelReason) -> None:
        self._state.audio.clear()
        self._stop()

    def fail(self, error: TtsError) -> None:
        """End with an error that the client sees, after the audio that is there."""
        self._state.audio.close(error)
        self._free()

    def spoken_text(self, num_samples: int) -> str:
        return spoken_text(self._state.transcripts, num_samples, self.sample_rate_hz)

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while (event := await self._state.audio.take()) is not None:
            if isinstance(event, Audio):
                self.stats.audio_samples += len(event.samples)
            yield event

    def _command(self, command: str | Mark) -> None:
        try:
            self._state.commands.put_nowait(command)
        except asyncio.QueueFull:
            raise InvalidRequest(
                f"{MAX_PENDING_COMMANDS} pieces of text wait to be spoken; send longer pieces or wait", "text"
            ) from None

    def _stop(self) -> None:
        """For the client, who may leave before the end."""
        if self._task is not None and not self._task.done() and self._cancelled_s is None:
            self._cancelled_s = self._state.parts.clock()
        self._free()

    def _free(self) -> None:
        """Stop what still runs or waits. The audio queue keeps what the client may still take."""
        if self._waiting is not None:
            self._waiting.reschedule(0)
            self._waiting = None
        if self._task is not None:
            self._task.cancel()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        state = self._state
        state.audio.close()
        for tokens in state.token_streams:
            state.parts.generator.stop(tokens)
        state.token_streams.clear()
        if self._slot is not None:
            self._slot.release()

    async def _run(self) -> None:
        state = self._state
        audio = state.audio
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(TextTask(state).run())
                tasks.create_task(make_audio(state))
            if state.phrase_key is not None and state.pieces:
                state.parts.phrases.put(
                    state.phrase_key, Phrase(state.pieces, state.transcripts, state.stats.word_times)
                )
        except* TtsError as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, TtsError), error
            audio.close(error)
        except* Exception as group:
            _log.exception("a stream failed", exc_info=group)
            audio.close(SynthesisFailed("the speech could not be made"))
        finally:
            self._end()


async def make_audio(state: StreamState) -> None:
    """Turn the speech tokens of utterances into audio, chunk by chunk.

    Raises SynthesisFailed where an utterance fails or has no audio.
    """
    parts = state.parts
    trims = parts.trims_silence and state.request.speech is None
    silence = LeadingSilence(parts.token2wav.sample_rate_hz) if trims else None
    anomalies = parts.metrics.generation_anomalies
    while (item := await state.utterances.get()) is not None:
        if isinstance(item, Flushed):
            await state.audio.put(item)
            continue
        if isinstance(item, Silence):
            for samples in item.chunks(parts.token2wav.sample_rate_hz):
                await state.put(Audio(samples))
            continue
        try:
            peak = await _speak(state, item, silence)
        finally:
            state.stats.compute_s += item.tokens.compute_s
            state.stats.lm_s += item.tokens.compute_s
        if item.tokens.reason in ("token_loop", "max_tokens"):
            anomalies.labels(kind=item.tokens.reason).inc()
        if item.transcript.num_samples == 0:
            anomalies.labels(kind="empty").inc()
            raise SynthesisFailed("the language model said nothing for a segment")
        if peak < _SILENCE_PEAK:
            anomalies.labels(kind="silence").inc()


async def _speak(state: StreamState, utterance: Utterance, silence: LeadingSilence | None) -> float:
    """Speak an utterance to its end; return its highest sample.

    A chunk takes as many tokens as token2wav wants, lookahead included, so the chunks depend on the
    tokens alone and never on how fast they come or the client reads.
    """
    parts = state.parts
    tokens = utterance.tokens
    transcript = utterance.transcript
    token2wav = parts.token2wav
    prompt_state = utterance.speaker.prompt_state
    has_full_context = state.request.context == "full"
    token2wav_state = token2wav.start(
        prompt_state, utterance.seed, utterance.uses_flow_prompt, has_full_context
    )
    first_hop_tokens = token2wav.tokens_wanted(token2wav_state)
    trace = state.request.trace
    reached_s = []
    for stage, num_tokens in (("llm_first_token", 1), ("llm_first_hop", first_hop_tokens)):
        await wait_for(tokens, num_tokens)
        reached_s.append(parts.clock())
        parts.metrics.stage_seconds.labels(stage=stage).observe(reached_s[-1] - utterance.started_s)
    first_token_s = reached_s[0]
    trace.add("prefill", utterance.started_s, first_token_s)
    first = state.stats.first
    if first.prefill_s is None:
        first.prefill_s = first_token_s - utterance.started_s
        first.first_hop_s = reached_s[1] - first_token_s

    shaper = UtteranceShaper(
        token2wav.sample_rate_hz, silence, utterance.rate, utterance.gain, state.request.volume
    )
    words = utterance.words
    if words is not None:
        words.first_sample = state.num_samples
    hops = Hops(parts.hop_strategy, token2wav.hop_tokens / parts.info.token_rate_hz)
    position = 0  # tokens given to token2wav
    is_last = False
    while not is_last:
        num_more = hops.next_chunks(state.audio.playout_deadline_s - parts.clock()) - 1
        due = position + token2wav.tokens_wanted(token2wav_state) + num_more * token2wav.hop_tokens
        await wait_for(tokens, due)
        new = tokens.ids[position:due]
        position += len(new)
        is_last = tokens.has_ended and position == len(tokens.ids)
        if is_last:
            trace.add("decode", first_token_s, parts.clock(), tokens=position)
        chunk = StepInput(token2wav_state, new, is_last)
        solved = await parts.pool.run(chunk, state.audio.playout_deadline_s)
        flow_end_s = solved.started_s + solved.times.flow_s
        trace.add("flow", solved.started_s, flow_end_s, tokens=len(new))
        trace.add("vocoder", flow_end_s, flow_end_s + solved.times.vocoder_s, samples=len(solved.samples))
        state.stats.compute_s += solved.compute_s
        state.stats.flow_s += solved.flow_s
        state.stats.vocoder_s += solved.vocoder_s
        if first.audio_s is None:
            first.flow_s = (first.flow_s or 0.0) + solved.flow_s
            first.vocoder_s = (first.vocoder_s or 0.0) + solved.vocoder_s
        state.stats.speech_tokens += len(new)
        samples = shaper.shape(solved.samples, is_last)
        transcript.num_samples += len(samples)
        ended: Sequence[TimedWord] = ()
        if words is not None and (len(samples) or is_last):
            details = tokens.details[:position]
            ended = words.take_ended(details, shaper.num_trimmed, transcript.num_samples, is_last)
            transcript.words += ended
            if state.stats.word_times != "estimated":
                state.stats.word_times = words.found
        if len(samples) or ended:
            first.audio_s = first.audio_s or len(samples) / token2wav.sample_rate_hz
            await state.put(Audio(samples, ended))
    transcript.total_samples = transcript.num_samples
    return shaper.peak
