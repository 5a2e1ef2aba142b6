"""How many streams speak at once, who waits, and who is refused."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from firstword.app.errors import Draining, Overloaded

_MEMORY = 0.9  # of the running mean of how long a place is held
_FIRST_GUESS_S = 3.0


class Slot:
    """One admitted stream's right to run. Released once, however often it is said."""

    def __init__(self, release: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._release, self._clock, self._since_s = release, clock, clock()
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._release(self._clock() - self._since_s)


class Admission:
    """First come, first served; used within one event loop. `max_streams` may change while nobody speaks."""

    def __init__(
        self, max_streams: int, max_queued: int, queue_timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self.max_streams, self._max_queued = max_streams, max_queued
        self._queue_timeout_s, self._clock = queue_timeout_s, clock
        self._queue: deque[asyncio.Future[None]] = deque()
        self._held_s = _FIRST_GUESS_S
        self._is_draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.num_running = 0

    @property
    def num_queued(self) -> int:
        return len(self._queue)

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    @property
    def is_full(self) -> bool:
        return self.num_running >= self.max_streams and self.num_queued >= self._max_queued

    async def acquire(self) -> Slot:
        """Raises Overloaded where the queue is full or its deadline passes, Draining after `drain`."""
        self._refuse_if_draining()
        if self.num_running >= self.max_streams or self._queue:
            await self._queued()
        else:
            self.num_running += 1
            self._idle.clear()
        return Slot(self._release, self._clock)

    def drain(self) -> None:
        """Admits nobody any more; those who wait are refused now."""
        self._is_draining = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(self._draining())

    async def wait_until_idle(self) -> None:
        await self._idle.wait()

    async def _queued(self) -> None:
        if len(self._queue) >= self._max_queued:
            raise self._overloaded(f"{self.num_running} streams run and {len(self._queue)} wait")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._queue_timeout_s):
                await turn
        except TimeoutError:
            if _is_granted(turn):  # in the last moment
                return
            raise self._overloaded(f"no place came free within {self._queue_timeout_s:g} s") from None
        except asyncio.CancelledError:
            if _is_granted(turn):
                self._pass_on()  # the place came as its taker left
            raise
        finally:
            if turn in self._queue:
                self._queue.remove(turn)

    def _release(self, held_s: float) -> None:
        self._held_s = _MEMORY * self._held_s + (1 - _MEMORY) * held_s
        self._pass_on()

    def _pass_on(self) -> None:
        """Gives a free place to the next who still waits for it."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.num_running -= 1
        if self.num_running == 0:
            self._idle.set()

    def _refuse_if_draining(self) -> None:
        if self._is_draining:
            raise self._draining()

    def _draining(self) -> Draining:
        return Draining("the server is shutting down; come back to its successor", self._retry_after_s())

    def _overloaded(self, why: str) -> Overloaded:
        return Overloaded(f"the server is full: {why}; try again later", self._retry_after_s())

    def _retry_after_s(self) -> int:
        """When those before will have gone, by how long places were held lately."""
        return max(1, math.ceil(self._held_s * (len(self._queue) + 1) / self.max_streams))


def _is_granted(turn: "asyncio.Future[None]") -> bool:
    return turn.done() and not turn.cancelled() and turn.exception() is None
