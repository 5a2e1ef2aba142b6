"""One stream: text goes in, audio comes out, and everything it owns is freed together."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from app.engine.admission import Place
from app.engine.interface import (
    Audio,
    CancelReason,
    InvalidRequest,
    StreamEvent,
    StreamStats,
    SynthesisFailed,
    SynthesisRequest,
    TtsError,
)
from app.engine.listener import ListenerBuffer
from app.engine.reading import MAX_PENDING_COMMANDS, Command, Mark, Reader, nothing_to_say
from app.engine.resources import Resources
from app.engine.speaking import Talker
from app.engine.transcript import spoken_text
from app.speakers.enrolment import PreparedSpeaker
from app.text.normalise import is_only_punctuation

_log = logging.getLogger(__name__)


class Synthesis:
    """The engine's `SynthesisStream`: a reader and a talker, each a task, and the listener's buffer."""

    def __init__(
        self,
        request: SynthesisRequest,
        name: str,
        speaker: PreparedSpeaker,
        resources: Resources,
        place: Place,
        on_end: Callable[["Synthesis"], None],
    ) -> None:
        self.request, self.speaker, self.stats = request, name, StreamStats()
        self.sample_rate_hz = resources.token2wav.sample_rate_hz
        self._shared, self._place, self._on_end = resources, place, on_end
        seed = secrets.randbits(31) if request.seed is None else request.seed
        self._listener = ListenerBuffer(self.sample_rate_hz, resources.listener_buffer_s, resources.clock)
        self._reader = Reader(request, speaker, seed, resources, self.stats)
        self._talker = Talker(speaker, resources, self._listener, self.stats)
        self._has_words = False
        self._is_finished = False
        self._task: asyncio.Task[None] | None = None
        self._stopped_s: float | None = None  # when its listener stopped it before its end

    async def __aenter__(self) -> "Synthesis":
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
