"""One stream's text on its way to speech tokens: pieces of text in, utterances out."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from app.engine.interface import Flushed, InvalidRequest, StreamStats, SynthesisRequest
from app.engine.resources import Resources
from app.engine.tokens.interface import TokenStream
from app.engine.transcript import Said
from app.speakers.enrolment import PreparedSpeaker
from app.text.segments import Segment

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
    said: Said
    seed: int
    began_s: float


@dataclass(slots=True, eq=False)
class Reader:
    """Reads ahead by one utterance: the next one's tokens are made while the last one is spoken."""

    request: SynthesisRequest
    speaker: PreparedSpeaker
    seed: int
    shared: Resources
    stats: StreamStats
    commands: asyncio.Queue[Command] = field(default_factory=lambda: asyncio.Queue(MAX_PENDING_COMMANDS))
    utterances: asyncio.Queue[Utterance | Flushed | None] = field(default_factory=lambda: asyncio.Queue(1))
    said: list[Said] = field(default_factory=list)
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
        encode = self.shared.prompting.tokenizer.encode
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
        asked = self.shared.prompting.utterance(self.speaker.speaker, spoken, mode, instruct, seed)
        tokens = self.shared.generator.start(asked)
        self._alive = [*(one for one in self._alive if not one.has_ended), tokens]
        utterance = Utterance(tokens, Said(source), seed, self.shared.clock())
        self.said.append(utterance.said)
        await self.utterances.put(utterance)
        return utterance
