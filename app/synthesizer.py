"""A voice with a store: the speakers that a service registered, and what was measured of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self, Unpack

from firstword.app.async_voice import UNLIMITED, AsyncText, AsyncVoice, VoiceOptions, network_options
from firstword.app.budget import WorkLimits
from firstword.app.core.interface import SynthesisStream
from firstword.app.engine.voice_parts import OpenVoice, open_voice
from firstword.app.options import (
    BUILTIN_CHECKPOINT,
    BackendChoice,
    DeviceChoice,
    EngineOptions,
    LMEngineOptions,
    NetworkOptions,
    PrecisionChoice,
    SpeakerOptions,
)
from firstword.app.voice import Voice

DEFAULT_MAX_STREAMS: Final = 4


class AsyncSynthesizer(AsyncVoice):
    """An `AsyncVoice` that knows registered speakers and speaks at most `max_streams` texts at once."""

    def __init__(
        self,
        networks: NetworkOptions,
        engine: EngineOptions,
        speakers: SpeakerOptions,
        lm_engines: LMEngineOptions | None = None,
        *,
        limits: WorkLimits = UNLIMITED,
        keeps_data: bool = True,
    ) -> None:
        """keeps_data False: there is no store, only the speakers that the checkpoint brings."""
        super().__init__(
            networks, engine, lm_engines, limits=limits, default_speaker=speakers.default_speaker
        )
        self._speaker_options = speakers
        self._keeps_data = keeps_data
        self._slots = asyncio.Semaphore(engine.max_streams or DEFAULT_MAX_STREAMS)

    @classmethod
    def open(
        cls,
        checkpoint: str | Path = BUILTIN_CHECKPOINT,
        *,
        backend: BackendChoice = "auto",
        device: DeviceChoice = "auto",
        precision: PrecisionChoice = "auto",
        default_speaker: str | None = None,
        data_dir: str | Path | None = None,
        max_streams: int = DEFAULT_MAX_STREAMS,
    ) -> Self:
        """Nothing is loaded before it is entered. Arguments and errors are those of `Synthesizer.open`."""
        if max_streams < 1:
            raise ValueError(f"max_streams is {max_streams}; expected 1 or more")
        speakers = SpeakerOptions(default_speaker=default_speaker)
        if data_dir is not None:
            speakers = replace(speakers, data_dir=Path(data_dir).expanduser())
        return cls(
            network_options(checkpoint, backend, device, precision),
            EngineOptions(max_streams=max_streams),
            speakers,
            keeps_data=data_dir is not None,
        )

    @asynccontextmanager
    async def stream(
        self,
        text: AsyncText,
        *,
        wants_words: bool = False,
        speed: float = 1.0,
        **voice: Unpack[VoiceOptions],
    ) -> AsyncIterator[SynthesisStream]:
        speaking = super().stream(text, wants_words=wants_words, speed=speed, **voice)
        async with self._slots, speaking as stream:
            yield stream

    @asynccontextmanager
    async def _opening(self) -> AsyncIterator[OpenVoice]:
        if not self._keeps_data:
            async with super()._opening() as voice:
                yield voice
            return
        async with open_voice(
            self._networks,
            self._engine,
            self._lm_engines,
            limits=self._limits,
            on_event=self._count,
            store=self._speaker_options,
        ) as voice:
            yield voice


class Synthesizer(Voice):
    """A `Voice` that knows registered speakers and speaks at most `max_streams` texts at once.

    `with Synthesizer.open() as synthesizer:` frees everything at its end.
    """

    @classmethod
    def open(
        cls,
        checkpoint: str | Path = BUILTIN_CHECKPOINT,
        *,
        backend: BackendChoice = "auto",
        device: DeviceChoice = "auto",
        precision: PrecisionChoice = "auto",
        default_speaker: str | None = None,
        data_dir: str | Path | None = None,
        max_streams: int = DEFAULT_MAX_STREAMS,
    ) -> Self:
        """Load the built-in voice or the model directory of a CosyVoice 1, 2 or 3, and warm up.

        data_dir: of registered speakers, as the service has one, and of models converted for vLLM; None:
        there are none, and nothing is kept. max_streams: texts spoken at once, more of them wait.

        Raises CheckpointError for a directory that is no such checkpoint, BackendError and InvalidOptions
        for what this machine cannot run.
        """
        return cls(
            AsyncSynthesizer.open(
                checkpoint,
                backend=backend,
                device=device,
                precision=precision,
                default_speaker=default_speaker,
                data_dir=data_dir,
                max_streams=max_streams,
            )
        )
