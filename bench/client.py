"""One request to a running server over a real socket, and what its listener had of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from firstword.bench.hearing import Heard, Piece, flaw_of, heard

Protocol = Literal["http", "ws"]
Status = Literal["ok", "refused", "failed"]
PROTOCOLS: tuple[Protocol, ...] = ("http", "ws")
PATIENCE_S = 120.0  # of one request
_REFUSALS = ("overloaded", "rate_limited", "draining")


class ServerAnswer(Exception):
    """The server would not, or could not; the message is its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Ask:
    """seed: so that the same text is said the same way in every run."""

    text: str
    language: str
    seed: int
    protocol: Protocol = "http"


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


@dataclass(slots=True, eq=False)
class Client:
    """`async with` it; one event loop. Connections are kept for HTTP; a WebSocket is opened for each turn,
    before its time begins, as in a conversation where it stands already."""

    url: str
    api_key: str | None = None
    speaker: str | None = None
    sample_rate_hz: int = 24_000
    judges_speech: bool = True  # False: a checkpoint with random weights says noise
    _http: httpx.AsyncClient = field(init=False)

    async def __aenter__(self) -> Self:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=self._headers, timeout=PATIENCE_S, limits=limits
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> httpx.Response:
        """Raises httpx.HTTPError, for an answer that is an error too."""
        return (await self._http.get(path)).raise_for_status()

    async def speak(self, ask: Ask) -> Outcome:
        """Never raises for what the server or the network does: that is an outcome."""
        pieces: list[Piece] = []
        began_s = time.perf_counter()
        ears = self._hear_http if ask.protocol == "http" else self._hear_ws
        try:
            async with asyncio.timeout(PATIENCE_S):
                began_s, compute_rtf = await ears(ask, pieces)
        except ServerAnswer as answer:
            status: Status = "refused" if answer.code in _REFUSALS else "failed"
            return Outcome(ask, status, began_s, time.perf_counter(), why=str(answer))
        except TimeoutError:
            return self._failed(ask, began_s, pieces, f"nothing more within {PATIENCE_S:g} s")
        except (httpx.HTTPError, WebSocketException, OSError) as error:
            return self._failed(ask, began_s, pieces, f"cut off: {type(error).__name__} {error}")
        return self._judged(ask, began_s, pieces, compute_rtf)

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[ClientConnection]:
        url = self.url.replace("http", "ws", 1).rstrip("/") + "/tts/stream"
        async with connect(
            url, additional_headers=self._headers, max_size=None, compression=None
        ) as connection:
            yield connection

    def start(self, ask: Ask, **more: Any) -> str:
        """The first message of a turn."""
        given = {"type": "start", "seed": ask.seed, **more}
        return json.dumps(given | ({"speaker": self.speaker} if self.speaker else {}))

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

    async def _hear_http(self, ask: Ask, pieces: list[Piece]) -> tuple[float, None]:
        body = {"text": ask.text, "format": "pcm", "seed": ask.seed, "sample_rate": self.sample_rate_hz}
        body |= {"speaker": self.speaker} if self.speaker else {}
        began_s = time.perf_counter()
        async with self._http.stream("POST", "/tts", json=body) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                raise _answer(response)
            async for data in response.aiter_raw():
                pieces.append(Piece(time.perf_counter(), data))
        return began_s, None

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
