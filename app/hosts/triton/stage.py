"""A stage of the engine that another process of the same tritonserver has: gRPC over a Unix socket.

It imports neither the service nor the networks, so that its process is small and starts soon.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import grpc

from firstword.app.core.interface import MEL_FAMILIES
from firstword.app.hosts.triton.interface import Given, engine_socket
from firstword.app.http.rpc.messages import INFERENCE, message, method_of
from firstword.app.surfaces.inference.models import Model, models_of
from firstword.app.surfaces.inference.tensors import Tensor, from_bytes, to_bytes

MAX_RECONNECT_MS: Final = 1000

logger = logging.getLogger(__name__)


class EngineElsewhere:
    def __init__(self, model: Model, channel: grpc.aio.Channel) -> None:
        self.model = model
        self._infer = method_of(channel, INFERENCE, "ModelInfer")

    async def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        """Raises grpc.aio.AioRpcError."""
        request = message("inference.ModelInferRequest")(model_name=self.model.name, id=given.id)
        for name, tensor in given.inputs.items():
            spec = self.model.input(name)
            assert spec is not None, "Triton takes no other"
            request.inputs.add(name=name, datatype=spec.datatype, shape=tensor.shape)
            request.raw_input_contents.append(to_bytes(spec.datatype, tensor))
        response = await self._infer(request)
        shape = tuple(response.outputs[0].shape)
        yield from_bytes(self.model.output, shape, response.raw_output_contents[0])

    def failure_of(self, error: Exception) -> tuple[grpc.StatusCode, str]:
        if not isinstance(error, grpc.aio.AioRpcError):
            logger.error("a request failed", exc_info=error)
            return grpc.StatusCode.INTERNAL, "the server failed on this request; see its log"
        is_answered = any(name == "error-code" for name, _ in error.trailing_metadata() or ())
        if error.code() is grpc.StatusCode.UNAVAILABLE and not is_answered:
            return error.code(), "the engine of this repository is not running; retry soon"
        return error.code(), error.details() or ""


@asynccontextmanager
async def opened_stage(family: str, name: str) -> AsyncIterator[EngineElsewhere]:
    """The stage of that name; the engine need not be there yet."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", MAX_RECONNECT_MS),
    ]
    async with grpc.aio.insecure_channel(f"unix:{engine_socket()}", options) as channel:
        yield EngineElsewhere(models_of(family, family in MEL_FAMILIES)[name], channel)
