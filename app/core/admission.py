"""Admission: how many streams run at once, which wait for a slot, which are refused."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from firstword.app.errors import Draining, Overloaded
from firstword.app.options import QueueOptions

_SMOOTHING = 0.9  # of the running mean of how long a slot is held
_FIRST_ESTIMATE_S = 3.0
MAX_BACKGROUND = 1000  # that wait
_SLOTS_PER_FILE = 8  # how many run beside all slots, in what is left of the machine


@dataclass(frozen=True, slots=True)
class Made:
    """All audio of a stream that is played. took_s: without the time in which its client had enough ahead.

    num_at_once: played streams that ran, itself included, on average of its first and its last moment.
    """

    audio_s: float
    took_s: float
    num_at_once: float


class Slot:
    """A slot for one running stream. `release` is idempotent."""

    def __init__(self, admission: "Admission", line: "_Line") -> None:
        self._admission = admission
        self._line = line
        self._since_s = admission.clock()
        self._num_at_first = line.num_running
        self._is_held = True

    def begin(self) -> None:
        """Count its time, and those beside it, from now on."""
        self._since_s = self._admission.clock()
        self._num_at_first = self._line.num_running

    def made(self, audio_s: float, idle_s: float) -> None:
        """Tell that all audio of its stream is there. idle_s: when its client had enough ahead."""
        took_s = self._admission.clock() - self._since_s - idle_s
        num_at_once = (self._num_at_first + self._line.num_running) / 2
        self._admission.on_made(Made(audio_s, took_s, num_at_once))

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._admission.release(self._line, self._admission.clock() - self._since_s)


@dataclass(slots=True, eq=False)
class _Line:
    """Holds the streams of one kind that run and those that wait, first come, first served."""

    what: str
    slots_per_stream: int  # that there have to be for each after the first
    max_waiting: int
    timeout_s: float | None  # None: there is none
    num_running: int = 0
    waiters: deque["asyncio.Future[None]"] = field(default_factory=deque)
    held_s: float = _FIRST_ESTIMATE_S  # running mean


class Admission:
    """Used within one event loop.

    A file is a stream that nobody plays while it comes. Files wait in a line of their own, and one is begun
    only while a slot is free that no played stream wants; at most an eighth of the slots, or one, is given to
    files. Played streams are admitted as if there were no files: one that runs then goes on beside them, its
    chunks computed after theirs. What is in the background waits likewise, as long as it takes, behind files.
    """

    def __init__(self, max_streams: int, queue: QueueOptions, clock: Callable[[], float]) -> None:
        self.max_streams = max_streams
        self.known_from = "FIRSTWORD_MAX_STREAMS"  # how many run at once; a refusal says it
        self.on_made: Callable[[Made], None] = lambda made: None  # of a stream that was played
        self.clock = clock
        self._played = _Line("streams", 1, queue.max_queued, queue.queue_timeout_s)
        self._files = _Line("files", _SLOTS_PER_FILE, queue.max_queued_files, queue.file_queue_timeout_s)
        self._background = _Line("background streams", _SLOTS_PER_FILE, MAX_BACKGROUND, None)
        self._lines = (self._played, self._files, self._background)
        self.is_draining = False
        self._changed = asyncio.Event()  # how many run, or may
        self._num_begun = 0  # streams that did not have to wait; one that had to follows another

    @property
    def num_running(self) -> int:
        return sum(line.num_running for line in self._lines)

    @property
    def num_queued(self) -> int:
        return len(self._played.waiters)

    @property
    def num_files_queued(self) -> int:
        """Those in the background are files too."""
        return len(self._files.waiters) + len(self._background.waiters)

    @property
    def is_full(self) -> bool:
        """True if the next stream that is played would be refused at once."""
        line = self._played
        return line.num_running >= self.max_streams and len(line.waiters) >= line.max_waiting

    async def acquire(self, is_file: bool = False, is_background: bool = False) -> Slot:
        """Raise Overloaded where the line is full or its deadline passes, Draining after `drain`."""
        line = self._background if is_background else self._files if is_file else self._played
        self.refuse_if_draining()
        if not line.waiters and self._has_slot(line):
            line.num_running += 1
            self._num_begun += 1
            self._changed.set()
            return Slot(self, line)
        if len(line.waiters) >= line.max_waiting:
            why = f"{line.num_running} {line.what} run and {len(line.waiters)} wait"
            raise self._overloaded(line, why)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiters.append(waiter)
        try:
            async with asyncio.timeout(line.timeout_s):
                await waiter
        except TimeoutError:
            if not _is_granted(waiter):  # it may be, in the last moment
                why = f"no slot came free within {line.timeout_s:g} s"
                raise self._overloaded(line, why) from None
        except asyncio.CancelledError:
            if _is_granted(waiter):
                self.release(line)  # the slot came as its taker left
            raise
        finally:
            if waiter in line.waiters:
                line.waiters.remove(waiter)
        return Slot(self, line)

    def refuse_if_draining(self) -> None:
        """Raise Draining after `drain`."""
        if self.is_draining:
            raise self._draining(self._played)

    def resize(self, max_streams: int) -> None:
        """Let so many streams run at once; those that run go on."""
        self.max_streams = max_streams
        self._give_slots()

    def drain(self) -> None:
        """Admit no more streams; those that wait are refused now."""
        self.is_draining = True
        for line in self._lines:
            while line.waiters:
                waiter = line.waiters.popleft()
                if not waiter.done():
                    waiter.set_exception(self._draining(line))

    async def wait_until_idle(self) -> None:
        await self._wait_until(lambda: not self.num_running)

    async def wait_until_quiet(self, seconds: float) -> None:
        """Wait until no stream has run for that many seconds in a row."""
        is_quiet = False
        while not is_quiet:
            await self.wait_until_idle()
            num_begun = self._num_begun
            await asyncio.sleep(seconds)
            is_quiet = not self.num_running and num_begun == self._num_begun

    async def wait_for_stream(self) -> None:
        """Wait until a stream runs, or has come and gone."""
        num_begun = self._num_begun
        await self._wait_until(lambda: self.num_running > 0 or self._num_begun != num_begun)

    async def wait_for_free_slot(self) -> None:
        """Wait while streams that are not in the background take every slot."""
        await self._wait_until(lambda: self._played.num_running + self._files.num_running < self.max_streams)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    def _has_slot(self, line: _Line) -> bool:
        num_others = 0 if line is self._played else self._played.num_running
        if line is self._background:
            num_others += self._files.num_running
        max_running = max(1, self.max_streams // line.slots_per_stream)
        return line.num_running < min(max_running, self.max_streams - num_others)

    def release(self, line: _Line, held_s: float | None = None) -> None:
        """Take a slot back; for `Slot`. held_s None: nobody has held it."""
        if held_s is not None:
            line.held_s = _SMOOTHING * line.held_s + (1 - _SMOOTHING) * held_s
        line.num_running -= 1
        self._give_slots()

    def _give_slots(self) -> None:
        """Give what is free to those that still wait for it, played streams first."""
        for waiting in self._lines:
            while waiting.waiters and self._has_slot(waiting):
                waiter = waiting.waiters.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    waiting.num_running += 1
        self._changed.set()

    def _draining(self, line: _Line) -> Draining:
        return Draining(
            "the server is shutting down; retry against another instance", self._retry_after_s(line)
        )

    def _overloaded(self, line: _Line, why: str) -> Overloaded:
        limit = f"{self.max_streams} at once, by {self.known_from}"
        return Overloaded(f"the server is full: {why} ({limit}); try again later", self._retry_after_s(line))

    def _retry_after_s(self, line: _Line) -> int:
        """Estimate when those before will have gone, by how long slots were held lately."""
        num_slots = max(1, self.max_streams // line.slots_per_stream)
        return max(1, math.ceil(line.held_s * (len(line.waiters) + 1) / num_slots))


def _is_granted(waiter: "asyncio.Future[None]") -> bool:
    return waiter.done() and not waiter.cancelled() and waiter.exception() is None
