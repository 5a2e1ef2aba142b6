"""The client without `async`: an event loop in a thread of its own does the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from firstword_client.client import DEFAULT_URL, AsyncClient
from firstword_client.events import Audio, Interrupted, Stats
from firstword_client.speech import AsyncSpeech, Text

_END = object()


class Speech:
    """A text that is being spoken: a context manager, and an iterator of `Audio`. See AsyncSpeech."""

    def __init__(self, portal: BlockingPortal, speech: AsyncSpeech) -> None:
        self._portal = portal
        self._speech = speech
        self._audio: AsyncIterator[Audio] | None = None

    def __enter__(self) -> Speech:
        self._portal.call(self._speech.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._speech.__aexit__, kind, error, trace)

    def __iter__(self) -> Iterator[Audio]:
        audio = self._speech.__aiter__()
        while (piece := self._portal.call(anext, audio, _END)) is not _END:
            assert isinstance(piece, Audio)
            yield piece

    def interrupt(self, played_ms: float | None = None) -> Interrupted:
        return self._portal.call(self._speech.interrupt, played_ms)

    def note_played(self, num_bytes: int) -> None:
        self._speech.note_played(num_bytes)

    @property
    def played_ms(self) -> float:
        return self._speech.played_ms

    @property
    def stats(self) -> Stats | None:
        return self._speech.stats

    @property
    def sample_rate_hz(self) -> int | None:
        return self._speech.sample_rate_hz


class Client:
    """A client of one server, for scripts and threads; a context manager. See AsyncClient."""

    def __init__(self, url: str = DEFAULT_URL, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        self._client = AsyncClient(url, api_key, timeout_s)
        self._resources = ExitStack()
        self._portal: BlockingPortal | None = None

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncClient", "Client")

    def __enter__(self) -> Client:
        self._portal = self._resources.enter_context(start_blocking_portal())
        self._resources.callback(self._portal.call, self._client.aclose)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def speak(self, text: Text, **options: Any) -> Speech:
        return Speech(self._running, self._client.speak(text, **options))

    def render(self, text: str, format: str = "wav", **options: Any) -> bytes:
        async def render() -> bytes:
            return await self._client.render(text, format, **options)

        return self._running.call(render)

    def speakers(self) -> list[dict[str, Any]]:
        return self._running.call(self._client.speakers)

    def register(self, name: str, recording: Path, transcript: str = "") -> dict[str, Any]:
        return self._running.call(self._client.register, name, recording, transcript)

    def delete_speaker(self, name: str) -> None:
        self._running.call(self._client.delete_speaker, name)

    @property
    def _running(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeError("use the client in a `with` statement")
        return self._portal
