"""A surface: one way in and out of the service, such as REST, a WebSocket, gRPC or the console."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from starlette.responses import Response
from starlette.routing import BaseRoute

from firstword.app.http.errors import ErrorResponse
from firstword.app.http.routes import Guard
from firstword.app.http.service import Service


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """A method of a gRPC service: who may call it and how long a message may be, and what answers it.

    handler: takes the message, or the messages of a call that takes several, and the Call.
    """

    guard: Guard
    handler: Callable[[Any, Any], Awaitable[Any]]


RpcServices = Mapping[str, Mapping[str, RpcMethod]]
"""The methods of services, by the full name of the service and by their own."""


@dataclass(frozen=True, slots=True)
class SurfaceHealth:
    """What of a surface does not work.

    missing_files: whose file is gone from its disk, which makes the server unready. failing_workers: those
    that are started again.
    """

    missing_files: tuple[str, ...] = ()
    failing_workers: tuple[str, ...] = ()


HEALTHY: Final = SurfaceHealth()


class Surface(Protocol):
    """What the service asks of each surface in its list; a surface imports no other."""

    name: str
    prefix: str
    """The beginning of its paths: errors before a route is found take its form; "" where they take none."""

    @property
    def options(self) -> object:
        """Its settings; None: it has none."""
        ...

    def routes(self, service: Service) -> Sequence[BaseRoute]:
        """Return its HTTP and WebSocket routes, each of which declares its Guard."""
        ...

    def running(self, service: Service) -> AbstractAsyncContextManager[None]:
        """Run what it has of its own: a server, a queue, a store. Raise InvalidOptions where it cannot."""
        ...

    def address(self) -> str | None:
        """Return a sentence that says where its own server listens; None: it has none."""
        ...

    async def drain(self) -> None:
        """Take nothing new; what runs is ended by the engine, which drains after all surfaces have."""
        ...

    def health(self) -> SurfaceHealth:
        """Return what of it does not work. It may look at the disk."""
        ...

    def error(self, error: Exception) -> Response:
        """Return the answer to an error of a request on one of its paths."""
        ...


@runtime_checkable
class RpcSurface(Protocol):
    """A surface that is spoken over gRPC as well, by the server of the surface `grpc`."""

    def rpc_services(self, service: Service) -> RpcServices:
        """Return its methods; each declares its Guard."""
        ...


class HttpSurface:
    """A surface of routes alone; a base for one that has more."""

    options: object = None

    def __init__(self, name: str, routes: Sequence[BaseRoute], prefix: str = "") -> None:
        self.name = name
        self.prefix = prefix
        self._routes = routes

    def routes(self, service: Service) -> Sequence[BaseRoute]:
        return self._routes

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        yield

    def address(self) -> str | None:
        return None

    async def drain(self) -> None:
        """Routes alone take nothing that the engine would not refuse."""

    def health(self) -> SurfaceHealth:
        return HEALTHY

    def error(self, error: Exception) -> Response:
        return ErrorResponse(error)
