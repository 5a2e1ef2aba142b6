"""Sends one request over gRPC or the Open Inference Protocol, and reads the server's statistics of them."""

import json
from collections.abc import AsyncGenerator
from typing import Any, Final

import grpc
import httpx
import numpy as np
from numpy.typing import NDArray

from firstword.app.http.rpc.messages import INFERENCE, SPEECH, message, method_of
from firstword.bench.data_set import Speech
from firstword.bench.hearing import ServerAnswer

FAMILIES: Final = ("cosyvoice1", "cosyvoice2", "cosyvoice3")
MAX_16 = 32767


class GrpcClient:
    """`async with` it. Both services of a server over one connection, without TLS."""

    def __init__(self, address: str, api_key: str | None, sample_rate_hz: int) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(address, options)
        self._metadata = (("x-api-key", api_key),) if api_key else ()
        self._sample_rate_hz = sample_rate_hz

    async def __aenter__(self) -> "GrpcClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()

    async def synthesize(self, speech: Speech) -> AsyncGenerator[bytes, None]:
        """Yield s16le. Raises ServerAnswer."""
        if speech.reference is not None:
            raise ServerAnswer("reference", "the protocol grpc takes registered speakers; use kserve-grpc")
        voice: dict[str, Any] = {"seed": speech.seed, "sample_rate": self._sample_rate_hz}
        voice |= {"speaker": speech.speaker} if speech.speaker else {}
        request = message("firstword.v1.SynthesizeRequest")(text=speech.text, voice=voice)
        call = method_of(self._channel, SPEECH, "Synthesize")(request, metadata=self._metadata)
        try:
            async for event in call:
                if event.audio.data:
                    yield event.audio.data
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from None
        finally:
            call.cancel()

    def infer(self, speech: Speech, model: str, request_id: str) -> AsyncGenerator[bytes, None]:
        """Yield s16le over a stream of the Open Inference Protocol, as the published client does."""
        return self._infer(_infer_request(speech, model, request_id))

    async def _infer(self, request: Any) -> AsyncGenerator[bytes, None]:
        call = method_of(self._channel, INFERENCE, "ModelStreamInfer")(metadata=self._metadata)
        try:
            await call.write(request)
            async for response in call:
                if response.error_message:
                    raise ServerAnswer("inference", response.error_message)
                answer = response.infer_response
                if answer.raw_output_contents:
                    yield _pcm(np.frombuffer(answer.raw_output_contents[0], "<f4"))
                if answer.parameters["triton_final_response"].bool_param:
                    return
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from None
        finally:
            call.cancel()


def generated(http: httpx.AsyncClient, speech: Speech, model: str) -> AsyncGenerator[bytes, None]:
    """Yield s16le over `generate_stream`. Raises ServerAnswer and httpx.HTTPError."""
    inputs = {name: tensor.reshape(-1).tolist() for name, tensor in _inputs(speech).items()}
    inputs |= {name: values[0] for name, values in inputs.items() if name != "reference_wav"}
    body = json.dumps({**inputs, "parameters": _parameters(speech)}).encode()
    return _generated(http, model, body)


async def _generated(http: httpx.AsyncClient, model: str, body: bytes) -> AsyncGenerator[bytes, None]:
    headers = {"Content-Type": "application/json"}
    path = f"/v2/models/{model}/generate_stream"
    async with http.stream("POST", path, content=body, headers=headers) as response:
        if response.status_code != httpx.codes.OK:
            await response.aread()
            raise _refused(response)
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            event = json.loads(line.removeprefix("data:"))
            if "error" in event:
                raise ServerAnswer("inference", event["error"])
            if event.get("waveform"):
                yield _pcm(np.asarray(event["waveform"], np.float32))


async def speaking_model(http: httpx.AsyncClient) -> str:
    """Return the model that speaks texts. Raises httpx.HTTPError, and ValueError if there is none."""
    response = (await http.post("/v2/repository/index")).raise_for_status()
    names = [model["name"] for model in response.json()]
    found = next((name for name in names if name in FAMILIES), None)
    if found is None:
        raise ValueError(f"no model there speaks texts: {', '.join(names) or 'there is none'}")
    return found


async def statistics_of(http: httpx.AsyncClient, model: str) -> dict[str, float]:
    """Return what `Client.server_times` returns. Raises httpx.HTTPError."""
    response = (await http.get(f"/v2/models/{model}/stats")).raise_for_status()
    (found,) = response.json()["model_stats"]
    spent = found.get("inference_stats", {})

    def of(name: str, figure: str) -> int:
        return int(spent.get(name, {}).get(figure, 0))

    compute = ("compute_input", "compute_infer", "compute_output")
    return {
        "queue": of("queue", "ns") / 1e9,
        "compute": sum(of(name, "ns") for name in compute) / 1e9,
        "count": of("success", "count"),
    }


def _inputs(speech: Speech) -> dict[str, NDArray[Any]]:
    """Return the inputs, each (1, n)."""
    inputs: dict[str, NDArray[Any]] = {}
    if speech.reference is not None:
        samples = speech.reference.samples()
        inputs["reference_wav"] = samples[None]
        inputs["reference_wav_len"] = np.array([[len(samples)]], np.int32)
        inputs["reference_text"] = np.array([[speech.reference.transcript]], dtype=object)
    return {**inputs, "target_text": np.array([[speech.text]], dtype=object)}


def _parameters(speech: Speech) -> dict[str, Any]:
    return {"seed": speech.seed} | ({"speaker": speech.speaker} if speech.speaker else {})


def _infer_request(speech: Speech, model: str, request_id: str) -> Any:
    request = message("inference.ModelInferRequest")(model_name=model, id=request_id)
    for name, tensor in _inputs(speech).items():
        kind = {"f": "FP32", "i": "INT32", "O": "BYTES"}[tensor.dtype.kind]
        request.inputs.add(name=name, datatype=kind, shape=tensor.shape)
        if kind == "BYTES":
            text = tensor[0, 0].encode()
            request.raw_input_contents.append(len(text).to_bytes(4, "little") + text)
        else:
            request.raw_input_contents.append(tensor.tobytes())
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    request.parameters["seed"].int64_param = speech.seed
    if speech.speaker:
        request.parameters["speaker"].string_param = speech.speaker
    return request


def _pcm(samples: NDArray[np.float32]) -> bytes:
    return (np.clip(samples, -1, 1) * MAX_16).astype("<i2").tobytes()


def _failed(error: grpc.aio.AioRpcError) -> ServerAnswer:
    codes = [str(value) for name, value in error.trailing_metadata() or () if name == "error-code"]
    code = codes[0] if codes else error.code().name.lower()
    return ServerAnswer(code, error.details() or "")


def _refused(response: httpx.Response) -> ServerAnswer:
    try:
        body = response.json()
        return ServerAnswer(body.get("code", f"http_{response.status_code}"), str(body["error"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerAnswer(f"http_{response.status_code}", "no error body of the Open Inference Protocol")
