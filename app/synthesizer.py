"""Text to audio without a server: the Python interface, over the same engine as the service.

`Synthesizer` for ordinary code, `AsyncSynthesizer` for code that runs in an event loop.
"""

import asyncio
import logging
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, Unpack, overload

import numpy as np

from firstword.app.audio.dsp import Samples, to_pcm16
from firstword.app.audio.encode import write_file
from firstword.app.clients import ANYBODY
from firstword.app.engine.interface import (
    Audio,
    FlowContext,
    Mode,
    SynthesisRequest,
    SynthesisStream,
    VoiceMode,
)
from firstword.app.engine.startup import RunningEngine, running_engine
from firstword.app.errors import InvalidRequest
from firstword.app.options import (
    BUILTIN_CHECKPOINT,
    BackendChoice,
    DeviceChoice,
    EngineOptions,
    NetworkOptions,
    PrecisionChoice,
    SpeakerOptions,
    VllmOptions,
)
from firstword.app.speakers.enrolment import read_recording
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.speech_options import checked_options
from firstword.app.telemetry.metrics import Metrics
from firstword.app.voice_options import Recording, Text, VoiceOptions
from firstword.models.token2wav_step import StepInput

DEFAULT_MAX_STREAMS: Final = 4
_ENDLESS_S: Final = 24 * 3600.0
_MAX_WAITING: Final = 1_000_000
_MAX_TEXT_CHARS: Final = 1_000_000
_log = logging.getLogger(__name__)
_SUFFIXES: Final = (".wav", ".flac", ".ogg", ".mp3")

Result = TypeVar("Result")


class AsyncSynthesizer:
    """Speaks in the event loop that enters it; `async with` loads the networks and frees everything.

    Its methods are those of `Synthesizer`, which documents them.
    """

    def __init__(
        self,
        networks: NetworkOptions,
        engine: EngineOptions,
        speakers: SpeakerOptions,
        vllm: VllmOptions | None = None,
        *,
        keeps_data: bool = True,
    ) -> None:
        """keeps_data: False works in a temporary directory instead of `speakers.data_dir`."""
        self._options = networks, engine
        self._speaker_options = speakers
        self._vllm_options = vllm or VllmOptions()
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
                running_engine(*self._options, speakers, self._vllm_options, self._metrics)
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
            return networks.with_prompt_state(networks.read_features(samples, sample_rate_hz), transcript)

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

    async def _pieces(self, text: Text, **voice: Unpack[VoiceOptions]) -> AsyncGenerator[Samples, None]:
        has_audio = False
        async with self.stream(text, **voice) as stream:
            async for event in stream:
                if isinstance(event, Audio) and len(event.samples):
                    has_audio = True
                    yield event.samples
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


class Synthesizer:
    """Text to speech in this process. `with Synthesizer.open() as s:` frees everything at its end.

    The networks run in threads of their own; any thread may call, several at once.
    """

    def __init__(self, synthesizer: AsyncSynthesizer) -> None:
        """Loads and warms up, in a thread with an event loop of its own."""
        self._async = synthesizer
        self._is_closed = False
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run_loop, args=(started,), name="synthesizer", daemon=True
        )
        self._thread.start()
        try:
            self._loop, self._stop = started.result()
        except BaseException:
            self._thread.join()
            raise

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

        data_dir: of registered speakers, as the service has one, and of models converted for vLLM; None: a
        temporary one. max_streams: texts spoken at once, more of them wait.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what still speaks; threads, processes and the event loop are gone on return."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._stop.set)
        self._ended.result()
        self._thread.join()

    @property
    def sample_rate_hz(self) -> int:
        """Of all samples that this voice gives."""
        return self._opened.sample_rate_hz

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the built-in and the registered speakers."""
        return self._await(asyncio.to_thread(lambda synthesizer: synthesizer.speakers, self._opened))

    @property
    def anomalies(self) -> Mapping[str, int]:
        """How many utterances went wrong since it was opened, by kind, as the metric counts them."""
        return self._opened.anomalies

    @overload
    def speak(
        self, text: Text, *, stream: Literal[True] = True, **voice: Unpack[VoiceOptions]
    ) -> Iterator[Samples]: ...

    @overload
    def speak(self, text: Text, *, stream: Literal[False], **voice: Unpack[VoiceOptions]) -> Samples: ...

    def speak(
        self, text: Text, *, stream: bool = True, **voice: Unpack[VoiceOptions]
    ) -> Iterator[Samples] | Samples:
        """Speak a text: float32 samples (n,) within ±1, in pieces as they are made; stream False: in one.

        text: an iterable of pieces, as another model writes them, is spoken while it still comes. speaker: a
        name of `speakers`; None: the default one. reference: a recording of 1 to 30 s whose voice is taken
        instead, or what `prepare` made of it; transcript: what is said in it, word for word. mode: zero_shot,
        cross_lingual, instruct or sft; None: what fits the speaker. instruct: how to say it, for a checkpoint
        trained with instructions. language: such as en or English; None: found for each segment. normalize
        False: the text has its numbers and symbols in words already. The same seed says it the same way
        again; None: a new one each time. options: further fields of `POST /tts`, from `marks` to `volume`.
        context "full": each segment is solved at once, and its samples come when it is whole.

        Raises InvalidRequest for a text without words or what the checkpoint cannot do, SpeakerNotFound,
        BadAudio, and SynthesisFailed.
        """
        if not stream:
            return self._await(self._opened.speak(text, stream=False, **voice))
        return self._iterate(self._opened.speak(text, **voice))

    def prepare(self, recording: Recording, transcript: str = "") -> PreparedSpeaker:
        """Read a reference recording once, for several texts: `speak(text, reference=prepared)`."""
        return self._await(self._opened.prepare(recording, transcript))

    def convert(
        self,
        recording: Recording,
        speaker: str | None = None,
        *,
        reference: Recording | PreparedSpeaker | None = None,
        seed: int = 0,
    ) -> Samples:
        """Say what a recording of 1 to 30 s says, at its own pace, in another voice (voice conversion).

        Returns float32 samples (n,). Raises as `speak` does; the speaker must have a recorded prompt.
        """
        return self._await(self._opened.convert(recording, speaker, reference=reference, seed=seed))

    def save(self, path: str | Path, speech: str | Samples, **voice: Unpack[VoiceOptions]) -> None:
        """Write a text, spoken as `speak` does with the same arguments, or samples into a file.

        The suffix is the format: .wav, .flac, .ogg or .mp3. Raises ValueError for another.
        """
        self._await(self._opened.save(path, speech, **voice))

    @property
    def _opened(self) -> AsyncSynthesizer:
        if self._is_closed:
            raise RuntimeError("the synthesizer is closed; open another one")
        return self._async

    def _iterate(self, pieces: AsyncGenerator[Samples, None]) -> Iterator[Samples]:
        try:
            while self._opened and (piece := self._await(anext(pieces, None))) is not None:
                yield piece
        finally:
            if not self._is_closed:
                self._await(pieces.aclose())

    def _await(self, work: Coroutine[Any, Any, Result] | Awaitable[Result]) -> Result:
        async def run() -> Result:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _run_loop(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        async def run() -> None:
            stop = asyncio.Event()
            async with self._async:
                started.set_result((asyncio.get_running_loop(), stop))
                await stop.wait()

        try:
            asyncio.run(run())
        except BaseException as error:
            (self._ended if started.done() else started).set_exception(error)
        else:
            self._ended.set_result(None)


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
