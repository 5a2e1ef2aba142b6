"""Every surface that speaks, behind one call: a text goes in, speech or a refusal comes out."""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import grpc
import httpx
import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from firstword.app.audio.dsp import to_pcm16
from firstword.app.http.rpc.messages import INFERENCE, SPEECH, message, method_of
from firstword.app.http.service import Service
from firstword.app.http.surface import Surface
from firstword.app.surfaces.grpc.options import GrpcOptions
from firstword.app.surfaces.grpc.surface import GrpcSurface
from tests.support.fake_engine import FakeEngine
from tests.surfaces.line import LineOptions, LineSurface

PCM: dict[str, str] = {"format": "pcm"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """audio: as the wire carried it, PCM of 16 bits where no format was asked for."""

    audio: bytes
    words: list[str] = field(default_factory=list)  # in order, where they were asked for


@dataclass(frozen=True, slots=True)
class Refused:
    """code: of docs/errors; None: the wire broke off, or has no place for one behind its first audio."""

    code: str | None
    message: str = ""
    retry_after: str | None = None


Answer = Spoken | Refused


@dataclass(eq=False)
class SpeakingSurface:
    """One surface of a running server, as a client of it sees it; one that is cancelled in `speak` leaves."""

    name: ClassVar[str]
    wire: ClassVar[str]  # in the metrics

    url: str
    service: Service
    engine: FakeEngine
    surfaces: Sequence[Surface]  # all of the server

    @classmethod
    def own(cls, others: Sequence[Surface], directory: Path) -> list[Surface]:
        """Return what the server has beside the surfaces of HTTP."""
        return []

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        """options: by the names of POST /tts."""
        raise NotImplementedError


def shown(key: str) -> dict[str, str]:
    return {"X-API-Key": key} if key else {}


def refusal_of(answer: httpx.Response) -> Refused:
    error = answer.json()["error"]
    if isinstance(error, str):  # of the Open Inference Protocol
        error = {"message": error, "code": answer.json()["code"]}
    return Refused(error["code"], error["message"], answer.headers.get("retry-after"))


class Tts(SpeakingSurface):
    name = "tts"
    wire = "http"
    path = "/tts"

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        async with httpx.AsyncClient(base_url=self.url, timeout=20) as client:
            try:
                answer = await client.post(self.path, json=self.body(text, options), headers=shown(key))
            except httpx.RemoteProtocolError as cut:
                return Refused(None, str(cut))
        return self.heard(answer, options) if answer.status_code == 200 else refusal_of(answer)

    def body(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"text": text, **PCM, **options}

    def heard(self, answer: httpx.Response, options: dict[str, Any]) -> Answer:
        if "timestamps" not in options:
            return Spoken(answer.content)
        lines = [json.loads(line) for line in answer.content.splitlines()]
        return told(lines)


class TtsWhole(Tts):
    """The same with "stream": false, a file that nobody hears while it is made."""

    name = "tts-whole"

    def body(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        return {**super().body(text, options), "stream": False}

    def heard(self, answer: httpx.Response, options: dict[str, Any]) -> Answer:
        assert answer.headers["content-length"] == str(len(answer.content))
        return told([answer.json()]) if "timestamps" in options else Spoken(answer.content)


def told(parts: Sequence[dict[str, Any]]) -> Answer:
    """Return what JSON objects with `audio` and `words` say; an `error` is the last."""
    if "error" in parts[-1]:
        return Refused(parts[-1]["error"]["code"], parts[-1]["error"]["message"])
    audio = b"".join(base64.b64decode(part["audio"]) for part in parts if "audio" in part)
    return Spoken(audio, [word["text"] for part in parts for word in part.get("words", ())])


class OpenAI(Tts):
    name = "openai"
    wire = "openai"
    path = "/v1/audio/speech"
    names: ClassVar = {"speaker": "voice", "instruct": "instructions", "format": "response_format"}

    def body(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        given = {self.names.get(name, name): value for name, value in (PCM | options).items()}
        events = {"stream_format": "sse"} if "timestamps" in options else {}
        return {"input": text, **given, **events}

    def heard(self, answer: httpx.Response, options: dict[str, Any]) -> Answer:
        if "timestamps" not in options:
            return Spoken(answer.content)
        return told([json.loads(line[6:]) for line in answer.text.split("\n\n") if line])


class CosyVoice(SpeakingSurface):
    """Forms as the published client sends them, by GET."""

    name = "cosyvoice"
    wire = "http"
    names: ClassVar = {"speaker": "spk_id", "instruct": "instruct_text", "reference_text": "prompt_text"}

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        path = "/inference_instruct" if "instruct" in options else "/inference_sft"
        form, files = {"tts_text": text}, {}
        if (recording := options.pop("reference_audio", None)) is not None:
            path, files = "/inference_zero_shot", {"prompt_wav": base64.b64decode(recording)}
        else:
            form["spk_id"] = "hum"
        form |= {self.names.get(name, name): str(value) for name, value in options.items()}
        async with httpx.AsyncClient(base_url=self.url, timeout=20) as client:
            try:
                answer = await client.request("GET", path, data=form, files=files, headers=shown(key))
            except httpx.RemoteProtocolError as cut:
                return Refused(None, str(cut))
        return Spoken(answer.content) if answer.status_code == 200 else refusal_of(answer)


class InferenceHttp(Tts):
    name = "inference-http"
    wire = "kserve"
    path = "/v2/models/cosyvoice2/generate_stream"

    def body(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"target_text": text, "parameters": options}

    def heard(self, answer: httpx.Response, options: dict[str, Any]) -> Answer:
        parts = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
        if "error" in parts[-1]:
            return Refused(None, parts[-1]["error"])
        samples = np.concatenate([np.array(part["waveform"], np.float32) for part in parts])
        return Spoken(to_pcm16(samples).tobytes())


class WebSocket(SpeakingSurface):
    name = "websocket"
    wire = "websocket"

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        address = f"{self.url.replace('http', 'ws', 1)}/tts/stream"
        try:
            async with connect(address, additional_headers=shown(key), proxy=None) as socket:
                for part in ({"type": "start", **options}, {"type": "text", "text": text}, {"type": "end"}):
                    await socket.send(json.dumps(part))
                audio, words = b"", []
                while (said := json.loads(await socket.recv(decode=True)))["type"] != "done":
                    if said["type"] == "error":
                        return Refused(said["error"]["code"], said["error"]["message"])
                    if said["type"] == "audio":
                        audio += bytes(await socket.recv(decode=False))
                        words += [word["text"] for word in said.get("words", ())]
                return Spoken(audio, words)
        except InvalidStatus as refused:
            error = json.loads(refused.response.body or b"")["error"]
            return Refused(error["code"], error["message"])


class Grpc(SpeakingSurface):
    name = "grpc"
    wire = "grpc"

    @classmethod
    def own(cls, others: Sequence[Surface], directory: Path) -> list[Surface]:
        return [GrpcSurface(GrpcOptions(port=0), "127.0.0.1", others)]

    @property
    def address(self) -> str:
        [surface] = [one for one in self.surfaces if isinstance(one, GrpcSurface)]
        return f"127.0.0.1:{surface.port}"

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        metadata = tuple((name.lower(), value) for name, value in shown(key).items())
        async with grpc.aio.insecure_channel(self.address) as channel:
            try:
                return await self.called(channel, text, metadata, options)
            except grpc.aio.AioRpcError as error:
                trailing = {str(name): str(value) for name, value in error.trailing_metadata() or ()}
                code = trailing.get("error-code")
                return Refused(code, error.details() or "", trailing.get("retry-after"))

    async def called(self, channel: Any, text: str, metadata: Any, options: dict[str, Any]) -> Spoken:
        own = {name: options.pop(name) for name in ("timestamps", "normalize", "context") if name in options}
        if "reference_audio" in options:
            options["reference_audio"] = base64.b64decode(options["reference_audio"])
        request = message("firstword.v1.SynthesizeRequest")(text=text, voice=options, **own)
        audio, words = b"", []
        async for event in method_of(channel, SPEECH, "Synthesize")(request, metadata=metadata):
            audio += event.audio.data
            words += [word.text for word in event.audio.words]
        return Spoken(audio, words)


class InferenceGrpc(Grpc):
    name = "inference-grpc"
    wire = "kserve"

    async def called(self, channel: Any, text: str, metadata: Any, options: dict[str, Any]) -> Spoken:
        request = message("inference.ModelInferRequest")(model_name="cosyvoice2")
        request.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1])
        request.inputs[0].contents.bytes_contents.append(text.encode())
        kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
        for name, value in options.items():
            sent = json.dumps(value) if isinstance(value, dict) else value
            setattr(request.parameters[name], kinds[type(sent)], sent)
        response = await method_of(channel, INFERENCE, "ModelInfer")(request, metadata=metadata)
        samples = np.frombuffer(response.raw_output_contents[0], np.float32)
        return Spoken(to_pcm16(samples).tobytes())


class Batches(SpeakingSurface):
    name = "batches"
    wire = "batch"
    path = "/v1/audio/batches"

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        async with httpx.AsyncClient(base_url=self.url, timeout=20, headers=shown(key)) as client:
            made = await client.post(self.path, json={"items": [{"text": text, **PCM, **options}]})
            if made.status_code != 201:
                return refusal_of(made)
            items = f"{self.path}/{made.json()['id']}/items"
            item = (await client.get(items)).json()["items"][0]
            while item["state"] in ("queued", "running"):
                await asyncio.sleep(0.01)
                item = (await client.get(items)).json()["items"][0]
            if item["error"] is not None:
                return Refused(item["error"]["code"], item["error"]["message"])
            return Spoken((await client.get(f"{items}/1/audio")).content)


class Line(SpeakingSurface):
    """The example of docs/architecture.md."""

    name = "line"
    wire = "line"

    @classmethod
    def own(cls, others: Sequence[Surface], directory: Path) -> list[Surface]:
        return [LineSurface(LineOptions())]

    async def speak(self, text: str, *, key: str = "", **options: Any) -> Answer:
        [surface] = [one for one in self.surfaces if isinstance(one, LineSurface)]
        reader, writer = await asyncio.open_connection("127.0.0.1", surface.port)
        try:
            writer.write(json.dumps({"text": text, "key": key, **options}).encode() + b"\n")
            first = await reader.readline()
            return Spoken(await reader.read()) if first == b"ok\n" else refused(json.loads(first))
        except ConnectionResetError as cut:
            return Refused(None, str(cut))
        finally:
            writer.close()


def refused(content: dict[str, Any]) -> Refused:
    seconds = content["retry_after"]
    return Refused(
        content["error"]["code"], content["error"]["message"], None if seconds is None else str(seconds)
    )


ALL: tuple[type[SpeakingSurface], ...] = (
    *(Tts, TtsWhole, OpenAI, CosyVoice, WebSocket, Grpc, InferenceHttp, InferenceGrpc, Batches, Line),
)
