"""The voice of LiveKit Agents: words as they are written, their times, and barge-in that stops the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from livekit.agents import APIConnectionError, APIError, tts, utils
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions, TimedString

from firstword_client.client import DEFAULT_URL, AsyncClient
from firstword_client.events import ConnectionLost, FirstwordError
from firstword_client.speech import Text

CHANNELS = 1
PASSING = ("overloaded", "restarting", "draining", "rate_limited")  # codes that another try may get past


class TTS(tts.TTS):
    """`AgentSession(tts=TTS("http://localhost:8000", speaker="wren"))`."""

    def __init__(
        self, url: str = DEFAULT_URL, api_key: str | None = None, sample_rate: int = 24_000, **options: Any
    ) -> None:
        """options: of speech, as `AsyncClient` takes them: speaker, speed, language, seed."""
        capabilities = tts.TTSCapabilities(streaming=True, aligned_transcript=True)
        super().__init__(capabilities=capabilities, sample_rate=sample_rate, num_channels=CHANNELS)
        self._client = AsyncClient(url, api_key)
        self._options = {**options, "sample_rate": sample_rate, "timestamps": "word"}

    @property
    def provider(self) -> str:
        return "Firstword"

    def synthesize(
        self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.ChunkedStream:
        return _Whole(tts=self, input_text=text, conn_options=conn_options)

    def stream(
        self, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.SynthesizeStream:
        return _Written(tts=self, conn_options=conn_options)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def speak(self, text: Text, emitter: tts.AudioEmitter) -> None:
        """Speak a text into an emitter; being cancelled stops the server. Raises APIError."""
        try:
            async with self._client.speak(text, **self._options) as speech:
                end = 0  # of the text whose time is known
                end_s = 0.0
                async for audio in speech:
                    for word in audio.words:
                        said = speech.text[end : word.char_end]
                        end, end_s = word.char_end, word.end_ms / 1000
                        emitter.push_timed_transcript(TimedString(said, word.start_ms / 1000, end_s))
                    emitter.push(audio.pcm)
                if speech.text[end:]:
                    emitter.push_timed_transcript(TimedString(speech.text[end:], end_s, end_s))
        except (ConnectionLost, OSError) as error:
            raise APIConnectionError(str(error)) from error
        except FirstwordError as error:
            raise APIError(error.message, retryable=error.code in PASSING) from error


class _Whole(tts.ChunkedStream):
    _tts: TTS

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        _initialize(output_emitter, self._tts, is_stream=False)
        await self._tts.speak(self._input_text, output_emitter)
        output_emitter.flush()


class _Written(tts.SynthesizeStream):
    _tts: TTS

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        """Speak up to the first flush behind a text: the framework has one segment in a stream."""
        _initialize(output_emitter, self._tts, is_stream=True)
        async for first in self._input_ch:
            if isinstance(first, str):
                self._mark_started()
                output_emitter.start_segment(segment_id=utils.shortuuid())
                await self._tts.speak(self._segment(first), output_emitter)
                output_emitter.end_segment()
                return

    async def _segment(self, first: str) -> AsyncIterator[str]:
        yield first
        async for piece in self._input_ch:
            if not isinstance(piece, str):
                return
            yield piece


def _initialize(emitter: tts.AudioEmitter, voice: TTS, is_stream: bool) -> None:
    emitter.initialize(
        request_id=utils.shortuuid(),
        sample_rate=voice.sample_rate,
        num_channels=CHANNELS,
        mime_type="audio/pcm",
        stream=is_stream,
    )
