"""The engine as a server in front of it sees it: requests go to engines in other processes. Free of torch."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

from firstword.app.audio.watermark import Watermark
from firstword.app.core.interface import (
    Audio,
    EngineStatus,
    ListedTokens,
    StreamEvent,
    SynthesisStream,
    TextReport,
)
from firstword.app.core.request import EngineInfo, SynthesisRequest
from firstword.app.core.transcript import UtteranceTranscript
from firstword.app.errors import CancelReason, Draining, InvalidRequest, Restarting, SynthesisFailed, TtsError
from firstword.app.events import Event, Stage, StreamEvents
from firstword.app.hosts.ray.deadline import deadline
from firstword.app.hosts.ray.messages import (
    Busy,
    Description,
    EngineGone,
    Entered,
    Failed,
    Happened,
    Item,
    Link,
    Noted,
    Opened,
    Operation,
    Said,
)
from firstword.app.speakers.interface import RequestKey, SentRecording, Speakers
from firstword.app.telemetry.stream_stats import StreamStats

OPENS_WITHIN_S: Final = 5.0  # a request that an engine was chosen for; Ray may lose one without a word
FIRST_PIECE_S: Final = 30.0  # of a stream that has its slot and all its text
ANSWERS_WITHIN_S: Final = 120.0  # a call that an engine has taken, or one piece of its answer
SOUND_WITHIN_S: Final = 0.4  # more for each token or mel frame: ten times as long as it sounds, at least
CONNECTS_WITHIN_S: Final = 1.0
SILENT_ROUNDS: Final = 4  # without an answer, before an engine does not count as there
STUCK_ROUNDS: Final = 3  # without an answer and without a piece, before a stream is ended; Ray takes 15 s
DESCRIBED_EVERY_S: Final = 1.0
RESTARTING: Final = "the engine that spoke failed and is restarting; say the text again"
UNANSWERED: Final = "the engine that was asked failed, or did not answer in time; ask again"
CHOICES: Final = ((0, False), (1, False), (0, True), (1, True))
"""Which engine is asked, and whether it may let the stream wait: the speaker's own, the next one, the own,
and the next one where the own is lost while the stream waits there."""

_log = logging.getLogger(__name__)


class RemoteEngine:
    """The `Engine` of a server in front of engines that are all the same."""

    def __init__(
        self,
        link: Link,
        speakers: Speakers,
        known: Sequence[Description],
        watermark: Watermark | None = None,
    ) -> None:
        """known: what engines said of themselves, one at least. watermark: that theirs lay into speech."""
        self._watermark = watermark
        self._link = link
        self._speakers = speakers
        self._known = {one.replica: one for one in known}
        self._last = known[-1]
        self._is_draining = False
        self._streams: set[RemoteStream] = set()
        self._has_ended = asyncio.Event()

    @property
    def info(self) -> EngineInfo:
        return self._last.info

    @property
    def known(self) -> Iterable[Description]:
        """What the engines said of themselves within the last seconds."""
        return self._known.values()

    @property
    def max_streams(self) -> int:
        return sum(one.max_streams for one in self._known.values())

    @property
    def status(self) -> EngineStatus:
        if self._is_draining:
            return EngineStatus(False, "draining: the server is shutting down")
        states = [one.status for one in self._known.values()]
        failing = tuple(sorted({worker for state in states for worker in state.failing_workers}))
        networks = {state.networks for state in states if state.is_ready}
        if networks:
            least = next(one for one in ("loaded", "loading", "unloaded") if one in networks)
            return EngineStatus(True, "", failing, self.max_streams, "the engines' own limits", least)
        return EngineStatus(False, states[0].reason if states else "no engine answers", failing)

    def open(self, request: SynthesisRequest, events: StreamEvents | None = None) -> "RemoteStream":
        self.info.check(request)
        self.info.language_of(request.voice.language)
        if request.voice.reference is None and request.voice.speaker is not None:
            self._speakers.get(request.voice.speaker, request.client)
        stream = RemoteStream(self._link, self.info, request, events or StreamEvents(time.perf_counter))
        stream.watermark = self._watermark
        stream.on_entering = self._enter
        stream.on_left = self._leave
        return stream

    def list_tokens(self, request: SynthesisRequest) -> AsyncGenerator[ListedTokens, None]:
        self.info.check(request)
        return self._tokens_of(request)

    async def _tokens_of(self, request: SynthesisRequest) -> AsyncGenerator[ListedTokens, None]:
        items: Any = self._link.stream(key_of(request), 0, "list_tokens", request)
        async with told_as_restarting(), aclosing(items):
            await within(OPENS_WITHIN_S, items)
            with suppress(StopAsyncIteration):
                while True:
                    (part,) = await within(ANSWERS_WITHIN_S, items)
                    if isinstance(part, Failed):
                        raise part.error
                    yield part

    async def wait_for_free_slot(self) -> None:
        # As long as others take the slots; Ray ends an engine that hangs.
        await ask(self._link, "", "engine", "wait_for_free_slot", more_s=None)

    async def read_text(self, request: SynthesisRequest) -> TextReport:
        self.info.check(request)
        report: TextReport = await ask(self._link, key_of(request), "engine", "read_text", request)
        return report

    async def watch(self) -> None:
        """Keep what is known of the engines, until it is cancelled.

        What one said of itself counts for some rounds in which it says nothing.
        """
        missed: dict[str, int] = {}  # rounds in a row, of those that said nothing in the last one
        while True:
            await asyncio.sleep(DESCRIBED_EVERY_S)
            found: list[Description] = []
            try:
                with suppress(EngineGone):
                    found = await self._link.describe()
                    self._end_stuck()
            except Exception:  # or nobody would ask again
                _log.exception("the engines could not be asked how they are")
            answered = {one.replica: one for one in found}
            missed = {one: missed.get(one, 0) + 1 for one in self._known.keys() - answered.keys()}
            gone = {one for one, rounds in missed.items() if rounds == SILENT_ROUNDS}
            self._known = {name: one for name, one in (self._known | answered).items() if name not in gone}
            self._last = next(iter(found), self._last)

    def _end_stuck(self) -> None:
        for stream in list(self._streams):
            if stream.replica in self._link.late:
                stream.rounds_stuck += 1
            elif stream.replica not in self._link.silent:
                stream.rounds_stuck = 0
            if stream.rounds_stuck == STUCK_ROUNDS:
                _log.warning("an engine is silent: %s", stream.replica)
                stream.give_up()

    async def drain(self, timeout_s: float) -> None:
        self._is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._streams:
                    self._has_ended.clear()
                    await self._has_ended.wait()
        for stream in list(self._streams):
            stream.fail(Draining("the server had to shut down before the speech was finished", 1))

    def _enter(self, stream: "RemoteStream") -> None:
        if self._is_draining:
            raise Draining("the server is shutting down; ask another one", 1)
        self._streams.add(stream)

    def _leave(self, stream: "RemoteStream") -> None:
        self._streams.discard(stream)
        self._has_ended.set()


class RemoteStream(SynthesisStream):
    """A stream of an engine in another process.

    What is done to it before an engine has taken it goes with the request, the rest over a connection to
    that engine. An engine that dies before ends in another's place; one that dies later ends the stream
    with Restarting.
    """

    def __init__(self, link: Link, info: EngineInfo, request: SynthesisRequest, events: StreamEvents) -> None:
        self.request = request
        self.sample_rate_hz = info.sample_rate_hz
        self.watermark: Watermark | None = None
        self.stats = StreamStats(len(request.text or ""), info.speaker_of(request))
        self.transcripts: list[UtteranceTranscript] = []
        self.replica = ""  # of the engine that has it
        self.rounds_stuck = 0  # in a row, in which nothing came of it and its engine did not answer
        self.on_entering: Callable[[RemoteStream], None] = lambda stream: None
        self.on_left: Callable[[RemoteStream], None] = lambda stream: None
        self._link = link
        self._limits = info.limits
        self._events = events
        events.subscribe(self.stats.on_event)
        self._operations: list[Operation] = []
        self._input: asyncio.StreamWriter | None = None  # None: not connected yet
        self._has_all_text = request.text is not None or request.speech is not None
        self._items: asyncio.Queue[StreamEvent | TtsError | None] = asyncio.Queue()
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_ended = False
        self._has_piece = False
        self._task: asyncio.Task[None] | None = None
        self._attempt = asyncio.timeout(None)  # to speak at one engine

    async def __aenter__(self) -> "RemoteStream":
        self.on_entering(self)
        if self._has_ended:
            return self
        # Ray takes the id of a call from the context, and loses all but one of several with the same.
        self._task = asyncio.create_task(
            self._run(), name=f"speech {self.request.request_id}", context=Context()
        )
        try:
            await asyncio.shield(self._entered)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    def push_text(self, text: str) -> None:
        if self._has_all_text:
            raise InvalidRequest("text came after its end; start a new stream for it", "text")
        num_characters = self.stats.characters + len(text)
        self._limits.check_text(num_characters)
        if text:
            self._operate("text", text)
            self.stats.characters = num_characters

    def flush(self) -> None:
        self._operate("flush")

    def finish_text(self) -> None:
        if not self._has_all_text:
            self._operate("end")
            self._has_all_text = True

    def cancel(self, reason: CancelReason) -> None:
        if self._has_ended:
            return
        self._operate("cancel", reason)
        while not self._items.empty():
            self._items.get_nowait()
        self._stop()

    def fail(self, error: TtsError) -> None:
        """End with an error, which its client sees after the audio that is there."""
        if not self._has_ended:
            self._operate("cancel", "shutdown")
            self._items.put_nowait(error)
            self._stop()

    def give_up(self) -> None:
        """Leave an engine that is silent: for the next one, or with Restarting where the stream has begun."""
        if self._entered.done():
            self.fail(Restarting(RESTARTING, 1))
        else:
            self._attempt.reschedule(asyncio.get_running_loop().time())

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while (item := await self._items.get()) is not None:
            if isinstance(item, TtsError):
                raise item
            if isinstance(item, Audio):
                self.stats.audio_samples += len(item.samples)
                self._write(("took", len(item.samples)))
            yield item

    def _operate(self, *operation: Any) -> None:
        self._operations.append(operation)
        self._write(operation)

    def _write(self, operation: Operation) -> None:
        if self._input is not None:
            self._input.write(json.dumps(operation).encode() + b"\n")

    def _stop(self) -> None:
        self._has_ended = True
        self._items.put_nowait(None)
        if not self._entered.done():
            self._entered.set_result(None)
        if self._task is not None:
            self._task.cancel()

    async def _end(self) -> None:
        self.on_left(self)
        self.cancel("disconnect")
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Speak at one engine, or at the next where the first dies or is full before it has begun."""
        try:
            for nth, may_wait in CHOICES:
                try:
                    if await self._speak_at(nth, may_wait):
                        break
                except EngineGone as error:
                    _log.warning("an engine is gone: %s", error)
                    if self._entered.done() or (nth, may_wait) == CHOICES[-1]:
                        raise Restarting(RESTARTING, 1) from None
        except TtsError as error:
            self._failed(error)
        except Exception:
            _log.exception("a stream failed")
            self._failed(SynthesisFailed("the speech could not be made"))
        finally:
            self._has_ended = True
            self._items.put_nowait(None)
            if not self._entered.done():
                self._entered.set_result(None)

    def _failed(self, error: TtsError) -> None:
        if self._entered.done():
            self._items.put_nowait(error)
        else:
            self._entered.set_exception(error)

    async def _speak_at(self, nth: int, may_wait: bool) -> bool:
        """Return whether the engine has taken the stream. Raises EngineGone, and what ended the stream."""
        given = tuple(self._operations)
        self.replica = ""
        self._attempt = asyncio.timeout(None)
        items = self._link.stream(key_of(self.request), nth, "speak", self.request, given, may_wait)
        try:
            async with self._attempt, aclosing(items):
                while (news := await self._next(items)) is not None:
                    self.rounds_stuck = 0
                    for item in news:
                        if isinstance(item, Busy):
                            return False
                        if isinstance(item, Opened):
                            await self._connect(item, len(given))
                        else:
                            self._take(item)
        except TimeoutError:
            raise EngineGone(f"{self.replica} says nothing") from None
        finally:
            if self._input is not None:
                self._input.close()
                self._input = None
        return True

    async def _next(self, items: AsyncGenerator[list[Item], None]) -> list[Item] | None:
        """Return None at the end. Raises EngineGone, also where nothing comes that must."""
        limit_s: float | None = None  # while it waits for its slot, or for text
        if not self.replica:
            limit_s = OPENS_WITHIN_S
        elif self._entered.done() and not self._has_piece and self.request.text is not None:
            limit_s = FIRST_PIECE_S
        try:
            return await within(limit_s, items)
        except StopAsyncIteration:
            return None

    async def _connect(self, opened: Opened, num_given: int) -> None:
        """Send what was done to the stream since the engine was asked, and what will be."""
        try:
            async with deadline(CONNECTS_WITHIN_S):
                _, writer = await asyncio.open_connection(opened.host, opened.port)
        except (OSError, TimeoutError) as error:
            raise EngineGone(f"{opened.host}:{opened.port} takes no connection: {error}") from None
        self.replica = opened.replica
        self._input = writer
        writer.write(f"{opened.token}\n".encode())
        for operation in self._operations[num_given:]:
            self._write(operation)

    def _take(self, item: Item) -> None:
        match item:
            case Entered():
                if not self._entered.done():
                    self._entered.set_result(None)
            case Said(event=event):
                self._has_piece = True
                self._items.put_nowait(event)
            case Happened(event=event, at_s=at_s):
                self._events.emit(_by_our_clock(event, self._events.clock() - at_s))
            case Noted():
                self._note(item)
            case Failed(error=error):
                raise error

    def _note(self, noted: Noted) -> None:
        stats = self.stats
        stats.first.is_speaker_ready = noted.is_speaker_ready
        stats.speech_tokens = noted.speech_tokens
        stats.pauses[:] = noted.pauses
        stats.word_times = noted.word_times
        stats.warnings[:] = noted.warnings
        for number, transcript in noted.transcripts:
            self.transcripts[number : number + 1] = [transcript]


def _by_our_clock(event: Event, shift_s: float) -> Event:
    if not isinstance(event, Stage):
        return event
    return replace(event, start_s=event.start_s + shift_s, end_s=event.end_s + shift_s)


def key_of(request: SynthesisRequest) -> str:
    """Return what decides which engine speaks a request: who speaks it."""
    reference = request.voice.reference
    if isinstance(reference, SentRecording):
        return hashlib.sha256(reference.content).hexdigest()
    return request.voice.speaker or ""


@asynccontextmanager
async def told_as_restarting() -> AsyncIterator[None]:
    try:
        yield
    except (EngineGone, StopAsyncIteration) as error:
        _log.warning("an engine is gone: %s", str(error) or "it ended without an answer")
        raise Restarting(UNANSWERED, 1) from None


async def ask(
    link: Link,
    key: str,
    part: str,
    method: str,
    *given: Any,
    request_key: RequestKey | None = None,
    more_s: float | None = 0.0,
    **named: Any,
) -> Any:
    """Call a method of the engine, its speakers or its stages. Raises what it raises, and Restarting.

    request_key: of a request that makes a speaker. more_s: what its answer may take beyond
    ANSWERS_WITHIN_S; None: as long as it wants.
    """

    async def asked() -> Any:
        items: Any = link.stream(key, 0, "ask", part, method, request_key, given, named)
        async with aclosing(items):
            await within(OPENS_WITHIN_S, items)
            return await within(None if more_s is None else ANSWERS_WITHIN_S + more_s, items)

    async with told_as_restarting():
        # In a context of its own, as a stream is.
        (result,) = await asyncio.create_task(asked(), context=Context())
    if isinstance(result, Failed):
        raise result.error
    return result


async def within(limit_s: float | None, items: AsyncGenerator[list[Any], None]) -> list[Any]:
    """Return what comes next. Raises EngineGone where nothing does, and StopAsyncIteration."""
    try:
        async with deadline(limit_s):
            return await anext(items)
    except TimeoutError:
        raise EngineGone(f"nothing came within {limit_s:g} s") from None
