"""Text to audio without a server, for code that runs in an event loop."""

import asyncio
import logging
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, Unpack, overload

import numpy as np

from firstword.app.audio.dsp import Samples, to_pcm16
from firstword.app.audio.encode import write_file
from firstword.app.clients import ANYBODY
from firstword.app.core.interface import (
    Audio,
    FlowContext,
    Mode,
    SynthesisRequest,
    SynthesisStream,
    VoiceMode,
)
from firstword.app.engine.startup import RunningEngine, StartOptions, running_engine
from firstword.app.errors import InvalidRequest
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
from firstword.app.speakers.enrolment import read_recording
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.speech_options import checked_options
from firstword.app.telemetry.metrics import Metrics
from firstword.models.token2wav_step import StepInput

Recording = str | Path | bytes | tuple[Samples, int]
"""A file's path, its content, or mono float32 samples within ±1 with their sample rate in Hz."""

Text = str | Iterable[str]
"""A whole text, or the pieces of one in the order in which they come."""


class VoiceOptions(TypedDict, total=False):
    """Who speaks a text, and how; `Synthesizer.speak` says what each means."""

    speaker: str | None
    reference: Recording | PreparedSpeaker | None
    transcript: str
    mode: VoiceMode | None
    instruct: str | None
    language: str | None
    normalize: bool
    options: Mapping[str, object] | None
    seed: int | None
    context: FlowContext


DEFAULT_MAX_STREAMS: Final = 4
_ENDLESS_S: Final = 24 * 3600.0
_MAX_WAITING: Final = 1_000_000
_MAX_TEXT_CHARS: Final = 1_000_000
_log = logging.getLogger(__name__)
_SUFFIXES: Final = (".wav", ".flac", ".ogg", ".mp3")


class AsyncSynthesizer:
    """Speaks in the event loop that enters it; `async with` loads the networks and frees everything.

    Its methods are those of `Synthesizer`, which documents them.
    """

    def __init__(
        self,
        networks: NetworkOptions,
        engine: EngineOptions,
        speakers: SpeakerOptions,
        lm_engines: LMEngineOptions | None = None,
        *,
        keeps_data: bool = True,
    ) -> None:
        """keeps_data: False works in a temporary directory instead of `speakers.data_dir`."""
        self._options = networks, engine
        self._speaker_options = speakers
        self._lm_options = lm_engines or LMEngineOptions()
        self._keeps_data = keeps_data
        self._metrics = Metrics()
        self._stack = AsyncExitStack()
        self._running: RunningEngine | None = None

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
        networks = NetworkOptions(
            Path(checkpoint).expanduser(), backend=backend, device=device, precision=precision
        )
        engine = EngineOptions(
            max_streams=max_streams,
            max_queued=_MAX_WAITING,
            queue_timeout_s=_ENDLESS_S,
            max_text_chars=_MAX_TEXT_CHARS,
        )
        speakers = SpeakerOptions(default_speaker=default_speaker)
        if data_dir is not None:
            speakers = replace(speakers, data_dir=Path(data_dir).expanduser())
        return cls(networks, engine, speakers, keeps_data=data_dir is not None)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            speakers = self._speaker_options
            if not self._keeps_data:
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="firstword-"))
                speakers = replace(speakers, data_dir=Path(directory))
            self._running = await stack.enter_async_context(
                running_engine(StartOptions(*self._options, speakers, self._lm_options), self._metrics)
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = None
        await self._stack.aclose()

    @property
    def sample_rate_hz(self) -> int:
        return self._engine.engine.info.sample_rate_hz

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(speaker.name for speaker in self._engine.speakers.list(ANYBODY))

    @property
    def anomalies(self) -> Mapping[str, int]:
        [family] = self._metrics.generation_anomalies.collect()
        totals = (sample for sample in family.samples if sample.name.endswith("_total"))
        return {sample.labels["kind"]: int(sample.value) for sample in totals}

    @asynccontextmanager
    async def stream(
        self,
        text: Text,
        *,
        speaker: str | None = None,
        reference: Recording | PreparedSpeaker | None = None,
        transcript: str = "",
        mode: VoiceMode | None = None,
        instruct: str | None = None,
        language: str | None = None,
        normalize: bool = True,
        seed: int | None = None,
        options: Mapping[str, object] | None = None,
        context: FlowContext = "chunks",
        wants_words: bool = False,
    ) -> AsyncIterator[SynthesisStream]:
        """The engine's own stream of `speak`, which also tells what was spoken and what it cost."""
        prepared = await self._prepared_reference(speaker, reference, transcript)
        fields = checked_options(options or {})
        engine = self._engine.engine
        in_pieces: Mode = "continuous" if engine.info.can_continue_text else "segments"
        request = SynthesisRequest(
            request_id=uuid.uuid4().hex,
            wire="cli",
            mode="whole" if isinstance(text, str) else in_pieces,
            text=text if isinstance(text, str) else None,
            speaker=speaker,
            language=language,
            instruct=instruct,
            seed=seed,
            voice_mode=mode,
            reading=replace(fields.reading, normalize=normalize and fields.normalize),
            sampling=fields.sampling,
            volume=fields.volume,
            context=context,
            wants_words=wants_words,
            client=ANYBODY,
        )
        async with engine.open(request, prepared) as stream:
            try:
                if isinstance(text, str):
                    yield stream
                    return
                pushing = asyncio.create_task(_push(text, stream))
                try:
                    yield stream
                finally:
                    pushing.cancel()
                    await asyncio.wait([pushing])
                    if not pushing.cancelled():
                        pushing.result()  # raises what the pieces raised
            finally:
                for warning in stream.stats.warnings:
                    _log.warning("%s", warning)

    @overload
    def speak(
        self, text: Text, *, stream: Literal[True] = True, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Samples, None]: ...

    @overload
    def speak(
        self, text: Text, *, stream: Literal[False], **voice: Unpack[VoiceOptions]
    ) -> Coroutine[Any, Any, Samples]: ...

    def speak(
        self, text: Text, *, stream: bool = True, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Samples, None] | Coroutine[Any, Any, Samples]:
        return self._pieces(text, **voice) if stream else self._whole(text, **voice)

    async def prepare(self, recording: Recording, transcript: str = "") -> PreparedSpeaker:
        networks = self._engine.speaker_networks

        def prepared() -> PreparedSpeaker:
            samples, sample_rate_hz = read_recording(recording)
            features = networks.read_speaker(samples, sample_rate_hz)
            return networks.with_prompt_state(features, transcript)

        return await asyncio.to_thread(prepared)

    async def convert(
        self,
        recording: Recording,
        speaker: str | None = None,
        *,
        reference: Recording | PreparedSpeaker | None = None,
        seed: int = 0,
    ) -> Samples:
        running = self._engine
        target = await self._prepared_reference(speaker, reference, "")
        if target is None:
            target = await running.speakers.prepared(speaker, ANYBODY)
        if not target.features.has_prompt:
            raise InvalidRequest(
                "voice conversion needs a speaker with a recorded prompt and this one has none; name another "
                "speaker or give a reference",
                "speaker",
            )
        networks = running.speaker_networks

        def source_tokens() -> list[int]:
            samples, sample_rate_hz = read_recording(recording)
            return networks.read_source_tokens(samples, sample_rate_hz)

        tokens = await asyncio.to_thread(source_tokens)
        token2wav = running.networks.token2wav
        state = token2wav.start(target.prompt_state, seed)
        pieces: list[Samples] = []
        while tokens:
            num_tokens = max(1, token2wav.tokens_wanted(state))
            hop, tokens = tokens[:num_tokens], tokens[num_tokens:]
            wave = await running.pool.run(StepInput(state, hop, is_last=not tokens), time.perf_counter())
            pieces.append(wave.samples)
        return np.concatenate(pieces)

    async def save(self, path: str | Path, speech: str | Samples, **voice: Unpack[VoiceOptions]) -> None:
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in _SUFFIXES:
            raise ValueError(
                f"{path}: no format has the suffix {path.suffix!r}; use one of {', '.join(_SUFFIXES)}"
            )
        samples = await self._whole(speech, **voice) if isinstance(speech, str) else speech
        content = to_pcm16(samples) if suffix in (".wav", ".flac") else samples
        await asyncio.to_thread(write_file, path, content, self.sample_rate_hz)

    @property
    def _engine(self) -> RunningEngine:
        if self._running is None:
            raise RuntimeError("the synthesizer is not open; use it within its `with` block")
        return self._running

    async def timed(self, text: Text, **voice: Unpack[VoiceOptions]) -> AsyncGenerator[Audio, None]:
        async with aclosing(self._audio(text, wants_words=True, **voice)) as pieces:
            async for audio in pieces:
                yield audio

    async def _pieces(self, text: Text, **voice: Unpack[VoiceOptions]) -> AsyncGenerator[Samples, None]:
        async with aclosing(self._audio(text, **voice)) as pieces:
            async for audio in pieces:
                yield audio.samples

    async def _audio(
        self, text: Text, wants_words: bool = False, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Audio, None]:
        has_audio = False
        async with self.stream(text, wants_words=wants_words, **voice) as stream:
            async for event in stream:
                if isinstance(event, Audio) and len(event.samples):
                    has_audio = True
                    yield event
        if not has_audio:
            raise InvalidRequest("the text has nothing that can be spoken; give at least one word", "text")

    async def _whole(self, text: Text, **voice: Unpack[VoiceOptions]) -> Samples:
        async with aclosing(self._pieces(text, **voice)) as pieces:
            return np.concatenate([piece async for piece in pieces])

    async def _prepared_reference(
        self, speaker: str | None, reference: Recording | PreparedSpeaker | None, transcript: str
    ) -> PreparedSpeaker | None:
        if reference is None:
            return None
        if speaker is not None:
            raise ValueError("speaker and reference were both given; give one of them")
        if isinstance(reference, PreparedSpeaker):
            networks = self._engine.speaker_networks
            return networks.with_transcript(reference, transcript) if transcript else reference
        return await self.prepare(reference, transcript)


async def _push(pieces: Iterable[str], stream: SynthesisStream) -> None:
    """Take the pieces in threads, as one may be long in coming; if that fails, end the stream."""
    iterator = iter(pieces)
    try:
        while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
            stream.push_text(piece)
        stream.finish_text()
    except Exception:
        stream.cancel("disconnect")
        raise
