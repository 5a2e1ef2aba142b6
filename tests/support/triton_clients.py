"""What a client of the published deployment does, with NVIDIA's client; blocking, so call it in a thread.

Its behavior, not its code: a stream with empty final responses for a text, and one request over HTTP.
"""

import queue
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from numpy.typing import NDArray

PATIENCE_S = 60


@dataclass(eq=False)
class Streamed:
    """What one request over a stream got. audio: of each chunk; errors: of each callback with one."""

    audio: list[NDArray[np.float32]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    finals: list[bool] = field(default_factory=list)


def tensors(module: Any, values: dict[str, Any], **options: Any) -> list[Any]:
    """Inputs for a request: str becomes BYTES [1, 1], arrays have their batch added."""
    inputs = []
    for name, value in values.items():
        if isinstance(value, str):
            array: NDArray[Any] = np.array([[value]], dtype=object)
            kind = "BYTES"
        else:
            array = np.asarray(value)[None]
            kind = {"f4": "FP32", "f2": "FP16", "i4": "INT32", "b1": "BOOL"}[array.dtype.str[1:]]
        tensor = module.InferInput(name, list(array.shape), kind)
        tensor.set_data_from_numpy(array, **options)
        inputs.append(tensor)
    return inputs


def reference(seconds: float = 1.0, padded_s: float = 10.0) -> dict[str, Any]:
    """A recording at 16 kHz with zeros behind it, as the published client sends one."""
    num_samples = round(16_000 * seconds)
    wav = np.zeros(round(16_000 * padded_s), np.float32)
    wav[:num_samples] = np.sin(np.arange(num_samples) / 20)
    return {"reference_wav": wav, "reference_wav_len": np.array([num_samples], np.int32)}


def streamed(
    address: str, model: str, values: dict[str, Any], request_id: str = "1", **request: Any
) -> Streamed:
    """Send one request over a stream and read until its final response."""
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    got = Streamed()
    with triton_grpc.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            model,
            tensors(triton_grpc, values),
            request_id=request_id,
            enable_empty_final_response=True,
            **request,
        )
        is_final = False
        while not is_final:
            result, error = responses.get(timeout=PATIENCE_S)
            if error is not None:
                got.errors.append(error.message())
                continue
            response = result.get_response()
            got.ids.add(response.id)
            is_final = response.parameters["triton_final_response"].bool_param
            got.finals.append(is_final)
            if response.outputs:
                got.audio.append(result.as_numpy(response.outputs[0].name))
        client.stop_stream()
    return got


def inferred(address: str, model: str, values: dict[str, Any], output: str, **request: Any) -> Any:
    """One request over gRPC; -> its output."""
    with triton_grpc.InferenceServerClient(address) as client:
        wanted = [triton_grpc.InferRequestedOutput(output)]
        result = client.infer(model, tensors(triton_grpc, values), outputs=wanted, **request)
        return result.as_numpy(output)


def inferred_over_http(
    url: str, model: str, values: dict[str, Any], output: str, is_binary: bool, **request: Any
) -> Any:
    with triton_http.InferenceServerClient(url.removeprefix("http://"), network_timeout=PATIENCE_S) as client:
        wanted = [triton_http.InferRequestedOutput(output, binary_data=is_binary)]
        inputs = tensors(triton_http, values, binary_data=is_binary)
        return client.infer(model, inputs, outputs=wanted, **request).as_numpy(output)
