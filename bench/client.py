"""Sends one request to a running server over a real socket, and times the audio that comes."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import httpx
import soundfile
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from firstword.bench.data_set import Reference, Speech
from firstword.bench.hearing import Heard, Piece, ServerAnswer, flaw_of, heard, samples_of

if TYPE_CHECKING:  # grpcio is an extra
    from firstword.bench.inference_client import GrpcClient

Protocol = Literal["http", "ws", "openai", "grpc", "kserve-grpc", "kserve-http"]
Status = Literal["ok", "refused", "failed"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
PATIENCE_S = 120.0  # of one request
GRPC_PORT = 8001
_REFUSALS = ("overloaded", "rate_limited", "draining")
_SERVER_TIMES = {
    "tts_queue_wait_seconds_sum": "queue",
    "tts_queue_wait_seconds_count": "count",
    "tts_stage_seconds_sum": "compute",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. seed: makes a text sound the same in every run. name: the name of its audio file."""

    text: str
    language: str
    seed: int
    protocol: Protocol = "http"
    name: str = ""
    speaker: str | None = None
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """asked_s, ended_s: by perf_counter. heard None: no audio came. why: of what is not ok.

    compute_rtf: the server's own, which a WebSocket tells.
    """

    ask: Ask
    status: Status
    asked_s: float
    ended_s: float
    heard: Heard | None = None
    why: str = ""
    compute_rtf: float | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """The voice of requests that name none: a speaker, or a recording.

    is_cold: each recording comes with a transcript that the server has not seen.
    """

    speaker: str | None = None
    reference: Reference | None = None
    is_cold: bool = False


def fresh_ids() -> Iterator[str]:
    """Yield names that no other run of this program gives."""
    run = secrets.token_hex(4)
    return (f"{run}-{number}" for number in count(1))


@dataclass(slots=True, eq=False)
class Client:
    """`async with` it; one event loop. Connections are kept for HTTP; a WebSocket is opened for each turn,
    before its time begins, as in a conversation where it stands already."""

    url: str
    api_key: str | None = None
    voice: Voice = Voice()
    sample_rate_hz: int = 24_000
    judges_speech: bool = True  # False: a checkpoint with random weights says noise
    grpc_address: str | None = None  # None: the host of `url`, port 8001
    metrics_url: str | None = None  # of the engine's metrics; None: where `url` has them
    audio_dir: Path | None = None  # where one WAV of each text is written
    _http: httpx.AsyncClient = field(init=False)
    _grpc: "GrpcClient | None" = field(init=False, default=None)  # None: not used yet
    _model: str = field(init=False, default="")  # of the Open Inference Protocol; "": not asked for yet
    _ids: Iterator[str] = field(init=False, default_factory=fresh_ids)

    async def __aenter__(self) -> Self:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=self._headers, timeout=PATIENCE_S, limits=limits
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()
        if self._grpc is not None:
            await self._grpc.__aexit__()

    async def get(self, path: str) -> httpx.Response:
        """Send a GET request. Raises httpx.HTTPError, also for an error status."""
        return (await self._http.get(path)).raise_for_status()

    async def describe(self) -> dict[str, Any]:
        """Return the server's capabilities, with `default_sample_rate` and `languages`.

        Of a server with the Open Inference Protocol alone those are 24 kHz and English. Raises
        httpx.HTTPError.
        """
        response = await self._http.get("/v1/capabilities")
        if response.status_code != httpx.codes.NOT_FOUND:
            described: dict[str, Any] = response.raise_for_status().json()
            return described
        return {"default_sample_rate": 24_000, "languages": ["en"], **(await self.get("/v2")).json()}

    async def speak(self, ask: Ask) -> Outcome:
        """Send a request and take its audio. A fault of the server or the network is an outcome."""
        pieces: list[Piece] = []
        began_s = time.perf_counter()
        compute_rtf: float | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                if ask.protocol == "ws":
                    began_s, compute_rtf = await self._hear_ws(ask, pieces)
                else:
                    audio = await self._audio(ask)
                    began_s = time.perf_counter()
                    async with aclosing(audio):
                        async for data in audio:
                            pieces.append(Piece(time.perf_counter(), data))
        except ServerAnswer as answer:
            status: Status = "refused" if answer.code in _REFUSALS else "failed"
            return Outcome(ask, status, began_s, time.perf_counter(), why=str(answer))
        except TimeoutError:
            return self._failed(ask, began_s, pieces, f"nothing more within {PATIENCE_S:g} s")
        except (httpx.HTTPError, WebSocketException, OSError) as error:
            return self._failed(ask, began_s, pieces, f"cut off: {type(error).__name__} {error}")
        if self.audio_dir is not None:
            await asyncio.to_thread(self._write_audio, self.audio_dir, ask, pieces)
        return self._judged(ask, began_s, pieces, compute_rtf)

    async def server_times(self, protocol: Protocol) -> dict[str, float]:
        """Return what the server has counted: seconds of `queue` and `compute`, and requests as `count`.

        Empty where it does not tell.
        """
        if protocol.startswith("kserve") and self.metrics_url is None:
            from firstword.bench.inference_client import statistics_of

            return await statistics_of(self._http, await self._inference_model())
        response = await self._http.get(self.metrics_url or "/metrics")
        if not response.is_success:
            return {}
        totals: dict[str, float] = {}
        for family in text_string_to_metric_families(response.text):
            for sample in family.samples:
                if name := _SERVER_TIMES.get(sample.name):
                    totals[name] = totals.get(name, 0.0) + sample.value
        return totals

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[ClientConnection]:
        url = self.url.replace("http", "ws", 1).rstrip("/") + "/tts/stream"
        async with connect(
            url, additional_headers=self._headers, max_size=None, compression=None
        ) as connection:
            yield connection

    def start(self, ask: Ask, **more: Any) -> str:
        """Return the first message of a WebSocket context."""
        given = {"type": "start", "seed": ask.seed, **more}
        speaker = ask.speaker or self.voice.speaker
        return json.dumps(given | ({"speaker": speaker} if speaker else {}))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def _judged(self, ask: Ask, began_s: float, pieces: list[Piece], compute_rtf: float | None) -> Outcome:
        found = heard(pieces, began_s, self.sample_rate_hz)
        if found is None:
            return self._failed(ask, began_s, pieces, "empty: an answer without audio")
        flaw = flaw_of(ask.text, ask.language, found) if self.judges_speech else None
        ended_s = pieces[-1].at_s
        if flaw is not None:
            why = f"{flaw}: {found.audio_s:.2f} s of audio"
            return Outcome(ask, "failed", began_s, ended_s, found, why, compute_rtf)
        return Outcome(ask, "ok", began_s, ended_s, found, compute_rtf=compute_rtf)

    def _failed(self, ask: Ask, began_s: float, pieces: list[Piece], why: str) -> Outcome:
        now_s = time.perf_counter()
        return Outcome(ask, "failed", began_s, now_s, heard(pieces, began_s, self.sample_rate_hz), why)

    async def _audio(self, ask: Ask) -> AsyncGenerator[bytes, None]:
        """Return the audio of a request, which is sent when the first piece is asked for."""
        speech = self._speech(ask)
        match ask.protocol:
            case "http" | "openai":
                return self._post(*self._http_body(ask.protocol, speech))
            case "grpc":
                return self._grpc_client().synthesize(speech)
            case "kserve-grpc":
                return self._grpc_client().infer(speech, await self._inference_model(), next(self._ids))
            case "kserve-http":
                from firstword.bench.inference_client import generated

                return generated(self._http, speech, await self._inference_model())
            case _:
                raise AssertionError(ask.protocol)

    def _speech(self, ask: Ask) -> Speech:
        speaker = ask.speaker or self.voice.speaker
        reference = ask.reference or (None if speaker else self.voice.reference)
        if reference is not None and self.voice.is_cold:
            reference = replace(reference, transcript=f"{reference.transcript} {next(self._ids)}")
        return Speech(ask.text, ask.seed, None if reference else speaker, reference)

    def _http_body(self, protocol: str, speech: Speech) -> tuple[str, dict[str, Any]]:
        """Return the path, and the body that is sent to it."""
        body: dict[str, Any] = {"seed": speech.seed, "sample_rate": self.sample_rate_hz}
        body |= {"speaker": speech.speaker} if speech.speaker else {}
        if speech.reference is not None:
            body["reference_audio"] = base64.b64encode(speech.reference.content).decode()
            body["reference_text"] = speech.reference.transcript
        if protocol == "openai":
            return "/v1/audio/speech", {"input": speech.text, "response_format": "pcm", **body}
        return "/tts", {"text": speech.text, "format": "pcm", **body}

    async def _post(self, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        async with self._http.stream("POST", path, json=body) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                raise _answer(response)
            async for data in response.aiter_raw():
                yield data

    def _grpc_client(self) -> "GrpcClient":
        if self._grpc is None:
            from firstword.bench.inference_client import GrpcClient

            address = self.grpc_address or f"{httpx.URL(self.url).host}:{GRPC_PORT}"
            self._grpc = GrpcClient(address, self.api_key, self.sample_rate_hz)
        return self._grpc

    async def _inference_model(self) -> str:
        if not self._model:
            from firstword.bench.inference_client import speaking_model

            self._model = await speaking_model(self._http)
        return self._model

    def _write_audio(self, folder: Path, ask: Ask, pieces: list[Piece]) -> None:
        path = folder / ask.protocol / f"{ask.name or ask.seed}.wav"
        if pieces and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, samples_of(pieces), self.sample_rate_hz)

    async def _hear_ws(self, ask: Ask, pieces: list[Piece]) -> tuple[float, float | None]:
        try:
            async with self.socket() as socket:
                began_s = time.perf_counter()
                await socket.send(self.start(ask, sample_rate=self.sample_rate_hz))
                await socket.send(json.dumps({"type": "text", "text": ask.text}))
                await socket.send(json.dumps({"type": "end"}))
                async for message in socket:
                    if isinstance(message, bytes):
                        pieces.append(Piece(time.perf_counter(), message))
                    elif (said := json.loads(message))["type"] == "done":
                        return began_s, said["stats"]["rtf"]
                    elif said["type"] == "error":
                        raise ServerAnswer(said["error"]["code"], said["error"]["message"])
        except InvalidHandshake as error:
            raise ServerAnswer("handshake", str(error)) from error
        raise ServerAnswer("closed", "the socket closed before the speech was done")


def _answer(response: httpx.Response) -> ServerAnswer:
    try:
        error = response.json()["error"]
        return ServerAnswer(error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        return ServerAnswer(f"http_{response.status_code}", "no error body of this server")
