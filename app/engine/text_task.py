"""The text task of a stream: turns text into utterances, each a run of the language model."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from firstword.app.engine.interface import Flushed
from firstword.app.engine.stream_state import Mark, StreamState, Utterance
from firstword.app.engine.tokens.interface import TokenStream
from firstword.app.engine.transcript import Silence, UtteranceTranscript
from firstword.app.speakers.interface import SentRecording
from firstword.app.text.language import unspoken_languages
from firstword.app.text.marks import Pause, Rate, Voice
from firstword.app.text.segment import Segment
from firstword.app.text.stream import Item


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

    async def run(self) -> None:
        """Speak text as early as is safe; what cannot be spoken becomes no utterance."""
        state = self._state
        request, parts = state.request, state.parts
        if request.speech is not None:
            await self._speak_tokens(request.speech)
            return
        assert request.mode != "tokens", "tokens are no text"
        reading, warnings = request.reading, state.stats.warnings
        feed = await asyncio.to_thread(parts.text.open, request.mode, request.language, reading, warnings)
        command: str | Mark = ""
        while command is not Mark.END:
            command = await state.commands.get()
            is_mark = isinstance(command, Mark)
            items = await self._in_thread(feed.read, "" if is_mark else command, is_mark)
            for name in [item.name for item in items if isinstance(item, Voice) and item.name is not None]:
                parts.speakers.get(name, request.client)  # before anything is spoken
            for item in items:
                if not isinstance(item, Segment):
                    self._finish_open()
                match item:
                    case Segment() if request.mode == "continuous":
                        await self._continue(item)
                    case Segment():
                        utterance = await self._start(item.source, item.text_ids)
                        await utterance.tokens.wait_until_ended()
                    case Pause():
                        num_samples = round(item.seconds * parts.token2wav.sample_rate_hz)
                        silence = Silence(UtteranceTranscript(item.source, 0, num_samples), num_samples)
                        state.transcripts.append(silence.transcript)
                        await state.utterances.put(silence)
                    case Voice(name=None):
                        self._speaker, self._gain = state.speaker, state.gain
                    case Voice():
                        self._speaker = await parts.speakers.prepared(item.name, request.client)
                        self._gain = await state.gain_of(item.name, self._speaker)
                    case Rate():
                        self._rate = item.rate
            if is_mark:
                self._finish_open()
            if command is Mark.FLUSH:
                await state.utterances.put(Flushed())
        await state.utterances.put(None)

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
            tokens, transcript, state.seed, parts.clock(), state.speaker, uses_prompt, self._rate, self._gain
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
            self._open = await self._start("", None)
        self._open.transcript.source += segment.source
        self._state.parts.generator.push_text(self._open.tokens, segment.text_ids)

    def _finish_open(self) -> None:
        if self._open is not None:
            self._state.parts.generator.finish_text(self._open.tokens)
            self._open = None

    async def _start(self, source: str, text_ids: tuple[int, ...] | None) -> Utterance:
        """text_ids None: they are pushed later."""
        state = self._state
        parts = state.parts
        seed = state.seed + len(state.transcripts)
        asked, speaker = state.request, self._speaker
        request = parts.prompt_builder.utterance(
            speaker.features, text_ids, asked.instruct, seed, asked.voice_mode
        )
        tokens = parts.generator.start(replace(request, sampling=asked.sampling))
        state.token_streams[:] = [*(one for one in state.token_streams if not one.has_ended), tokens]
        transcript = UtteranceTranscript(source)
        utterance = Utterance(
            tokens, transcript, seed, parts.clock(), speaker, request.uses_flow_prompt, self._rate, self._gain
        )
        state.transcripts.append(transcript)
        await state.utterances.put(utterance)
        return utterance
