"""The gRPC server over fakes, on a real socket in the test's event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from firstword.app.http.rpc.messages import INFERENCE, SPEECH, method_of
from firstword.app.http.service import Service
from firstword.app.http.surface import Surface
from firstword.app.service import surfaces_running
from firstword.app.surfaces.grpc.options import GrpcOptions
from firstword.app.surfaces.grpc.server import GrpcServer
from firstword.app.surfaces.grpc.surface import GrpcSurface
from firstword.app.surfaces.inference.inference import Inference
from firstword.app.surfaces.inference.surface import InferenceSurface
from tests.support.serving import PATIENCE_S, make_surfaces


@dataclass(frozen=True, slots=True)
class Rpc:
    """A server with a channel to it."""

    server: GrpcServer
    surfaces: Sequence[Surface]
    channel: grpc.aio.Channel
    address: str

    @property
    def inference(self) -> Inference:
        """The models, which HTTP shares."""
        [surface] = [one for one in self.surfaces if isinstance(one, InferenceSurface)]
        return surface.inference

    def speech(self, name: str) -> Any:
        """The callable of a method of our own service."""
        return method_of(self.channel, SPEECH, name)

    def inference_method(self, name: str) -> Any:
        return method_of(self.channel, INFERENCE, name)


@asynccontextmanager
async def grpc_serving(services: Service, **options: Any) -> AsyncIterator[Rpc]:
    """options: of `GrpcOptions`. On leaving, nothing of the models is held any more."""
    surfaces = make_surfaces()
    surface = GrpcSurface(GrpcOptions(port=0, **options), "127.0.0.1", surfaces)
    async with surfaces_running([*surfaces, surface], services):
        assert surface.server is not None
        address = f"127.0.0.1:{surface.port}"
        async with grpc.aio.insecure_channel(address) as channel:
            yield Rpc(surface.server, surfaces, channel, address)


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
