"""The engine in the process of the model that speaks, and the socket where the stages find it."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import grpc

from firstword.app.clients import ANYBODY
from firstword.app.hosts.triton.interface import Given, engine_socket
from firstword.app.http.errors import INTERNAL, error_message, rejections_counted, row_of
from firstword.app.http.metrics_port import metrics_server
from firstword.app.http.rpc.call import STATUS
from firstword.app.options import InvalidOptions
from firstword.app.service import running, shared_store
from firstword.app.settings import load_settings
from firstword.app.surfaces.grpc.server import GrpcServer
from firstword.app.surfaces.inference.inference import Caller, Inference
from firstword.app.surfaces.inference.surface import InferenceSurface
from firstword.app.surfaces.inference.tensors import Tensor, checked_shape
from firstword.app.telemetry.logs import configure_logging

MAX_STAGE_BYTES: Final = 1 << 30  # of requests to stages at once

logger = logging.getLogger(__name__)


class OwnEngine:
    """The model that speaks, in the process of the engine."""

    def __init__(self, inference: Inference) -> None:
        self.model = next(model for model in inference.models.values() if model.is_decoupled)
        self._inference = inference

    async def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        inference, model = self._inference, self.model
        service = inference.service
        caller = Caller(ANYBODY, service.clock())
        with rejections_counted(service.metrics):
            for name, tensor in given.inputs.items():
                spec = model.input(name)
                assert spec is not None, "Triton takes no other"
                checked_shape(spec, spec.datatype, tensor.shape)
            asked = inference.request(model, given.id, given.inputs, given.parameters, ())
        async with aclosing(inference.run(asked, caller)) as outputs:
            async for output in outputs:
                yield output

    def failure_of(self, error: Exception) -> tuple[grpc.StatusCode, str]:
        row = row_of(error)
        if row is INTERNAL:
            logger.error("a request failed", exc_info=error)
        return STATUS[row.status], error_message(error)


@asynccontextmanager
async def opened_engine(family: str, checkpoint: Path | None, has_stages: bool) -> AsyncIterator[OwnEngine]:
    """Load the networks with the settings of the environment.

    has_stages: the processes of the stages are answered. Keys of clients are not asked for: Triton shows
    none. Raises InvalidOptions, and what `running` raises.
    """
    settings = load_settings(checkpoint=checkpoint)
    server = replace(settings.server, api_keys=(), api_keys_file=None)
    settings = settings.model_copy(update={"server": server})
    configure_logging(settings.log.log_level, settings.log.log_format)
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(shared_store(settings))
        service = await stack.enter_async_context(running(settings, postgres=postgres))
        if service.stages.family != family:
            raise InvalidOptions(
                f"{checkpoint or 'the built-in voice'} is a {service.stages.family}, and the repository was "
                f"made for a {family}; run firstword triton init again"
            )
        surface = InferenceSurface()
        await stack.enter_async_context(surface.running(service))
        if has_stages:
            await stack.enter_async_context(metrics_server(server.metrics_port, server.host, service))
            socket = engine_socket()
            socket.unlink(missing_ok=True)
            # Processes of this machine alone come in there, with all that clients have sent to them.
            local = replace(service, limits=replace(service.limits, max_bodies_bytes=MAX_STAGE_BYTES))
            stages = GrpcServer(local, surface.rpc_services(service))
            await stages.start(f"unix:{socket}", None)
            stack.callback(socket.unlink, missing_ok=True)
            stack.push_async_callback(stages.stop)
        yield OwnEngine(surface.inference)
