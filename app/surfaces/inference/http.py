"""`/v2`: the Open Inference Protocol over HTTP, with Triton's binary tensors and `generate`."""

import asyncio
import json
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic_core import from_json
from starlette.responses import Response

from firstword.app.bounded_json import TooManyValues, check_values
from firstword.app.errors import InvalidRequest, ModelNotFound
from firstword.app.http.errors import error_message, rejections_counted
from firstword.app.http.limits import upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.service import ServiceHere
from firstword.app.http.spoken import reported
from firstword.app.http.streaming import BodyResponse
from firstword.app.surfaces.inference import models
from firstword.app.surfaces.inference.inference import Caller, Inference, InferenceRequest
from firstword.app.surfaces.inference.models import VERSION, Model
from firstword.app.surfaces.inference.tensors import (
    PART_ELEMENTS,
    SentTensor,
    Tensor,
    TensorSpec,
    to_bytes,
    to_json,
)

HEADER_LENGTH: Final = "Inference-Header-Content-Length"

PREFIX: Final = "/v2"
MAX_NUMBERS: Final = 600_000  # of a request in JSON, more than a recording has; parsing lets nobody else run
MAX_LISTS: Final = 50_000  # and objects among them, which take longer than numbers

router = APIRouter(prefix=PREFIX, include_in_schema=False)  # described by the protocol itself
Probe = Guard("public", checks_origin=False)
Shown = Guard("any key")
ShownByPost = Guard("any key", body=upload_body(lambda limits: limits.max_upload_bytes, 0))
# Recordings come within the requests, as numbers in JSON.
Run = Guard("speak", body=upload_body(lambda limits: limits.max_upload_bytes, 0))


def inference_of(request: Request) -> Inference:
    inference: Inference = request.state.matched.surface.inference
    return inference


@router.get("")
@Shown
async def server_metadata() -> dict[str, object]:
    return models.server_metadata()


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
    return models.repository_index(inference_of(request).models)


@router.get("/models/stats")
@Shown
async def statistics(request: Request) -> dict[str, object]:
    return {
        "model_stats": [models.model_statistics(model) for model in inference_of(request).models.values()]
    }


@router.get("/models/{name}")
@router.get("/models/{name}/versions/{version}")
@Shown
async def model_metadata(request: Request, name: str, version: str = "") -> dict[str, object]:
    return models.model_metadata(inference_of(request).find(name, version))


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
    return models.model_config(inference_of(request).find(name, version))


@router.get("/models/{name}/stats")
@router.get("/models/{name}/versions/{version}/stats")
@Shown
async def model_statistics(request: Request, name: str, version: str = "") -> dict[str, object]:
    return {"model_stats": [models.model_statistics(inference_of(request).find(name, version))]}


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
    return _whole_response(inference, asked, request, partial(_infer_body, as_binary=as_binary))


@router.post("/models/{name}/generate")
@router.post("/models/{name}/versions/{version}/generate")
@Run
async def generate(request: Request, name: str, version: str = "") -> Response:
    """Answer a plain JSON object as `infer` does: inputs and parameters by their names."""
    inference = inference_of(request)
    asked = await _read_generate(inference, name, version, request)
    return _whole_response(inference, asked, request, _generated_body)


@router.post("/models/{name}/generate_stream")
@router.post("/models/{name}/versions/{version}/generate_stream")
@Run
async def generate_stream(request: Request, name: str, version: str = "") -> Response:
    """Answer with server-sent events, one for each part of the output."""
    inference = inference_of(request)
    asked = await _read_generate(inference, name, version, request)
    return _event_response(inference, asked, request)


Body = Callable[[InferenceRequest, Tensor], tuple[list[bytes], Mapping[str, str]]]
"""Makes the parts of a body, and its headers."""


def _whole_response(inference: Inference, asked: InferenceRequest, http: Request, body: Body) -> BodyResponse:
    caller = _caller_of(http)
    headers: dict[str, str] = {}

    async def parts() -> AsyncGenerator[bytes]:
        output = await inference.whole(asked, caller)
        content, own_headers = await asyncio.to_thread(body, asked, output)
        headers.update(own_headers, **{"Content-Length": str(sum(map(len, content)))})
        for part in content:
            yield part

    timeout_s = inference.service.limits.slow_listener_timeout_s
    return BodyResponse(parts(), lambda: headers, timeout_s, caller.leave)


def _caller_of(http: Request) -> Caller:
    host = "" if http.client is None else http.client.host
    return Caller(http.state.client, http.state.received_s, host, http.headers)


def _event_response(inference: Inference, asked: InferenceRequest, http: Request) -> BodyResponse:
    """Answer with an event for each part of the output; what fails behind the first is the last event."""
    caller = _caller_of(http)

    async def parts() -> AsyncGenerator[bytes]:
        async with aclosing(inference.run(asked, caller)) as outputs:
            async for output in outputs:
                if output.size <= PART_ELEMENTS:
                    content, _ = _generated_body(asked, output)
                else:
                    content, _ = await asyncio.to_thread(_generated_body, asked, output)
                content[0] = b"data: " + content[0]
                for part in content:
                    yield part
                yield b"\n\n"

    def report(error: Exception) -> bytes:
        return f"data: {json.dumps({'error': error_message(error)})}\n\n".encode()

    headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    timeout_s = inference.service.limits.slow_listener_timeout_s
    return BodyResponse(reported(parts(), report), lambda: headers, timeout_s, caller.leave)


def _json_object(raw: bytes) -> dict[str, Any]:
    """Raises InvalidRequest."""
    try:
        check_values(raw, MAX_NUMBERS, MAX_LISTS)
        # A sixth of the time that `json` takes for numbers. What clients wrote stays in no cache.
        content = from_json(raw.removeprefix(BOM_UTF8), cache_strings="none")
    except TooManyValues as error:
        raise InvalidRequest(
            f"the body is refused: {error.msg}; send large tensors as bytes, with {HEADER_LENGTH}"
        ) from None
    except ValueError as error:
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
        spec = model.named_input(given.get("name"))
        shape = given.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise InvalidRequest(f"input `{spec.name}`: `shape` must be a list of numbers", spec.name)
        num_bytes = _parameters(given).get("binary_data_size")
        raw = None
        if num_bytes is not None:
            if type(num_bytes) is not int or not 0 <= num_bytes <= len(binary):
                raise InvalidRequest(f"input `{spec.name}`: {len(binary)} bytes are left, not {num_bytes}")
            raw, binary = bytes(binary[:num_bytes]), binary[num_bytes:]
        inputs[spec.name] = SentTensor(str(given.get("datatype")), shape, raw, given.get("data")).read(spec)
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
            inputs[key] = SentTensor(spec.datatype, _shape_of(spec, value), values=value).read(spec)
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


def _infer_body(
    asked: InferenceRequest, output: Tensor, as_binary: bool
) -> tuple[list[bytes], Mapping[str, str]]:
    spec = asked.model.output
    described: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": output.shape}
    content = {**_answer_to(asked), "outputs": [described]}
    if not as_binary:
        described["data"] = []
        return _with_numbers(content, output), {"Content-Type": "application/json"}
    data = to_bytes(spec.datatype, output)
    described["parameters"] = {"binary_data_size": len(data)}
    header = json.dumps(content).encode()
    headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
    return [header, data], headers


def _generated_body(asked: InferenceRequest, output: Tensor) -> tuple[list[bytes], Mapping[str, str]]:
    content = {**_answer_to(asked), asked.model.output.name: []}
    return _with_numbers(content, output), {"Content-Type": "application/json"}


def _answer_to(asked: InferenceRequest) -> dict[str, Any]:
    content = {"model_name": asked.model.name, "model_version": VERSION}
    return content | {"id": asked.id} if asked.id else content


def _with_numbers(content: dict[str, Any], numbers: Tensor) -> list[bytes]:
    """Return the parts of JSON whose last list, which is empty, has these numbers."""
    begin, _, end = json.dumps(content).encode().rpartition(b"[]")
    return [begin, *to_json(numbers), end]
