"""gRPC as one surface: a server of its own, with the methods of all surfaces that are spoken over it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from firstword.app.http.rpc.messages import SPEECH
from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface, RpcSurface, Surface
from firstword.app.surfaces.grpc.options import GrpcOptions
from firstword.app.surfaces.grpc.server import GrpcServer, tls_credentials
from firstword.app.surfaces.grpc.speech import SpeechService


class GrpcSurface(HttpSurface):
    def __init__(self, options: GrpcOptions, host: str, others: Sequence[Surface] = ()) -> None:
        """host: that of HTTP. others: surfaces, of which some bring methods."""
        super().__init__("grpc", [])
        self.options: GrpcOptions = options
        self.server: GrpcServer | None = None  # None: it does not run
        self.port: int | None = None
        self._host = f"[{host}]" if ":" in host else host
        self._others = others

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        services = {SPEECH: SpeechService(service).methods()}
        for surface in self._others:
            if isinstance(surface, RpcSurface):
                services |= surface.rpc_services(service)
        self.server = GrpcServer(service, services)
        address = f"{self._host}:{self.options.port or 0}"
        self.port = await self.server.start(address, tls_credentials(self.options))
        try:
            yield
        finally:
            await self.server.stop()

    def address(self) -> str | None:
        return None if self.port is None else f"gRPC is on {self._host}:{self.port}."

    async def drain(self) -> None:
        if self.server is not None:
            await self.server.refuse()
