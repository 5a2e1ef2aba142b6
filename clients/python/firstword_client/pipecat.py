"""The voice of Pipecat: words as they are written, their times, and barge-in that stops the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
)
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TextAggregationMode, TTSService

from firstword_client.client import DEFAULT_URL, AsyncClient
from firstword_client.events import FirstwordError

CHANNELS = 1


@dataclass
class _Turn:
    """What is said in one context of Pipecat's. pieces: of its text; None ends it."""

    pieces: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    speaking: asyncio.Task[None] | None = None
    has_failed: bool = False  # what else comes of it is not spoken

    async def text(self) -> AsyncIterator[str]:
        while (piece := await self.pieces.get()) is not None:
            yield piece


class FirstwordTTSService(TTSService):
    """`FirstwordTTSService("http://localhost:8000", speaker="wren")`, behind the language model."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        api_key: str | None = None,
        speaker: str | None = None,
        language: str | None = None,
        sample_rate: int | None = None,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """sample_rate: None: the pipeline's. options: further ones of speech, as `AsyncClient` takes them.
        kwargs: of `TTSService`. Frames of settings change speaker and language while it runs."""
        super().__init__(
            text_aggregation_mode=TextAggregationMode.TOKEN,
            push_text_frames=False,
            sample_rate=sample_rate,
            settings=TTSSettings(model=None, voice=speaker, language=language),
            **kwargs,
        )
        self._client = AsyncClient(url, api_key)
        self._options = dict(options or {})
        self._turns: dict[str, _Turn] = {}

    def can_generate_metrics(self) -> bool:
        return True

    async def stop(self, frame: EndFrame) -> None:
        await super().stop(frame)
        await self._close()

    async def cancel(self, frame: CancelFrame) -> None:
        await super().cancel(frame)
        await self._close()

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Send a piece of the text; what is said comes through the context."""
        turn = self._turns.get(context_id)
        if turn is None:
            turn = self._turns[context_id] = _Turn()
            if not self.audio_context_available(context_id):
                await self.create_audio_context(context_id)
            await self.start_ttfb_metrics()
            turn.speaking = self.create_task(self._speak(turn, context_id))
        if turn.has_failed:
            yield None
            return
        turn.pieces.put_nowait(text)
        await self.start_tts_usage_metrics(text)
        yield None

    async def flush_audio(self, context_id: str | None = None) -> None:
        """The turn's text is complete."""
        key = context_id or self.get_active_audio_context_id() or ""
        turn = self._turns.get(key)
        if turn is not None and turn.has_failed:
            del self._turns[key]
        elif turn is not None:
            turn.pieces.put_nowait(None)

    async def on_audio_context_interrupted(self, context_id: str) -> None:
        await self._end(context_id)
        await super().on_audio_context_interrupted(context_id)

    async def _speak(self, turn: _Turn, context_id: str) -> None:
        """Being cancelled stops the server."""
        options = {**self._options, "sample_rate": self.sample_rate, "timestamps": "word"}
        for name, value in (("speaker", self._settings.voice), ("language", self._settings.language)):
            if value:
                options[name] = str(value)
        await self.append_to_audio_context(context_id, TTSStartedFrame(context_id=context_id))
        try:
            async with self._client.speak(turn.text(), **options) as speech:
                async for audio in speech:
                    frame = TTSAudioRawFrame(audio.pcm, self.sample_rate, CHANNELS, context_id=context_id)
                    await self.append_to_audio_context(context_id, frame)
                    times = [(word.text, word.start_ms / 1000) for word in audio.words]
                    await self.add_word_timestamps(times, context_id)
        except (FirstwordError, OSError) as error:
            turn.has_failed = True
            await self.append_to_audio_context(context_id, ErrorFrame(f"Firstword: {error}"))
        if not turn.has_failed:
            self._turns.pop(context_id, None)
        await self.append_to_audio_context(context_id, TTSStoppedFrame(context_id=context_id))
        await self.remove_audio_context(context_id)

    async def _end(self, context_id: str) -> None:
        turn = self._turns.pop(context_id, None)
        if turn is not None and turn.speaking is not None:
            await self.cancel_task(turn.speaking)

    async def _close(self) -> None:
        for context_id in list(self._turns):
            await self._end(context_id)
        await self._client.aclose()
