"""Audio on its way from a stream to its client: a queue bounded in time."""

import asyncio
from collections import deque
from collections.abc import Callable

from firstword.app.core.interface import Audio, StreamEvent
from firstword.app.errors import TtsError

FILE_DEADLINE_S = 24 * 3600.0  # beyond that of any stream that is played
MAX_EVENTS = 1000  # ahead of a client, flushes among them


class AudioQueue:
    """One task puts, one takes; both in the same event loop.

    A client that does not take pauses the putting task, and through it its own stream only.
    """

    def __init__(
        self, samples_per_s: float, max_ahead_s: float, clock: Callable[[], float], is_played: bool = True
    ) -> None:
        """samples_per_s: as they are played, at another speed more or fewer than the sample rate.

        is_played: the client plays audio while it comes; chunks of other streams are less urgent.
        """
        self._samples_per_s = samples_per_s
        self._max_samples = round(max_ahead_s * samples_per_s)
        self._clock = clock
        self._opened_s = clock() if is_played else clock() + FILE_DEADLINE_S
        self._is_played = is_played
        self._deadline_s: float | None = None  # None: nothing was taken yet
        self._num_ahead = 0  # samples put and not yet taken
        self.held_up_s = 0.0  # time in which its client had enough ahead
        self._events: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()
        self._error: TtsError | None = None
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """True if all that was put was taken."""
        return not self._events

    @property
    def playout_deadline_s(self) -> float:
        """The time when a client that plays at once what it takes runs dry: the deadline of the next chunk.

        Before the first audio it is the stream's beginning, so that the longest waiting comes first; for a
        stream that is not played, a day after that.
        """
        return self._opened_s if self._deadline_s is None else self._deadline_s

    async def wait_until_empty(self) -> None:
        """Return once all that was put was taken."""
        while self._events:
            self._changed.clear()
            await self._changed.wait()

    async def put(self, event: StreamEvent) -> None:
        """Wait while the client has enough audio ahead. What comes after `close` is dropped."""
        while not self._is_closed and (
            self._num_ahead > self._max_samples or len(self._events) >= MAX_EVENTS
        ):
            self._changed.clear()
            since_s = self._clock()
            await self._changed.wait()
            self.held_up_s += self._clock() - since_s
        if self._is_closed:
            return
        self._events.append(event)
        if isinstance(event, Audio):
            self._num_ahead += len(event.samples)
            if self._deadline_s is not None:
                seconds = len(event.samples) / self._samples_per_s
                self._deadline_s = max(self._deadline_s, self._clock()) + seconds
        self._changed.set()

    async def take(self) -> StreamEvent | None:
        """Return the next event, None at the end.

        Raises the error that ended the stream, after what came before it.
        """
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        if isinstance(event, Audio):
            if self._deadline_s is None and self._is_played:
                self._deadline_s = self._clock() + self._num_ahead / self._samples_per_s
            self._num_ahead -= len(event.samples)
        self._changed.set()
        return event

    def close(self, error: TtsError | None = None) -> None:
        """Nothing more comes; what is there can still be taken. The first call counts."""
        if not self._is_closed:
            self._is_closed = True
            self._error = error
            self._changed.set()

    def clear(self) -> None:
        """Drop the events that nobody will take."""
        self._events.clear()
