"""An engine that decodes in a process of its own: its contract, and the supervisor that restarts it."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from firstword.models.lm.tokens import EngineRestarting
from firstword.models.runtimes.engines.sampling_state import SamplingState


class EngineDied(Exception):
    """The engine's process is gone, and all that ran in it."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """Prefill `prompt_ids`, then decode up to `max_ids` ids, up to the first of the stop set.

    The ids of an utterance's earlier requests are a prefix of these, which the engine's cache still has.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingState
    max_ids: int


class DecodeEngine(Protocol):
    """Used within one event loop."""

    def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        """Yield the ids as they are drawn, one or several at a time. Closed early, it frees its memory.

        Raises EngineDied.
        """
        ...

    async def wait_until_dead(self) -> None:
        """Return when its process is gone, for whatever reason."""
        ...

    async def aclose(self) -> None: ...


FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
MAX_DOUBLINGS = 10  # enough for that; of a thousand no float holds the result
STABLE_AFTER_S = 300.0  # a death after that is taken for a new trouble: the delay starts anew
_log = logging.getLogger(__name__)


class EngineSupervisor:
    """Supervises the engine process: restarts it when it dies, with exponential back-off.

    Used within one event loop. `unready_reason` says in one line why there is no engine.
    """

    def __init__(
        self,
        open_engine: Callable[[], Awaitable[DecodeEngine]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        """on_restart: called when an engine runs in place of one that died."""
        self._open_engine, self._sleep, self._clock = open_engine, sleep, clock
        self._on_restart = on_restart
        self._engine: DecodeEngine | None = None
        self._task: asyncio.Task[None] | None = None
        self.unready_reason = "the language model's engine starts"

    async def start(self) -> None:
        """Raises what `open_engine` raises: a first start is not tried again."""
        self._engine = await self._open_engine()
        self.unready_reason = ""
        self._task = asyncio.create_task(self._watch(self._engine), name="engine supervisor")

    @property
    def engine(self) -> DecodeEngine:
        """Raises EngineRestarting while there is none."""
        if self._engine is None:
            raise EngineRestarting(self.unready_reason)
        return self._engine

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.aclose()

    async def _watch(self, engine: DecodeEngine) -> None:
        num_deaths = 0
        while True:
            began = self._clock()
            await engine.wait_until_dead()
            lived_s = self._clock() - began
            num_deaths = 1 if lived_s > STABLE_AFTER_S else num_deaths + 1
            self._engine = None
            self.unready_reason = "the language model's engine died; it is started again"
            _log.error("the language model's engine died after %.0f s; it is started again", lived_s)
            try:
                await engine.aclose()
            except Exception:  # it is dead: nothing of it may keep the next one from starting
                _log.exception("what was left of the language model's engine could not be closed")
            while self._engine is None:
                num_doublings = min(num_deaths - 1, MAX_DOUBLINGS)
                await self._sleep(min(MAX_DELAY_S, FIRST_DELAY_S * 2**num_doublings))
                try:
                    self._engine = engine = await self._open_engine()
                except Exception as error:  # whatever it was may pass; until then /readyz tells it
                    num_deaths += 1
                    why = " ".join(str(error).split())
                    self.unready_reason = f"the language model's engine died, and did not start again: {why}"
                    _log.exception("the language model's engine did not start (attempt %d)", num_deaths)
            self.unready_reason = ""
            self._on_restart()
            _log.warning("the language model's engine runs again")
