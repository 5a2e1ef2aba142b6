"""Where the models of a repository get their answers: the engine in this process, or that of another."""

import logging
import os
import stat
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import grpc

from firstword.app.api.app import metrics_server
from firstword.app.api.errors import INTERNAL, error_message, rejections_counted, row_of
from firstword.app.api.grpc.call import STATUS
from firstword.app.api.grpc.messages import INFERENCE, message, method_of
from firstword.app.api.kserve.inference import MAX_ELEMENTS, Caller, Inference
from firstword.app.api.kserve.models import Model, models_of
from firstword.app.api.kserve.tensors import Tensor, checked_shape, from_bytes, to_bytes
from firstword.app.clients import ANYBODY
from firstword.app.engine.interface import MEL_FAMILIES
from firstword.app.options import InvalidOptions

MAX_RECONNECT_MS: Final = 1000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What Triton gives of a request; each input has its batch in front."""

    id: str
    inputs: Mapping[str, Tensor]
    parameters: Mapping[str, Any]


class Answering(Protocol):
    """A model that is loaded."""

    @property
    def model(self) -> Model: ...

    def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        """Yield the model's output, part by part. Raises TtsError and grpc.aio.AioRpcError."""
        ...


class OwnEngine:
    """The model that speaks, in the process of the engine."""

    def __init__(self, inference: Inference) -> None:
        self.model = next(model for model in inference.models.values() if model.is_decoupled)
        self._inference = inference

    async def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        inference, model = self._inference, self.model
        services = inference.services
        caller = Caller(ANYBODY, services.clock())
        with rejections_counted(services.metrics):
            for name, tensor in given.inputs.items():
                spec = model.input(name)
                assert spec is not None, "Triton takes no other"
                checked_shape(spec, spec.datatype, tensor.shape, MAX_ELEMENTS)
            asked = inference.request(model, given.id, given.inputs, given.parameters, ())
        async with aclosing(inference.run(asked, caller)) as outputs:
            async for output in outputs:
                yield output


class EngineElsewhere:
    """A stage of the engine that another process of the same tritonserver has."""

    def __init__(self, model: Model, channel: grpc.aio.Channel) -> None:
        self.model = model
        self._infer = method_of(channel, INFERENCE, "ModelInfer")

    async def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        request = message("inference.ModelInferRequest")(model_name=self.model.name, id=given.id)
        for name, tensor in given.inputs.items():
            spec = self.model.input(name)
            assert spec is not None, "Triton takes no other"
            request.inputs.add(name=name, datatype=spec.datatype, shape=tensor.shape)
            request.raw_input_contents.append(to_bytes(spec.datatype, tensor))
        response = await self._infer(request)
        shape = tuple(response.outputs[0].shape)
        yield from_bytes(self.model.output, shape, response.raw_output_contents[0])


@asynccontextmanager
async def opened_engine(family: str, checkpoint: Path | None, has_stages: bool) -> AsyncIterator[OwnEngine]:
    """Load the networks with the settings of the environment.

    has_stages: the processes of the stages are answered. Keys of clients are not asked for: Triton shows
    none. Raises InvalidOptions, and what `running` raises.
    """
    from firstword.app.api.grpc.server import GrpcServer  # with torch behind them, which stages do without
    from firstword.app.main import running
    from firstword.app.settings import load_settings
    from firstword.app.telemetry.logs import configure_logging

    settings = load_settings(checkpoint=checkpoint)
    server = replace(settings.server, api_keys=(), api_keys_file=None)
    settings = settings.model_copy(update={"server": server})
    configure_logging(settings.log.log_level, settings.log.log_format)
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(running(settings))
        if services.stages.family != family:
            raise InvalidOptions(
                f"{checkpoint or 'the built-in voice'} is a {services.stages.family}, and the repository was "
                f"made for a {family}; run firstword triton init again"
            )
        inference = Inference(services)
        stack.callback(inference.close)
        if has_stages:
            await stack.enter_async_context(
                metrics_server(server.metrics_port, server.host, services.metrics)
            )
            socket = engine_socket()
            socket.unlink(missing_ok=True)
            stages = GrpcServer(inference)
            await stages.start(f"unix:{socket}", None)
            stack.callback(socket.unlink, missing_ok=True)
            stack.push_async_callback(stages.stop)
        yield OwnEngine(inference)


@asynccontextmanager
async def opened_stage(family: str, name: str) -> AsyncIterator[EngineElsewhere]:
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", MAX_RECONNECT_MS),
    ]
    async with grpc.aio.insecure_channel(f"unix:{engine_socket()}", options) as channel:
        yield EngineElsewhere(models_of(family, family in MEL_FAMILIES)[name], channel)


def engine_socket() -> Path:
    """Where the processes of one tritonserver meet, in a directory that only this user may enter.

    Raises InvalidOptions where somebody else has that directory.
    """
    directory = Path(tempfile.gettempdir()) / f"firstword-triton-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InvalidOptions(f"{directory} is not a directory of this user alone; remove it, or set TMPDIR")
    return directory / f"{os.getppid()}.sock"


def failure_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """What a client is told; our own faults are logged."""
    if isinstance(error, grpc.aio.AioRpcError):
        if error.code() is grpc.StatusCode.UNAVAILABLE and not _has_code(error):
            return error.code(), "the engine of this repository is not running"
        return error.code(), error.details() or ""
    row = row_of(error)
    if row is INTERNAL:
        logger.error("a request failed", exc_info=error)
    return STATUS[row.status], error_message(error)


def _has_code(error: grpc.aio.AioRpcError) -> bool:
    """Whether the engine answered it, and not the connection."""
    return any(name == "error-code" for name, _ in error.trailing_metadata() or ())
