"""Keeps an engine in another process alive: when it dies it is started again, later each time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from app.engine.interface import Restarting
from app.engine.tokens.legs import LegEngine

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
STABLE_AFTER_S = 300.0  # an engine that lived so long dies for another reason than the last one
_log = logging.getLogger(__name__)


class EngineKeeper:
    """Used within one event loop. `unready_reason` says in one line why there is no engine."""

    def __init__(
        self,
        open_engine: Callable[[], Awaitable[LegEngine]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_engine, self._sleep, self._clock = open_engine, sleep, clock
        self._engine: LegEngine | None = None
        self._task: asyncio.Task[None] | None = None
        self.unready_reason = "the language model's engine starts"

    async def start(self) -> None:
        """Raises what `open_engine` raises: a first start is not tried again."""
        self._engine = await self._open_engine()
        self.unready_reason = ""
        self._task = asyncio.create_task(self._keep(self._engine), name="engine keeper")

    @property
    def engine(self) -> LegEngine:
        """Raises Restarting while there is none."""
        if self._engine is None:
            raise Restarting(self.unready_reason)
        return self._engine

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.aclose()

    async def _keep(self, engine: LegEngine) -> None:
        num_deaths = 0
        while True:
            began = self._clock()
            await engine.wait_until_dead()
            lived_s = self._clock() - began
            num_deaths = 1 if lived_s > STABLE_AFTER_S else num_deaths + 1
            self._engine = None
            self.unready_reason = "the language model's engine died; it is started again"
            _log.error("the language model's engine died after %.0f s; it is started again", lived_s)
            await _bury(engine)
            engine, num_deaths = await self._restarted(num_deaths)
            self._engine, self.unready_reason = engine, ""
            _log.warning("the language model's engine runs again")

    async def _restarted(self, num_deaths: int) -> tuple[LegEngine, int]:
        while True:
            await self._sleep(min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (num_deaths - 1)))
            try:
                return await self._open_engine(), num_deaths
            except Exception as error:  # whatever it was may pass; until then /readyz tells it
                num_deaths += 1
                why = " ".join(str(error).split())
                self.unready_reason = f"the language model's engine died, and did not start again: {why}"
                _log.exception("the language model's engine did not start (attempt %d)", num_deaths)


async def _bury(engine: LegEngine) -> None:
    try:
        await engine.aclose()
    except Exception:  # it is dead: nothing of it may keep the next one from starting
        _log.exception("what was left of the language model's engine could not be closed")
