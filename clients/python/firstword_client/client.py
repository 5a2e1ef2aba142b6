"""The client: speech over one WebSocket, everything else over HTTP."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import anyio
import httpx

from firstword_client.events import FirstwordError
from firstword_client.socket import Socket
from firstword_client.speech import AsyncSpeech, Text

DEFAULT_URL = "http://127.0.0.1:8000"


class AsyncClient:
    """A client of one server; an async context manager. Its methods raise FirstwordError.

    Options of speech are those of docs/api.md by their names: speaker, speed, language, volume, seed,
    timestamps, instruct, format, sample_rate, mode.
    """

    def __init__(self, url: str = DEFAULT_URL, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        """timeout_s: of a request over HTTP."""
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._url = url
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout_s)
        self._socket = Socket(url, headers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._socket.aclose()
        await self._http.aclose()

    def speak(self, text: Text, **options: Any) -> AsyncSpeech:
        """Return a speech of the text, which begins when it is entered."""
        return AsyncSpeech(self._socket, text, options)

    async def render(self, text: str, format: str = "wav", **options: Any) -> bytes:
        """Return a whole text as a file: wav, pcm, mp3, opus, flac, aac."""
        # For proxies that send one speaker's requests to one server.
        headers = {"X-Speaker": quote(options["speaker"])} if options.get("speaker") else {}
        body = {"text": text, "format": format, "stream": False, **options}
        answer = await self._http.post("/tts", json=body, headers=headers)
        return _checked(answer).content

    async def speakers(self) -> list[dict[str, Any]]:
        """Return the speakers that the key may use."""
        speakers: list[dict[str, Any]] = _checked(await self._http.get("/speakers")).json()["speakers"]
        return speakers

    async def register(self, name: str, recording: Path, transcript: str = "") -> dict[str, Any]:
        """Register a speaker from a recording of 1 to 30 s. transcript: what is said in it."""
        content = await anyio.Path(recording).read_bytes()
        answer = await self._http.post(
            "/speakers",
            data={"name": name, "transcript": transcript},
            files={"audio": (recording.name.encode(errors="replace").decode(), content)},  # no UTF-8, perhaps
        )
        speaker: dict[str, Any] = _checked(answer).json()
        return speaker

    async def delete_speaker(self, name: str) -> None:
        _checked(await self._http.delete(f"/speakers/{quote(name, safe='')}"))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        body = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        raise FirstwordError(f"the server answered {answer.status_code}", "http_error") from None
    raise FirstwordError.of(body)
