"""Admission: how many streams run at once, which wait for a slot, which are refused."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from firstword.app.errors import Draining, Overloaded

_SMOOTHING = 0.9  # of the running mean of how long a slot is held
_FIRST_ESTIMATE_S = 3.0


class Slot:
    """A slot for one running stream. `release` is idempotent."""

    def __init__(self, release: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._release = release
        self._clock = clock
        self._since_s = clock()
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._release(self._clock() - self._since_s)


class Admission:
    """First come, first served; used within one event loop. `max_streams` may change while no stream runs."""

    def __init__(
        self, max_streams: int, max_queued: int, queue_timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self.max_streams = max_streams
        self._max_queued = max_queued
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self._queue: deque[asyncio.Future[None]] = deque()
        self._held_s = _FIRST_ESTIMATE_S
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
        """Raise Overloaded where the queue is full or its deadline passes, Draining after `drain`."""
        if self._is_draining:
            raise self._draining()
        if self.num_running < self.max_streams and not self._queue:
            self.num_running += 1
            self._idle.clear()
            return Slot(self._release, self._clock)
        if len(self._queue) >= self._max_queued:
            raise self._overloaded(f"{self.num_running} streams run and {len(self._queue)} wait")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiter)
        try:
            async with asyncio.timeout(self._queue_timeout_s):
                await waiter
        except TimeoutError:
            if not _is_granted(waiter):  # it may be, in the last moment
                raise self._overloaded(f"no slot came free within {self._queue_timeout_s:g} s") from None
        except asyncio.CancelledError:
            if _is_granted(waiter):
                self._pass_on()  # the slot came as its taker left
            raise
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
        return Slot(self._release, self._clock)

    def drain(self) -> None:
        """Admit no more streams; those that wait are refused now."""
        self._is_draining = True
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_exception(self._draining())

    async def wait_until_idle(self) -> None:
        await self._idle.wait()

    def _release(self, held_s: float) -> None:
        self._held_s = _SMOOTHING * self._held_s + (1 - _SMOOTHING) * held_s
        self._pass_on()

    def _pass_on(self) -> None:
        """Give a free slot to the next stream that still waits for one."""
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.num_running -= 1
        if self.num_running == 0:
            self._idle.set()

    def _draining(self) -> Draining:
        return Draining("the server is shutting down; retry against another instance", self._retry_after_s())

    def _overloaded(self, why: str) -> Overloaded:
        return Overloaded(f"the server is full: {why}; try again later", self._retry_after_s())

    def _retry_after_s(self) -> int:
        """Estimate when those before will have gone, by how long slots were held lately."""
        return max(1, math.ceil(self._held_s * (len(self._queue) + 1) / self.max_streams))


def _is_granted(waiter: "asyncio.Future[None]") -> bool:
    return waiter.done() and not waiter.cancelled() and waiter.exception() is None
