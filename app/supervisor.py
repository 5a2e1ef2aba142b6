"""Keeps background workers at work: one that fails is logged, counted and started again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 60.0

logger = logging.getLogger(__name__)


class Supervisor:
    """Runs workers within one event loop. A worker ends by returning, or by `stop`.

    on_failure: called with the worker's name each time that it fails.
    """

    def __init__(self, on_failure: Callable[[str], None] = lambda name: None) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing: set[str] = set()

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of workers that failed and have not run since as long as they paused."""
        return tuple(sorted(self._failing))

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """name: for the log, `failing` and metrics; of each worker its own."""
        task = asyncio.create_task(self._keep(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel the workers and wait for their ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            recovery = loop.call_later(pause_s, self._recover, name)
            try:
                await work()
            except Exception:
                if name not in self._failing:
                    logger.exception("the worker %s failed and is started again", name)
                self._failing.add(name)
                self._on_failure(name)
            else:
                self._recover(name)
                return
            finally:
                recovery.cancel()
            pause_s = FIRST_PAUSE_S if loop.time() - began_at > MAX_PAUSE_S else min(2 * pause_s, MAX_PAUSE_S)
            await asyncio.sleep(pause_s)

    def _recover(self, name: str) -> None:
        if name in self._failing:
            self._failing.discard(name)
            logger.info("the worker %s works again", name)
