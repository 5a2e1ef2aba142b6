"""The way to engines over Ray Serve's handles."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from firstword.app.hosts.ray.messages import Description, EngineGone, Item
from firstword.app.hosts.ray.order import Silence, session_of

DESCRIBES_WITHIN_S: Final = 2.0


@asynccontextmanager
async def _told_as_gone() -> AsyncIterator[None]:
    """Raise EngineGone where Ray says that an engine died, is unavailable or does not exist."""
    try:
        yield
    except (RayError, RayServeException) as error:
        raise EngineGone(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}") from None


class RayLink:
    """A `Link` over the handle of a deployment of `EngineReplica`."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._silence = Silence()
        self.num_silent = 0

    async def stream(self, key: str, nth: int, method: str, *given: Any) -> AsyncGenerator[list[Item], None]:
        handle = self._handle.options(stream=True, session_id=self._session(key, nth))
        items = getattr(handle, method).remote(*given)
        try:
            async with _told_as_gone():
                async for news in items:
                    yield news
        finally:
            items.cancel()

    async def describe(self) -> list[Description]:
        deadline_s = asyncio.get_running_loop().time() + DESCRIBES_WITHIN_S
        async with _told_as_gone():
            answers = self._handle.broadcast("describe")
            try:
                async with asyncio.timeout_at(deadline_s):
                    # `results_async` gives none of them where one engine hangs.
                    results = await answers._fetch_replica_results_async()
            except TimeoutError:
                raise EngineGone("Ray does not say which engines there are") from None

        async def described(one: Any) -> Any:
            async with asyncio.timeout_at(deadline_s):
                return await one.get_async()

        told = await asyncio.gather(*map(described, results), return_exceptions=True)
        found = [one for one in told if isinstance(one, Description)]
        self.num_silent = sum(isinstance(one, TimeoutError) for one in told)
        self._silence.note({one.replica for one in found}, time.monotonic())
        return found

    def _session(self, key: str, nth: int) -> str:
        return session_of(key, nth, self._silence.replicas)
