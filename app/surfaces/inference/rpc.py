"""The service `inference.GRPCInferenceService`: the Open Inference Protocol with Triton's streaming."""

import asyncio
import logging
from contextlib import ExitStack, aclosing
from typing import Any, Final

from google.protobuf.json_format import ParseDict

from firstword.app.errors import InvalidRequest, StreamTimeout, TtsError
from firstword.app.http.errors import INTERNAL, error_message, rejections_counted, row_of
from firstword.app.http.held_bytes import SMALL_BYTES
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.rpc.call import Call
from firstword.app.http.rpc.messages import INFERENCE, message
from firstword.app.http.surface import RpcMethod, RpcServices
from firstword.app.surfaces.inference import models
from firstword.app.surfaces.inference.inference import Caller, Inference, InferenceRequest, SessionKey
from firstword.app.surfaces.inference.models import VERSION
from firstword.app.surfaces.inference.tensors import CONTENTS, SentTensor, Tensor, to_bytes

logger = logging.getLogger(__name__)

MAX_REQUESTS: Final = 64  # of one stream at once; the next is read when one has ended
MAX_UNANSWERED_BYTES: Final = 4 << 20  # of them together, unless one is alone
EMPTY_FINAL: Final = "triton_enable_empty_final_response"
FINAL: Final = "triton_final_response"

ModelInferResponse = message("inference.ModelInferResponse")
ModelStreamInferResponse = message("inference.ModelStreamInferResponse")
InferOutputTensor = message("inference.ModelInferResponse.InferOutputTensor")


class InferenceService:
    """Its methods over the models of the protocol."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def methods(self) -> RpcServices:
        public, any_key = Guard("public"), Guard("any key")
        speak = Guard("speak", body=upload_body(lambda limits: limits.max_upload_bytes))  # recordings within
        return {
            INFERENCE: {
                "ServerLive": RpcMethod(public, self._server_live),
                "ServerReady": RpcMethod(public, self._server_ready),
                "ModelReady": RpcMethod(any_key, self._model_ready),
                "ServerMetadata": RpcMethod(any_key, self._server_metadata),
                "ModelMetadata": RpcMethod(any_key, self._model_metadata),
                "ModelInfer": RpcMethod(speak, self._infer),
                "ModelStreamInfer": RpcMethod(speak, self._stream_infer),
                "ModelConfig": RpcMethod(any_key, self._config),
                "ModelStatistics": RpcMethod(any_key, self._statistics),
                "RepositoryIndex": RpcMethod(any_key, self._index),
            }
        }

    async def _server_live(self, request: Any, call: Call) -> Any:
        return message("inference.ServerLiveResponse")(live=True)

    async def _server_ready(self, request: Any, call: Call) -> Any:
        return message("inference.ServerReadyResponse")(ready=self._inference.service.engine.status.is_ready)

    async def _model_ready(self, request: Any, call: Call) -> Any:
        self._inference.find(request.name, request.version)
        return message("inference.ModelReadyResponse")(ready=self._inference.service.engine.status.is_ready)

    async def _server_metadata(self, request: Any, call: Call) -> Any:
        return filled("inference.ServerMetadataResponse", models.server_metadata())

    async def _model_metadata(self, request: Any, call: Call) -> Any:
        model = self._inference.find(request.name, request.version)
        return filled("inference.ModelMetadataResponse", models.model_metadata(model))

    async def _config(self, request: Any, call: Call) -> Any:
        config = models.model_config(self._inference.find(request.name, request.version))
        return filled("inference.ModelConfigResponse", {"config": config})

    async def _statistics(self, request: Any, call: Call) -> Any:
        found = list(self._inference.models.values())
        if request.name:
            found = [self._inference.find(request.name, request.version)]
        statistics = {"model_stats": [_with_batches(models.model_statistics(model)) for model in found]}
        return filled("inference.ModelStatisticsResponse", statistics)

    async def _index(self, request: Any, call: Call) -> Any:
        index = {"models": models.repository_index(self._inference.models)}
        return filled("inference.RepositoryIndexResponse", index)

    async def _infer(self, request: Any, call: Call) -> Any:
        caller = Caller(call.client, call.received_s, call.host, call.metadata)
        with rejections_counted(self._inference.service.metrics):
            asked = await self._read(request)
        return _response(asked, await self._inference.whole(asked, caller))

    async def _stream_infer(self, requests: Any, call: Call) -> None:
        """Answer each request as its parts come; a call that ends frees what its requests hold."""
        stream = InferenceStream(self._inference, call)
        fault: TtsError | None = None  # of the call: nothing more is read, what was asked is answered
        try:
            async with asyncio.TaskGroup() as tasks:
                try:
                    async for request in requests:
                        await stream.take(request)
                        tasks.create_task(stream.answer(self._read, request))
                except TtsError as error:
                    fault = error
        except* StreamTimeout as group:  # of a client that does not read
            fault = StreamTimeout(str(group.exceptions[0]))
        finally:
            stream.free()
        if fault is not None:
            raise fault

    async def _read(self, request: Any) -> InferenceRequest:
        """Raises InvalidRequest and ModelNotFound."""
        if request.ByteSize() <= SMALL_BYTES:
            return self._read_now(request)
        return await asyncio.to_thread(self._read_now, request)

    def _read_now(self, request: Any) -> InferenceRequest:
        inference = self._inference
        model = inference.find(request.model_name, request.model_version)
        raw = list(request.raw_input_contents)
        if raw and len(raw) != len(request.inputs):
            raise InvalidRequest(f"{len(raw)} raw contents came for {len(request.inputs)} inputs", "inputs")
        inputs: dict[str, Tensor] = {}
        for index, given in enumerate(request.inputs):
            spec = model.named_input(given.name)
            values = None
            if not raw:
                if spec.datatype not in CONTENTS:
                    raise InvalidRequest(f"input `{spec.name}` is {spec.datatype}; send it as raw contents")
                values = getattr(given.contents, CONTENTS[spec.datatype])
            sent = SentTensor(given.datatype, given.shape, raw[index] if raw else None, values)
            inputs[spec.name] = sent.read(spec)
        parameters = {name: _value(parameter) for name, parameter in request.parameters.items()}
        outputs = [output.name for output in request.outputs]
        return inference.request(model, request.id, inputs, parameters, outputs)


class InferenceStream:
    """One call of ModelStreamInfer."""

    def __init__(self, inference: Inference, call: Call) -> None:
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._num_bytes = 0  # of the requests of which nothing is answered
        self._was_answered = asyncio.Event()
        self._reading = asyncio.Lock()
        self._inference = inference
        self._call = call
        self._sessions: set[SessionKey] = set()
        self._writing = asyncio.Lock()

    def free(self) -> None:
        for key in self._sessions:
            self._inference.free(key)

    async def take(self, request: Any) -> None:
        """Wait until a request may be answered beside those that are."""
        await self._slots.acquire()
        num_bytes = request.ByteSize()
        while self._num_bytes and self._num_bytes + num_bytes > MAX_UNANSWERED_BYTES:
            self._was_answered.clear()
            await self._was_answered.wait()
        self._num_bytes += num_bytes

    async def answer(self, read: Any, request: Any) -> None:
        """Write the responses of one request. What fails is written as an error and ends no other.

        Raises StreamTimeout, which ends the call, where the client reads nothing.

        A model that speaks has its final flag in an empty response of its own, behind an error too: the
        published client stops at the flag before it reads what is with it.
        """
        wants_empty = _value(request.parameters[EMPTY_FINAL]) if EMPTY_FINAL in request.parameters else False
        call = self._call
        num_bytes = request.ByteSize()
        held = ExitStack()  # this request, until its first output, while the next ones come
        held.callback(self._release, num_bytes)
        empty = _empty_response(request)
        try:
            now_s = self._inference.service.clock()
            caller = Caller(call.client, now_s, call.host, call.metadata, sessions=self._sessions)
            has_final = False
            try:
                with rejections_counted(self._inference.service.metrics):
                    held.enter_context(self._inference.service.bounds.held.held(call.caller, num_bytes))
                    async with self._reading:  # so that those of one session stay in order
                        asked = await read(request)
                    del request
                async with aclosing(self._inference.run(asked, caller)) as outputs:
                    async for output in outputs:
                        asked.inputs.clear()  # what a text that is long to speak came with
                        held.close()
                        has_final = not asked.model.is_decoupled
                        await self._write(infer_response=_response(asked, output, is_final=has_final))
            except asyncio.CancelledError:
                caller.leave(call.cancel_reason)
                raise
            except StreamTimeout:
                raise
            except Exception as error:
                if row_of(error) is INTERNAL:
                    logger.error("a request of a stream failed", exc_info=error)
                await self._write(error_message=error_message(error), infer_response=empty)
            if wants_empty and not has_final:
                empty.parameters[FINAL].bool_param = True
                await self._write(infer_response=empty)
        finally:
            held.close()
            self._slots.release()

    def _release(self, num_bytes: int) -> None:
        self._num_bytes -= num_bytes
        self._was_answered.set()

    async def _write(self, **fields: Any) -> None:
        async with self._writing:
            await self._call.write(ModelStreamInferResponse(**fields))


def filled(name: str, content: models.Json) -> Any:
    """Return a message with what the protocol says in JSON over HTTP."""
    return ParseDict(content, message(name)())


def _response(request: InferenceRequest, output: Tensor, is_final: bool | None = None) -> Any:
    """is_final None: a response by itself, not one of a stream."""
    spec = request.model.output
    response = ModelInferResponse(
        model_name=request.model.name,
        model_version=VERSION,
        id=request.id,
        outputs=[InferOutputTensor(name=spec.name, datatype=spec.datatype, shape=output.shape)],
        raw_output_contents=[to_bytes(spec.datatype, output)],
    )
    if is_final is not None:
        response.parameters[FINAL].bool_param = is_final
    return response


def _empty_response(request: Any) -> Any:
    return ModelInferResponse(model_name=request.model_name, model_version=VERSION, id=request.id)


def _value(parameter: Any) -> Any:
    kind = parameter.WhichOneof("parameter_choice")
    return None if kind is None else getattr(parameter, kind)


def _with_batches(statistics: models.Json) -> models.Json:
    """Add what Triton's clients read over gRPC; every request is a batch of one."""
    stats = statistics["inference_stats"]
    nothing = {"count": stats["compute_infer"]["count"], "ns": 0}
    computed = {
        "compute_input": nothing,
        "compute_infer": stats["compute_infer"],
        "compute_output": nothing,
    }
    batches = [{"batch_size": 1, **computed}] if statistics["inference_count"] else []
    return {**statistics, "inference_stats": {**stats, **computed}, "batch_stats": batches}
