"""One speech: its text on the way to the server, its audio on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread

from firstword_client.events import (
    Audio,
    ConnectionLost,
    FirstwordError,
    Interrupted,
    SocketLost,
    Stats,
    Word,
)

if TYPE_CHECKING:
    from firstword_client.socket import Socket

Text: TypeAlias = str | Iterable[str | None] | AsyncIterable[str | None]
PCM_BYTES = 2  # of a sample
WORD_FIELDS = tuple(Word.__dataclass_fields__)
ANSWER_TIMEOUT_S = 5.0  # of a `cancel`
RESTART_S = 0.25  # before a speech begins again; more before each later time
MAX_BEGINNINGS = 4  # of one speech, whose connection breaks each time before it sounds
_END = object()


class AsyncSpeech:
    """A text that is being spoken: an async context manager, and an async iterator of `Audio`.

    Leaving it early stops the server. `stats` is set once iteration has ended.
    """

    def __init__(self, socket: Socket, text: Text, options: Mapping[str, Any]) -> None:
        """text: whole, or in pieces as they are written; pieces that are None are skipped, as clients of
        language models give them."""
        if not isinstance(text, (str, Iterable, AsyncIterable)):
            raise TypeError(f"text has to be a str or an iterable of str, not {type(text).__name__}")
        self.stats: Stats | None = None
        self.sample_rate_hz: int | None = None  # from the first audio on
        self.warnings: list[str] = []
        self._socket = socket
        self._text = text
        self._options = dict(options)
        self.speaker: str = options.get("speaker") or ""
        self._context = ""
        self._sent: list[str] = []  # to be sent again, should the connection break before it sounds
        self._has_sent_all = False
        self._sending = asyncio.Lock()  # of one piece after the other, or of all of them again
        self._num_beginnings = 0
        self._has_audio = False
        self._has_ended = False
        self._messages: asyncio.Queue[dict[str, Any] | Exception] = asyncio.Queue()
        self._writing: asyncio.Task[None] | None = None
        self._played_bytes = 0
        self._cancelled: asyncio.Future[dict[str, Any]] | None = None  # the answer; None: not interrupted
        self._interrupted: Interrupted | None = None

    async def __aenter__(self) -> AsyncSpeech:
        await self._begin()
        self._writing = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        if not self._has_ended and self._socket.is_open:
            await self._offer({"type": "cancel"})
        self._socket.forget(self._context)

    async def __aiter__(self) -> AsyncIterator[Audio]:
        """Give the audio as it comes. Raises FirstwordError."""
        while not self._has_ended:
            message = await self._next()
            if message["type"] == "audio":
                yield _audio_of(message)

    async def interrupt(self, played_ms: float | None = None) -> Interrupted:
        """Stop at once; return what was heard. All may have been sent by then, and a part of it played.

        played_ms: how much; None: as `note_played` has it, or all that was sent.
        """
        has_failed = self._has_ended and self.stats is None
        if has_failed or self._interrupted is not None:
            return self._interrupted or Interrupted("", "", 0.0)
        cancel: dict[str, Any] = {"type": "cancel"}
        if played_ms is None and self._played_bytes:
            played_ms = self.played_ms
        if played_ms is not None:
            cancel["played_ms"] = played_ms
        # Whoever iterates or interrupts too, in this task or another, gets the answer as well.
        if self._cancelled is None:
            self._cancelled = asyncio.get_running_loop().create_future()
            self._cancelled.add_done_callback(lambda answer: answer.exception())  # nobody may wait any more
            self._stop_writing()
            await self._offer(cancel)
        nothing_known = Interrupted("", "", self.stats.audio_ms if self.stats else 0.0)
        if not self._context:
            return nothing_known
        try:
            message = await asyncio.wait_for(asyncio.shield(self._cancelled), ANSWER_TIMEOUT_S)
        except (asyncio.TimeoutError, SocketLost):  # noqa: UP041  two errors before Python 3.11
            return nothing_known  # over a minute behind the last audio the server says no more
        self._has_ended = True
        self._interrupted = Interrupted(
            message["spoken_text"], message["remaining_text"], message["audio_ms_sent"]
        )
        return self._interrupted

    @property
    def text(self) -> str:
        """What has been sent."""
        return "".join(self._sent)

    def note_played(self, num_bytes: int) -> None:
        """Count PCM that the listener has heard, for `played_ms` and `interrupt`."""
        self._played_bytes += num_bytes

    @property
    def played_ms(self) -> float:
        """How much the listener has heard, by `note_played`."""
        if self.sample_rate_hz is None:
            return 0.0
        return 1000 * self._played_bytes / (PCM_BYTES * self.sample_rate_hz)

    def receive(self, message: dict[str, Any] | Exception) -> None:
        """Take a message of this speech, or why no more will come. For the socket."""
        self._messages.put_nowait(message)
        if self._cancelled is None or self._cancelled.done():
            return
        if isinstance(message, Exception):
            self._cancelled.set_exception(message)
        elif message["type"] == "cancelled":
            self._cancelled.set_result(message)
        elif message["type"] == "error" and message["fatal"]:
            self._cancelled.set_exception(FirstwordError.of(message["error"]))

    def lose(self, reason: Exception) -> None:
        """Take why the connection is gone: what is still written is nothing for the next one."""
        self._context = ""
        self.receive(reason)

    async def _begin(self) -> None:
        self._num_beginnings += 1
        self._context = await self._socket.open_context(self)
        await self._offer({"type": "start", **self._options})

    async def _next(self) -> dict[str, Any]:
        message = await self._messages.get()
        while isinstance(message, SocketLost) and self._may_begin_again:
            await self._begin_again()
            message = await self._messages.get()
        if isinstance(message, Exception):
            self._has_ended = True
            if isinstance(message, SocketLost):
                raise ConnectionLost(f"the connection broke {self._when_lost}") from message
            raise message
        kind = message["type"]
        if kind == "started":
            self.sample_rate_hz = message["sample_rate"]
        elif kind == "audio":
            self._has_audio = True
        elif kind == "warning":
            self.warnings.append(message["message"])
        elif kind == "done":
            self._has_ended = True
            given = message["stats"]
            self.stats = Stats(**{name: given.get(name) for name in Stats.__dataclass_fields__})
        elif kind == "cancelled":
            self._has_ended = True
        elif kind == "error":
            self._has_ended = message["fatal"]
            if self._has_ended:
                self._stop_writing()
            raise FirstwordError.of(message["error"])
        return message

    @property
    def _may_begin_again(self) -> bool:
        return not self._has_audio and self._cancelled is None and self._num_beginnings < MAX_BEGINNINGS

    @property
    def _when_lost(self) -> str:
        if self._has_audio:
            return "while the speech was coming"
        times = f"{self._num_beginnings} times " if self._num_beginnings > 1 else ""
        return f"{times}before the speech began"

    async def _begin_again(self) -> None:
        await asyncio.sleep(RESTART_S * self._num_beginnings)
        async with self._sending:
            await self._begin()
            if self._cancelled is not None:  # meanwhile
                await self._offer({"type": "cancel"})
                return
            for piece in self._sent:
                await self._offer({"type": "text", "text": piece})
            if self._has_sent_all:
                await self._offer({"type": "end"})

    async def _write(self) -> None:
        try:
            async for piece in _pieces(self._text):
                if not isinstance(piece, str):
                    raise TypeError(f"a piece of text has to be a str, not {type(piece).__name__}")
                async with self._sending:
                    if self._is_over:
                        return
                    self._sent.append(piece)
                    await self._offer({"type": "text", "text": piece})
            async with self._sending:
                if not self._is_over:
                    self._has_sent_all = True
                    await self._offer({"type": "end"})
        except Exception as error:
            self.receive(error)

    @property
    def _is_over(self) -> bool:
        """Whether what else is written would begin another speech, which nobody hears."""
        return self._has_ended or self._cancelled is not None

    def _stop_writing(self) -> None:
        """End the writer, unless it is the writer's text that asks for it."""
        if self._writing is not None and self._writing is not asyncio.current_task():
            self._writing.cancel()

    async def _offer(self, message: Mapping[str, Any]) -> None:
        """Send it; of a lost connection whoever iterates hears from the socket."""
        if not self._context:
            return
        with suppress(SocketLost):
            await self._socket.send({"context": self._context, **message})


async def _pieces(text: Text) -> AsyncIterator[Any]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, AsyncIterable):
        async for piece in text:
            if piece is not None:
                yield piece
    else:
        iterator: Iterator[Any] = iter(text)

        def following() -> Any:
            return next(iterator, _END)

        # In a thread: a generator may wait for a language model.
        while (piece := await anyio.to_thread.run_sync(following)) is not _END:
            if piece is not None:
                yield piece


def _audio_of(message: Mapping[str, Any]) -> Audio:
    words = tuple(Word(*map(word.get, WORD_FIELDS)) for word in message.get("words") or ())
    return Audio(message["data"], message["start_ms"], message["duration_ms"], words)
