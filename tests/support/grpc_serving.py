"""The gRPC server over fakes, on a real socket in the test's event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from firstword.app.http.service import Service
from firstword.app.options import ServerOptions
from firstword.app.surfaces.grpc.messages import INFERENCE, SPEECH, method_of
from firstword.app.surfaces.grpc.server import GrpcServer, grpc_server
from firstword.app.surfaces.inference.inference import Inference
from tests.support.serving import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Rpc:
    """A server with a channel to it."""

    server: GrpcServer
    inference: Inference
    channel: grpc.aio.Channel
    address: str

    def speech(self, name: str) -> Any:
        """The callable of a method of our own service."""
        return method_of(self.channel, SPEECH, name)

    def inference_method(self, name: str) -> Any:
        return method_of(self.channel, INFERENCE, name)


@asynccontextmanager
async def grpc_serving(services: Service, **options: Any) -> AsyncIterator[Rpc]:
    """options: of `ServerOptions`. On leaving, nothing of the models is held any more."""
    inference = Inference(services)
    async with grpc_server(ServerOptions(grpc_port=0, **options), inference) as (server, port):
        address = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(address) as channel:
            yield Rpc(server, inference, channel, address)
    inference.close()


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what others do is not ours to announce
            await asyncio.sleep(0.001)
