"""Audio made ahead of one listener: bounded, in order.

The audio made ahead of one listener: bounded, handed over in order.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from firstword.app.engine.interface import Audio, StreamEvent
from firstword.app.errors import TtsError

MAX_EVENTS = 1000  # ahead of a listener, flushes among them


class AudioQueue:
    """One task puts, one takes; both in the same event loop.

    A listener who does not take pauses the putting task, and through it only the own stream.
    """

    def __init__(self, sample_rate_hz: int, max_ahead_s: float, clock: Callable[[], float]) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._max_samples = round(max_ahead_s * sample_rate_hz)
        self._clock = clock
        self._opened_s = clock()
        self._dry_s: float | None = None  # None: nothing was taken yet
        self._num_ahead = 0  # samples put and not yet taken
        self._events: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()
        self._error: TtsError | None = None
        self._is_closed = False

    @property
    def playout_deadline_s(self) -> float:
        """When the listener, who plays at once what it takes, has nothing left: the next chunk's deadline.

        Before the first audio: when the stream began, so that the longest waiting comes first.
        """
        return self._opened_s if self._dry_s is None else self._dry_s

    async def put(self, event: StreamEvent) -> None:
        """Waits while the listener has more than its share ahead. What comes after `close` is dropped."""
        while self._is_full and not self._is_closed:
            await self._change()
        if self._is_closed:
            return
        self._events.append(event)
        if isinstance(event, Audio):
            self._num_ahead += len(event.samples)
            if self._dry_s is not None:
                self._dry_s = max(self._dry_s, self._clock()) + self._seconds(len(event.samples))
        self._changed.set()

    async def take(self) -> StreamEvent | None:
        """The next event; None at the end. Raises the error that ended the stream, after what came before."""
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                return None
            await self._change()
        event = self._events.popleft()
        if isinstance(event, Audio):
            if self._dry_s is None:
                self._dry_s = self._clock() + self._seconds(self._num_ahead)
            self._num_ahead -= len(event.samples)
        self._changed.set()
        return event

    def close(self, error: TtsError | None = None) -> None:
        """Nothing more comes; what is there can still be taken. The first close counts."""
        if not self._is_closed:
            self._is_closed, self._error = True, error
            self._changed.set()

    def clear(self) -> None:
        """Drops what is there: nobody will take it."""
        self._events.clear()

    @property
    def _is_full(self) -> bool:
        return self._num_ahead > self._max_samples or len(self._events) >= MAX_EVENTS

    def _seconds(self, num_samples: int) -> float:
        return num_samples / self._sample_rate_hz

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
