"""`/v2`: the Open Inference Protocol over HTTP, with Triton's binary tensors and `generate`."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.metadata import version as version_of
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from firstword.app.errors import InvalidRequest, ModelNotFound, StreamTimeout
from firstword.app.http.errors import error_message, rejections_counted
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.service import ServiceHere
from firstword.app.surfaces.inference.inference import MAX_ELEMENTS, Caller, Inference, InferenceRequest
from firstword.app.surfaces.inference.models import EXTENSIONS, PLATFORM, VERSION, Duration, Model
from firstword.app.surfaces.inference.tensors import (
    Tensor,
    TensorSpec,
    checked_shape,
    from_bytes,
    from_values,
    to_bytes,
)

HEADER_LENGTH: Final = "Inference-Header-Content-Length"

PREFIX: Final = "/v2"

router = APIRouter(prefix=PREFIX, include_in_schema=False)  # described by the protocol itself
Probe = Guard("public", checks_origin=False)
Shown = Guard("any key")
ShownByPost = Guard("any key", body=upload_body(lambda limits: limits.max_upload_bytes, 0))
# Recordings come within the requests, as numbers in JSON.
Run = Guard("speak", body=upload_body(lambda limits: limits.max_upload_bytes, 0))
logger = logging.getLogger(__name__)


def inference_of(request: Request) -> Inference:
    inference: Inference = request.state.matched.surface.inference
    return inference


@router.get("")
@Shown
async def server_metadata() -> dict[str, object]:
    return {"name": PLATFORM, "version": version_of("firstword"), "extensions": EXTENSIONS}


@router.get("/health/live")
@Probe
async def live() -> Response:
    return Response()


@router.get("/health/ready")
@Probe
async def ready(service: ServiceHere) -> Response:
    return Response(status_code=200 if service.engine.status.is_ready else 503)


@router.post("/repository/index")
@ShownByPost
async def repository_index(request: Request) -> list[dict[str, str]]:
    models = inference_of(request).models
    return [{"name": name, "version": VERSION, "state": "READY", "reason": ""} for name in models]


@router.get("/models/stats")
@Shown
async def statistics(request: Request) -> dict[str, object]:
    return {"model_stats": [_statistics_of(model) for model in inference_of(request).models.values()]}


@router.get("/models/{name}")
@router.get("/models/{name}/versions/{version}")
@Shown
async def model_metadata(request: Request, name: str, version: str = "") -> dict[str, object]:
    model = inference_of(request).find(name, version)

    def described(spec: TensorSpec) -> dict[str, object]:
        return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}

    return {
        "name": model.name,
        "versions": [VERSION],
        "platform": PLATFORM,
        "inputs": [described(spec) for spec in model.inputs],
        "outputs": [described(model.output)],
    }


@router.get("/models/{name}/ready")
@router.get("/models/{name}/versions/{version}/ready")
@Shown
async def model_ready(request: Request, service: ServiceHere, name: str, version: str = "") -> Response:
    try:
        inference_of(request).find(name, version)
    except ModelNotFound:
        return Response(status_code=400)  # as Triton answers
    return await ready(service)


@router.get("/models/{name}/config")
@router.get("/models/{name}/versions/{version}/config")
@Shown
async def model_config(request: Request, name: str, version: str = "") -> dict[str, object]:
    model = inference_of(request).find(name, version)

    def described(spec: TensorSpec) -> dict[str, object]:
        kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
        return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": spec.dims}

    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 1,
        "input": [{**described(spec), "optional": spec.is_optional} for spec in model.inputs],
        "output": [described(model.output)],
        "model_transaction_policy": {"decoupled": model.is_decoupled},
    }


@router.get("/models/{name}/stats")
@router.get("/models/{name}/versions/{version}/stats")
@Shown
async def model_statistics(request: Request, name: str, version: str = "") -> dict[str, object]:
    return {"model_stats": [_statistics_of(inference_of(request).find(name, version))]}


@router.post("/models/{name}/infer")
@router.post("/models/{name}/versions/{version}/infer")
@Run
async def infer(request: Request, name: str, version: str = "") -> Response:
    """One response with the whole output."""
    inference = inference_of(request)
    body = await request.body()
    with rejections_counted(inference.service.metrics):
        model = inference.find(name, version)
        asked, as_binary = await asyncio.to_thread(_read_infer, inference, model, body, request.headers)
    return InferenceResponse(inference, asked, request, partial(_infer_body, as_binary=as_binary))


@router.post("/models/{name}/generate")
@router.post("/models/{name}/versions/{version}/generate")
@Run
async def generate(request: Request, name: str, version: str = "") -> Response:
    """The same with a plain JSON object: inputs and parameters by their names."""
    inference = inference_of(request)
    asked = await _read_generate(inference, name, version, request)
    return InferenceResponse(inference, asked, request, _generated_body)


@router.post("/models/{name}/generate_stream")
@router.post("/models/{name}/versions/{version}/generate_stream")
@Run
async def generate_stream(request: Request, name: str, version: str = "") -> Response:
    """The same as server-sent events, one for each part of the output."""
    inference = inference_of(request)
    asked = await _read_generate(inference, name, version, request)
    return EventStreamResponse(inference, asked, request)


Body = Callable[[InferenceRequest, Tensor], tuple[bytes, Mapping[str, str]]]


class InferenceResponse(Response):
    """Runs its request and sends one body. A client that leaves ends it at once."""

    def __init__(
        self, inference: Inference, asked: InferenceRequest, http: Request, body: Body | None = None
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store"})
        self.inference = inference
        self.asked = asked
        self.caller = Caller(http.state.client, http.state.received_s)
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        running = asyncio.ensure_future(self.run(send))
        leaving = asyncio.ensure_future(disconnect())
        try:
            await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.caller.leave("shutdown")
            raise
        finally:
            running.cancel()
            leaving.cancel()
            await asyncio.gather(running, leaving, return_exceptions=True)
        if not running.cancelled():
            running.result()

    async def run(self, send: Send) -> None:
        output = await self.inference.whole(self.asked, self.caller)
        assert self._body is not None
        content, headers = await asyncio.to_thread(self._body, self.asked, output)
        response = Response(content, headers={**dict(self.headers), **headers})
        await self.timed(
            send, {"type": "http.response.start", "status": 200, "headers": response.raw_headers}
        )
        await self.timed(send, {"type": "http.response.body", "body": content})

    async def timed(self, send: Send, message: Mapping[str, Any]) -> None:
        """Raises StreamTimeout where the client does not read."""
        timeout_s = self.inference.service.limits.slow_listener_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await send(dict(message))
                await asyncio.sleep(0)  # let a disconnect be noticed
        except TimeoutError:
            if self.caller.session is not None:
                self.caller.session.cancel("slow_listener")
            raise StreamTimeout(f"the client read nothing for {timeout_s:g} s") from None


class EventStreamResponse(InferenceResponse):
    """The status line comes with the first part; what fails later is the last event."""

    async def run(self, send: Send) -> None:
        self.headers["Content-Type"] = "text/event-stream"
        self.headers["X-Accel-Buffering"] = "no"
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        has_started = False
        try:
            async with aclosing(self.inference.run(self.asked, self.caller)) as outputs:
                async for output in outputs:
                    if not has_started:
                        has_started = True
                        await self.timed(send, start)
                    event = b"data: " + _generated_body(self.asked, output)[0] + b"\n\n"
                    await self.timed(send, {"type": "http.response.body", "body": event, "more_body": True})
        except Exception as error:
            if not has_started or isinstance(error, StreamTimeout):
                raise
            event = f"data: {json.dumps({'error': error_message(error)})}\n\n".encode()
            await self.timed(send, {"type": "http.response.body", "body": event, "more_body": True})
        await self.timed(send, {"type": "http.response.body", "body": b""})


def _json_object(raw: bytes) -> dict[str, Any]:
    """Raises InvalidRequest."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidRequest("the body must be a JSON object")
    return content


def _read_infer(
    inference: Inference, model: Model, body: bytes, headers: Mapping[str, str]
) -> tuple[InferenceRequest, bool]:
    """-> the request, and whether its output is wanted as bytes. Raises InvalidRequest."""
    length = headers.get(HEADER_LENGTH)
    try:
        num_header_bytes = len(body) if length is None else int(length)
    except ValueError:
        raise InvalidRequest(f"{HEADER_LENGTH} is {length!a}; expected a number") from None
    content = _json_object(body[:num_header_bytes])
    binary = memoryview(body)[num_header_bytes:]
    inputs: dict[str, Tensor] = {}
    for given in _objects(content, "inputs"):
        spec = _spec(model, given.get("name"))
        shape = given.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise InvalidRequest(f"input `{spec.name}`: `shape` must be a list of numbers", spec.name)
        shape = checked_shape(spec, str(given.get("datatype")), shape, MAX_ELEMENTS)
        num_bytes = _parameters(given).get("binary_data_size")
        if num_bytes is None:
            inputs[spec.name] = from_values(spec, shape, given.get("data"))
            continue
        if type(num_bytes) is not int or not 0 <= num_bytes <= len(binary):
            raise InvalidRequest(f"input `{spec.name}`: {len(binary)} bytes are left, not {num_bytes}")
        inputs[spec.name] = from_bytes(spec, shape, bytes(binary[:num_bytes]))
        binary = binary[num_bytes:]
    parameters = _parameters(content)
    as_binary = parameters.get("binary_data_output") is True
    outputs = []
    for wanted in _objects(content, "outputs"):
        outputs.append(str(wanted.get("name")))
        as_binary = _parameters(wanted).get("binary_data", as_binary) is True
    return inference.request(model, str(content.get("id", "")), inputs, parameters, outputs), as_binary


async def _read_generate(inference: Inference, name: str, version: str, request: Request) -> InferenceRequest:
    """Raises InvalidRequest and ModelNotFound."""
    body = await request.body()

    def read() -> InferenceRequest:
        content = _json_object(body)
        parameters = dict(_parameters(content))
        inputs: dict[str, Tensor] = {}
        for key, value in content.items():
            spec = model.input(key)
            if spec is None:
                parameters[key] = value
                continue
            shape = _shape_of(spec, value)
            checked_shape(spec, spec.datatype, shape, MAX_ELEMENTS)
            inputs[key] = from_values(spec, shape, value)
        return inference.request(model, str(content.get("id", "")), inputs, parameters, ())

    with rejections_counted(inference.service.metrics):
        model = inference.find(name, version)
        return await asyncio.to_thread(read)


def _shape_of(spec: TensorSpec, value: Any) -> tuple[int, ...]:
    """The shape of a plain value; a list of lists is a matrix."""
    if not isinstance(value, list):
        return (1, 1)
    if len(spec.dims) == 2 and value and isinstance(value[0], list):
        return (1, len(value), len(value[0]))
    return (1, len(value))


def _spec(model: Model, name: object) -> TensorSpec:
    spec = model.input(name) if isinstance(name, str) else None
    if spec is None:
        known = ", ".join(spec.name for spec in model.inputs)
        raise InvalidRequest(
            f"model `{model.name}` has no input {str(name)[:64]!a}; it has {known}", "inputs"
        )
    return spec


def _objects(content: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    values = content.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InvalidRequest(f"`{name}` must be a list of objects", name)
    return values


def _parameters(content: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = content.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InvalidRequest("`parameters` must be an object", "parameters")
    return parameters


def _infer_body(asked: InferenceRequest, output: Tensor, as_binary: bool) -> tuple[bytes, Mapping[str, str]]:
    spec = asked.model.output
    described: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": output.shape}
    data = b""
    if as_binary:
        data = to_bytes(spec.datatype, output)
        described["parameters"] = {"binary_data_size": len(data)}
    else:
        described["data"] = output.reshape(-1).tolist()
    content = {"model_name": asked.model.name, "model_version": VERSION, "outputs": [described]}
    if asked.id:
        content["id"] = asked.id
    header = json.dumps(content).encode()
    if as_binary:
        headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
        return header + data, headers
    return header, {"Content-Type": "application/json"}


def _generated_body(asked: InferenceRequest, output: Tensor) -> tuple[bytes, Mapping[str, str]]:
    content = {
        "model_name": asked.model.name,
        "model_version": VERSION,
        asked.model.output.name: output.reshape(-1).tolist(),
    }
    if asked.id:
        content["id"] = asked.id
    return json.dumps(content).encode(), {"Content-Type": "application/json"}


def _statistics_of(model: Model) -> dict[str, object]:
    def spent(duration: Duration) -> dict[str, int]:
        return {"count": duration.count, "ns": duration.ns}

    statistics = model.statistics
    return {
        "name": model.name,
        "version": VERSION,
        "last_inference": statistics.last_inference_ms,
        "inference_count": statistics.success.count,
        "execution_count": statistics.success.count,
        "inference_stats": {
            "success": spent(statistics.success),
            "fail": spent(statistics.fail),
            "queue": spent(statistics.queue),
            "compute_infer": spent(statistics.compute),
        },
        "batch_stats": [],
    }
