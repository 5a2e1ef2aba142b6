"""The text task of a stream: text in, runs of the language model out, one ahead of what is spoken."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from firstword.app.core.interface import Flushed
from firstword.app.core.parts import SpokenRequest
from firstword.app.core.transcript import Silence, UtteranceTranscript
from firstword.app.core.word_aligner import UtteranceWords
from firstword.app.errors import InvalidRequest
from firstword.app.events import Stage
from firstword.app.speakers.interface import PreparedSpeaker, SentRecording
from firstword.app.text.marks import Pause, Rate, Voice
from firstword.app.text.segment import Item, ItemFeed, Segment, first_sentence, main_language
from firstword.models.lm.tokens import TokenStream

MAX_PENDING_COMMANDS = 10_000  # pieces of text and flushes that were not read yet
_STALLED_S = 0.05  # without a new token: the language model waits for text
_SPEAKING_TAKES_S = 0.4  # from the end of a text to its audio, at most but for a busy machine


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
    words: UtteranceWords | None = None  # None: nobody asked


Spoken = Utterance | Silence | Flushed
Command = str | Flushed | None
"""A piece of text, a flush that is told of behind the audio before it, or the end."""


class TextTask:
    """Turns text into `utterances`. The next one's tokens are generated while the last one is spoken.

    All work on text runs in threads; nothing else does here.
    """

    def __init__(self, spoken: SpokenRequest) -> None:
        """spoken: what its listener still has of it decides how long a writer may pause."""
        self.utterances: asyncio.Queue[Spoken | None] = asyncio.Queue(1)  # None: the end
        self.transcripts: list[UtteranceTranscript] = []
        self._seed = spoken.seed  # of what is spoken next
        self._spoken = spoken
        self._request = spoken.request
        self._parts = spoken.parts
        self._commands: asyncio.Queue[Command] = asyncio.Queue(MAX_PENDING_COMMANDS)
        self._token_streams: list[TokenStream] = []  # of the language model, until they end
        self._open: Utterance | None = None  # the one that text is pushed to, in continuous mode
        self._ending_ids: tuple[int, ...] = ()  # of it, should it end here
        self._own: PreparedSpeaker  # the request's speaker, from `run` on
        self._follows_text = spoken.reading.follows_text  # until it is known who speaks
        self._named: PreparedSpeaker | None = None  # the speaker of what follows, where a mark names one
        self._rate = 1.0  # of what follows
        self._char_start = 0  # of the item that is handled, in the stream's text

    def push(self, command: Command) -> None:
        """Take what comes next. Raises InvalidRequest if too much waits."""
        try:
            self._commands.put_nowait(command)
        except asyncio.QueueFull:
            raise InvalidRequest(
                f"{MAX_PENDING_COMMANDS} pieces of text wait to be spoken; send longer pieces or wait", "text"
            ) from None

    def stop(self) -> None:
        """Stop the language model."""
        for tokens in self._token_streams:
            self._parts.generator.stop(tokens)
        self._token_streams.clear()

    async def run(self, speaker: PreparedSpeaker) -> None:
        """Speak text as early as is safe; what cannot be spoken becomes no utterance.

        speaker: of the request, until a mark names another one.
        """
        self._own = speaker
        request, reading = self._request, self._spoken.reading
        if request.speech is not None:
            await self._speak_tokens(request.speech)
        else:
            assert request.mode != "tokens", "tokens are no text"
            feed = await asyncio.to_thread(
                self._parts.text.open,
                request.mode,
                reading.language,
                reading.reading,
                self._spoken.stats.warnings,
                reading.work,
                request.delivery.wants_words,
            )
            if request.text is not None:
                await self._speak(await self._read(feed, request.text, True))
            else:
                await self._speak_pieces(feed)
            if self._follows_text:
                events = self._spoken.events
                events.passed("speaker", events.clock(), name=self._parts.info.default_speaker)
        await self.utterances.put(None)

    async def _speak_pieces(self, feed: ItemFeed) -> None:
        command: Command = ""
        while command is not None:
            command = await self._next_command()
            if isinstance(command, str):
                await self._speak(await self._read(feed, command, False))
                continue
            await self._speak(await self._read(feed, "", True, command is None))
            self._finish_open()
            if command is not None:
                await self.utterances.put(command)

    async def _next_command(self) -> Command:
        if self._open is None or not self._parts.pacing.writer_pause_s or self._request.pauses is not None:
            return await self._commands.get()
        async with asyncio.TaskGroup() as tasks:
            pausing = tasks.create_task(self._pause_when_dry(self._open.tokens))
            command = await self._commands.get()
            pausing.cancel()
        return command

    async def _pause_when_dry(self, tokens: TokenStream) -> None:
        """Speak what came once the writer pauses, the model waits for text and the listener soon runs dry."""
        await asyncio.sleep(self._parts.pacing.writer_pause_s)
        audio, is_dry = self._spoken.audio, False
        while not is_dry:
            await audio.wait_until_empty()
            num_tokens = len(tokens.ids)
            lead_s = audio.playout_deadline_s - self._parts.clock() - _SPEAKING_TAKES_S
            await asyncio.sleep(max(lead_s, _STALLED_S))
            lead_s = audio.playout_deadline_s - self._parts.clock() - _SPEAKING_TAKES_S
            is_dry = lead_s <= 0 and audio.is_empty and len(tokens.ids) == num_tokens
        if self._commands.empty():
            self._pause()

    def _pause(self) -> None:
        """Speak the text that came to its end, though its sentence goes on."""
        if self._open is not None:
            self._finish_open()
            self._spoken.stats.pauses.append(self._char_start)

    async def _read(self, feed: ItemFeed, piece: str, flushes: bool, is_end: bool = True) -> Sequence[Item]:
        """Read a piece in a thread, which counts as done where it refuses. Raises as `ItemFeed.read` does."""
        events, began_s, items = self._spoken.events, self._spoken.events.clock(), list[Item]()
        try:
            items = await asyncio.to_thread(feed.read, piece, flushes, is_end)
        finally:
            ended_s = events.clock()
            counts = {"segments": sum(isinstance(item, Segment) for item in items)}
            events.emit(Stage("text", began_s, ended_s, ended_s - began_s, counts))
        return items

    async def _speak(self, items: Sequence[Item]) -> None:
        parts, request = self._parts, self._request
        names = parts.named_speakers(items, request.client)  # before anything is spoken
        if self._follows_text:
            await self._choose_speaker([item for item in items if isinstance(item, Segment)])
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
                    num_samples = round(item.seconds * parts.info.sample_rate_hz)
                    transcript = UtteranceTranscript(item.source, 0, num_samples)
                    await self._hand_on(Silence(transcript, num_samples))
                case Voice(name=None):
                    self._named = None
                case Voice():
                    self._named = await parts.leveled(names[item.name or ""], request.client)
                case Rate():
                    self._rate = item.rate
            if isinstance(item, Segment | Pause):  # the source of the others goes with what follows
                self._char_start += len(item.source)
            if request.pauses is not None and self._char_start in request.pauses:
                self._pause()

    async def _choose_speaker(self, segments: Sequence[Segment]) -> None:
        """Take the default speaker of the text's language; in pieces, of its first sentence so far."""
        is_whole = self._request.text is not None
        language = main_language(segments if is_whole else first_sentence(segments)[-1:])
        if language is None:
            return
        self._follows_text = False
        events, info = self._spoken.events, self._parts.info
        began_s = events.clock()
        name = info.default_speakers.get(language)
        if name is not None:
            note_miss = self._spoken.stats.first.note_speaker_miss
            self._own = await self._parts.leveled(name, self._request.client, note_miss)
        events.passed("speaker", began_s, name=name or info.default_speaker)

    async def _continue(self, segment: Segment) -> None:
        """Push text to the open utterance, or open one for it."""
        text_ids = segment.text_ids
        if self._open is not None and self._open.tokens.has_ended:  # by itself, as in a loop
            self._open = None
        if self._open is None:
            if not text_ids:
                self.transcripts.append(UtteranceTranscript(segment.source, 0, 0, self._char_start))
                return
            self._open = await self._start(None)
            if segment.first_ids and segment.first_ids != text_ids:
                text_ids = segment.first_ids
                first = [replace(word, num_before=0) for word in segment.words[:1]]
                segment = replace(segment, words=(*first, *segment.words[1:]))
        if text_ids:
            self._ending_ids = segment.ending_ids
        self._add_text(self._open, segment, len(text_ids))
        ids = self._parts.prompt_builder.in_accent(text_ids, self._spoken.reading.reading.accent)
        self._parts.generator.push_text(self._open.tokens, ids)

    def _finish_open(self) -> None:
        """End the open utterance as its language model has learned to, though its sentence may go on."""
        if self._open is not None:
            if self._ending_ids:
                if self._open.words is not None:
                    self._open.words.add("", (), len(self._ending_ids), self._char_start)
                self._parts.generator.push_text(self._open.tokens, self._ending_ids)
            self._parts.generator.finish_text(self._open.tokens)
            self._open = None

    async def _start(self, segment: Segment | None) -> Utterance:
        """Start the language model on a segment; None: its text is pushed later."""
        parts, request = self._parts, self._request
        text_ids = None if segment is None else segment.text_ids
        speaker, accent = self._named or self._own, self._spoken.reading.reading.accent
        asked = parts.prompt_builder.utterance(speaker.features, text_ids, request.voice, self._seed, accent)
        asked = replace(asked, sampling=request.sampling, wants_attention=request.delivery.wants_words)
        tokens = parts.generator.start(asked)
        self._token_streams = [*(one for one in self._token_streams if not one.has_ended), tokens]
        utterance = self._utterance(tokens)
        if segment is not None:
            self._add_text(utterance, segment, len(segment.text_ids))
        await self._hand_on(utterance)
        return utterance

    def _add_text(self, utterance: Utterance, segment: Segment, num_ids: int) -> None:
        utterance.transcript.source += segment.source
        if utterance.words is not None:
            utterance.words.add(segment.source, segment.words, num_ids, self._char_start)

    async def _speak_tokens(self, speech: SentRecording | tuple[int, ...]) -> None:
        """Hand on speech tokens, or those of a recording to convert, as one utterance."""
        if isinstance(speech, SentRecording):
            recording, speech = speech, await self._parts.speakers.source_tokens(speech, self._request.client)
            recording.release()
        tokens = TokenStream()
        tokens.ids += speech
        tokens.end("eos")
        await self._hand_on(self._utterance(tokens))

    def _utterance(self, tokens: TokenStream) -> Utterance:
        """Return an utterance of the speaker and the rate of now, its text to be added."""
        parts, request, words = self._parts, self._request, None
        speaker = self._named or self._own
        if request.delivery.wants_words and request.speech is None:
            samples_per_token = parts.info.sample_rate_hz / parts.info.token_rate_hz
            words = UtteranceWords(samples_per_token, parts.info.sample_rate_hz, self._rate)
        return Utterance(
            tokens=tokens,
            transcript=UtteranceTranscript(char_start=self._char_start),
            seed=self._seed,
            started_s=self._spoken.events.clock(),
            speaker=speaker,
            uses_flow_prompt=parts.prompt_builder.uses_flow_prompt(speaker.features, request.voice),
            rate=self._rate,
            words=words,
        )

    async def _hand_on(self, spoken: Utterance | Silence) -> None:
        """Wait until it is the next one to be spoken."""
        self.transcripts.append(spoken.transcript)
        self._seed += 1
        await self.utterances.put(spoken)
