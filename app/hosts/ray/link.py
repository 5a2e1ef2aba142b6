"""The way to engines over Ray Serve's handles."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Final

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from firstword.app.hosts.ray.messages import Description, EngineGone, Item

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

    async def stream(self, key: str, nth: int, method: str, *given: Any) -> AsyncGenerator[list[Item], None]:
        handle = self._handle.options(stream=True, session_id=_session(key, nth))
        items = getattr(handle, method).remote(*given)
        try:
            async with _told_as_gone():
                async for news in items:
                    yield news
        finally:
            items.cancel()

    async def call(self, key: str, method: str, *given: Any) -> Any:
        async def asked() -> Any:
            return await getattr(self._handle.options(session_id=_session(key, 0)), method).remote(*given)

        async with _told_as_gone():
            # In a context of its own: Ray takes the id of a call from there.
            return await asyncio.create_task(asked(), context=Context())

    async def describe(self) -> list[Description]:
        async with _told_as_gone():
            answers = self._handle.broadcast("describe")
            try:
                found = await answers.results_async(timeout_s=DESCRIBES_WITHIN_S, return_exceptions=True)
            except TimeoutError:
                raise EngineGone("an engine does not say how it is") from None
        return [one for one in found if isinstance(one, Description)]


def _session(key: str, nth: int) -> str:
    return f"{nth}|{key}"
