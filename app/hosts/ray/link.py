"""The way to engines over Ray Serve's handles."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from firstword.app.hosts.ray.deadline import deadline
from firstword.app.hosts.ray.messages import Description, EngineGone, Item
from firstword.app.hosts.ray.order import Silence, session_of

DESCRIBES_WITHIN_S: Final = 2.0


@asynccontextmanager
async def _told_as_gone() -> AsyncIterator[None]:
    """Raise EngineGone where Ray says that an engine died, is unavailable or does not exist."""
    try:
        yield
    except (RayError, RayServeException) as error:
        cause = error.cause if isinstance(error, RayTaskError) else error
        first_line, _, _ = str(cause).partition("\n")
        said = f"{type(cause).__name__}: {first_line[:200]}"
        if isinstance(error, RayTaskError) and isinstance(cause, RayServeException):
            said += "; engines and the servers before them have to be of one release (docs/upgrading.md)"
        raise EngineGone(said) from None


class RayLink:
    """A `Link` over the handle of a deployment of `EngineReplica`."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._silence = Silence()

    @property
    def silent(self) -> tuple[str, ...]:
        return self._silence.replicas

    @property
    def late(self) -> tuple[str, ...]:
        return self._silence.late

    async def stream(self, key: str, nth: int, method: str, *given: Any) -> AsyncGenerator[list[Item], None]:
        session = session_of(key, nth, self.silent)
        handle = self._handle.options(stream=True, session_id=session, _by_reference=True)
        items = getattr(handle, method).remote(*given)
        try:
            async with _told_as_gone():
                async for news in items:
                    yield news
        finally:
            items.cancel()

    async def describe(self) -> list[Description]:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + DESCRIBES_WITHIN_S
        async with _told_as_gone():
            # By value (RAY_SERVE_USE_GRPC_BY_DEFAULT) Ray does not tell whose an answer is.
            answers = self._handle.options(_by_reference=True).broadcast("describe")
            try:
                async with deadline(DESCRIBES_WITHIN_S):
                    # `results_async` gives none of them where one engine hangs.
                    results = await answers._fetch_replica_results_async()
            except TimeoutError:
                raise EngineGone("Ray does not say which engines there are") from None

        async def described(one: Any) -> Any:
            async with deadline(until_s - loop.time()):
                return await one.get_async()

        told = await asyncio.gather(*map(described, results), return_exceptions=True)
        actors = [one.to_object_ref().task_id().actor_id().hex() for one in results]
        names = [one if isinstance(one, BaseException) else one.replica for one in told]
        self._silence.note(dict(zip(actors, names, strict=True)))
        return [one for one in told if isinstance(one, Description)]
