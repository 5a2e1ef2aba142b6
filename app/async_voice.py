"""A voice by itself in an event loop: text to samples, without a store, limits or metrics."""

import asyncio
import contextvars
import logging
import math
import threading
import uuid
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    suppress,
)
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, Unpack, get_args, overload

import numpy as np

from firstword.app.audio.dsp import Samples, Tempo
from firstword.app.audio.files import check_place, format_of, write_file
from firstword.app.audio.formats import MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, anonymous_tags
from firstword.app.budget import WorkLimits
from firstword.app.clients import ANYBODY
from firstword.app.core.interface import Audio, SynthesisStream
from firstword.app.core.request import Delivery, FlowContext, Mode, SynthesisRequest, VoiceChoice, VoiceMode
from firstword.app.core.stream import check_converts
from firstword.app.core.transcript import TimedWord
from firstword.app.engine.voice_parts import OpenVoice, open_voice
from firstword.app.errors import InvalidRequest
from firstword.app.events import Anomaly, Event, WentWrong
from firstword.app.options import (
    BUILTIN_CHECKPOINT,
    BackendChoice,
    DeviceChoice,
    EngineOptions,
    LMEngineOptions,
    NetworkOptions,
    PrecisionChoice,
)
from firstword.app.speakers.enrolment import read_recording
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.speech_options import checked_options
from firstword.files import write_whole

Recording = str | Path | bytes | tuple[Samples, int]
"""A file's path, its content, or mono float32 samples within ±1 with their sample rate in Hz."""

Text = str | Iterable[str | None]
"""A whole text, or the pieces of one in the order in which they come; a piece that is None is skipped."""

AsyncText = Text | AsyncIterable[str | None]
"""The pieces may come from an async iterable too."""


class VoiceOptions(TypedDict, total=False):
    """Options of a text's voice; `Voice.speak` says what each means."""

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


SPEAKER_SUFFIX: Final = ".safetensors"
UNLIMITED: Final = WorkLimits(max_text_chars=1_000_000, max_pauses_s=math.inf, max_audio_s=math.inf)
"""Nobody but the program itself asks a voice that it has opened."""
_log = logging.getLogger(__name__)


class AsyncVoice:
    """Speaks in the event loop that enters it; `async with` loads the networks and frees everything.

    Its methods are those of `Voice`, which documents them; it also takes text from async iterables.
    """

    def __init__(
        self,
        networks: NetworkOptions,
        engine: EngineOptions | None = None,
        lm_engines: LMEngineOptions | None = None,
        *,
        limits: WorkLimits = UNLIMITED,
        default_speaker: str | None = None,
    ) -> None:
        self._networks = networks
        self._engine = engine or EngineOptions()
        self._limits = limits
        self._lm_engines = lm_engines or LMEngineOptions()
        self._default_speaker = default_speaker
        self._anomalies: Counter[Anomaly] = Counter(dict.fromkeys(get_args(Anomaly), 0))
        self._stack = AsyncExitStack()
        self._voice: OpenVoice | None = None  # None: not entered

    @classmethod
    def open(
        cls,
        checkpoint: str | Path = BUILTIN_CHECKPOINT,
        *,
        backend: BackendChoice = "auto",
        device: DeviceChoice = "auto",
        precision: PrecisionChoice = "auto",
        default_speaker: str | None = None,
    ) -> Self:
        """Nothing is loaded before it is entered. Arguments and errors are those of `Voice.open`."""
        return cls(network_options(checkpoint, backend, device, precision), default_speaker=default_speaker)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._voice = await stack.enter_async_context(self._opening())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._voice = None
        await self._stack.aclose()

    def __repr__(self) -> str:
        state = "not open"
        if self._voice is not None:
            state = f"{len(self.speakers)} speakers, {self.sample_rate_hz} Hz"
        return f"<{type(self).__name__} {self._networks.checkpoint.name}: {state}>"

    @property
    def sample_rate_hz(self) -> int:
        return self._opened.info.sample_rate_hz

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(speaker.name for speaker in self._opened.speakers.list(ANYBODY))

    @property
    def anomalies(self) -> Mapping[Anomaly, int]:
        return self._anomalies

    @asynccontextmanager
    async def stream(
        self,
        text: AsyncText,
        *,
        wants_words: bool = False,
        speed: float = 1.0,
        **voice: Unpack[VoiceOptions],
    ) -> AsyncIterator[SynthesisStream]:
        """The stream of `speak`, which also tells what was spoken and what it cost.

        speed: at which its samples will be heard, so how urgent they are; they are not changed.
        """
        check_text(text, takes_async=True)
        check_speed(speed)
        async with self._opened.open(await self._request(text, wants_words, speed, voice)) as stream:
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
        self,
        text: AsyncText,
        *,
        stream: Literal[True] = True,
        speed: float = 1.0,
        **voice: Unpack[VoiceOptions],
    ) -> AsyncGenerator[Samples, None]: ...

    @overload
    def speak(
        self, text: AsyncText, *, stream: Literal[False], speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> Coroutine[Any, Any, Samples]: ...

    def speak(
        self, text: AsyncText, *, stream: bool = True, speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Samples, None] | Coroutine[Any, Any, Samples]:
        check_text(text, takes_async=True)
        pieces = self._pieces(text, speed, **voice)
        return pieces if stream else _whole(pieces)

    def timed(
        self, text: AsyncText, *, speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Audio, None]:
        check_text(text, takes_async=True)
        return self._audio(text, speed, wants_words=True, **voice)

    async def prepare(self, recording: Recording, transcript: str = "") -> PreparedSpeaker:
        networks = self._opened.networks

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
        voice = self._opened
        prepared = await self._prepared_reference(speaker, reference, "")
        check_converts(prepared or await voice.speakers.prepared(speaker, ANYBODY))

        def source_tokens() -> list[int]:
            return voice.networks.read_source_tokens(*read_recording(recording))

        request = SynthesisRequest(
            request_id=uuid.uuid4().hex,
            wire="cli",
            mode="tokens",
            speech=tuple(await asyncio.to_thread(source_tokens)),
            voice=VoiceChoice(speaker, prepared),
            seed=seed,
            client=ANYBODY,
        )
        async with voice.open(request) as stream:
            return np.concatenate([event.samples async for event in stream if isinstance(event, Audio)])

    async def save(
        self,
        path: str | Path,
        speech: str | Samples | PreparedSpeaker,
        *,
        speed: float = 1.0,
        **voice: Unpack[VoiceOptions],
    ) -> None:
        path = Path(path)
        if isinstance(speech, PreparedSpeaker):
            if path.suffix.lower() != SPEAKER_SUFFIX:
                raise ValueError(f"{path}: a prepared speaker is saved as {SPEAKER_SUFFIX}")
            check_place(path)
            content = await asyncio.to_thread(self._opened.networks.bundle_of, speech, path.stem)
            await asyncio.to_thread(write_whole, path, content)
            return
        format_of(path)
        check_place(path)
        check_speed(speed)
        if not isinstance(speech, str | np.ndarray):
            raise TypeError(
                f"speech is {type(speech).__name__}; expected a text, samples or a prepared speaker"
            )
        samples = await _whole(self._pieces(speech, **voice)) if isinstance(speech, str) else speech
        await asyncio.to_thread(write_file, path, samples, self.sample_rate_hz, speed, anonymous_tags())

    async def load(self, path: str | Path) -> PreparedSpeaker:
        networks = self._opened.networks
        return await asyncio.to_thread(lambda: networks.prepared_from(Path(path).read_bytes()))

    @property
    def _opened(self) -> OpenVoice:
        if self._voice is None:
            raise RuntimeError("the voice is not open; use it within its `with` block")
        return self._voice

    def _opening(self) -> AbstractAsyncContextManager[OpenVoice]:
        return open_voice(
            self._networks,
            self._engine,
            self._lm_engines,
            limits=self._limits,
            default_speaker=self._default_speaker,
            on_event=self._count,
        )

    def _count(self, event: Event) -> None:
        if isinstance(event, WentWrong):
            self._anomalies[event.kind] += 1

    async def _request(
        self, text: AsyncText, wants_words: bool, speed: float, voice: VoiceOptions
    ) -> SynthesisRequest:
        speaker = voice.get("speaker")
        prepared = await self._prepared_reference(
            speaker, voice.get("reference"), voice.get("transcript", "")
        )
        fields = checked_options(voice.get("options") or {})
        in_pieces: Mode = "continuous" if self._opened.info.can_continue_text else "segments"
        normalizes = voice.get("normalize", True) and fields.normalize
        return SynthesisRequest(
            request_id=uuid.uuid4().hex,
            wire="cli",
            mode="whole" if isinstance(text, str) else in_pieces,
            text=text if isinstance(text, str) else None,
            voice=VoiceChoice(
                speaker, prepared, voice.get("mode"), voice.get("instruct"), voice.get("language")
            ),
            reading=replace(fields.reading, normalize=normalizes),
            sampling=fields.sampling,
            seed=voice.get("seed"),
            delivery=Delivery(fields.volume, voice.get("context", "chunks"), wants_words, speed=speed),
            client=ANYBODY,
        )

    async def _prepared_reference(
        self, speaker: str | None, reference: Recording | PreparedSpeaker | None, transcript: str
    ) -> PreparedSpeaker | None:
        if not isinstance(speaker, str | None):
            hint = ", which goes into `reference`" if isinstance(speaker, PreparedSpeaker) else ""
            raise TypeError(f"speaker is {type(speaker).__name__}{hint}; expected the name of a speaker")
        if reference is None:
            return None
        if speaker is not None:
            raise ValueError("speaker and reference were both given; give one of them")
        if isinstance(reference, PreparedSpeaker):
            networks = self._opened.networks
            return networks.with_transcript(reference, transcript) if transcript else reference
        return await self.prepare(reference, transcript)

    async def _pieces(
        self, text: AsyncText, speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Samples, None]:
        async with aclosing(self._audio(text, speed, **voice)) as pieces:
            async for audio in pieces:
                yield audio.samples

    async def _audio(
        self, text: AsyncText, speed: float, wants_words: bool = False, **voice: Unpack[VoiceOptions]
    ) -> AsyncGenerator[Audio, None]:
        has_audio = False
        async with self.stream(text, wants_words=wants_words, speed=speed, **voice) as stream:
            tempo = None if speed == 1 else TimedTempo(speed, self.sample_rate_hz)
            async for event in stream:
                if isinstance(event, Audio) and len(event.samples):
                    has_audio = True
                    audio = event if tempo is None else tempo.feed(event)
                    if len(audio.samples):
                        yield audio
        if not has_audio:
            raise InvalidRequest("the text has nothing that can be spoken; give at least one word", "text")
        if tempo is not None:
            yield tempo.finish()


class TimedTempo:
    """Changes the speed of `Audio` as it comes. A word is given out with the samples in which it ends."""

    def __init__(self, speed: float, sample_rate_hz: int) -> None:
        self._speed = speed
        self._tempo = Tempo(speed, sample_rate_hz)
        self._words: list[TimedWord] = []  # whose end has not been given out
        self._num_samples = 0  # given out

    def feed(self, audio: Audio) -> Audio:
        self._words += [self._timed(word) for word in audio.words]
        return self._given(self._tempo.feed(audio.samples))

    def finish(self) -> Audio:
        """Return the rest, once and last."""
        rest = self._given(self._tempo.finish())
        return Audio(rest.samples, [*rest.words, *self._words])

    def _timed(self, word: TimedWord) -> TimedWord:
        return replace(word, start=int(word.start / self._speed), end=int(word.end / self._speed))

    def _given(self, samples: Samples) -> Audio:
        self._num_samples += len(samples)
        ended: Sequence[TimedWord] = [word for word in self._words if word.end <= self._num_samples]
        self._words = self._words[len(ended) :]
        return Audio(samples, ended)


async def _whole(pieces: AsyncGenerator[Samples, None]) -> Samples:
    async with aclosing(pieces):
        return np.concatenate([piece async for piece in pieces])


def network_options(
    checkpoint: str | Path, backend: BackendChoice, device: DeviceChoice, precision: PrecisionChoice
) -> NetworkOptions:
    return NetworkOptions(Path(checkpoint).expanduser(), backend=backend, device=device, precision=precision)


def check_speed(speed: float) -> None:
    """Raise ValueError for a speed at which speech is hard to follow."""
    if not MIN_CLEAR_SPEED <= speed <= MAX_CLEAR_SPEED:
        raise ValueError(f"speed is {speed}; expected {MIN_CLEAR_SPEED:g} to {MAX_CLEAR_SPEED:g}")


def check_text(text: object, takes_async: bool) -> None:
    """Raise TypeError for what is neither a text nor the pieces of one."""
    if isinstance(text, AsyncIterable):
        if takes_async:
            return
        raise TypeError(
            f"text is {type(text).__name__}, an async iterable; speak it with AsyncVoice or AsyncSynthesizer"
        )
    if not isinstance(text, Iterable) or isinstance(text, bytes | bytearray | memoryview | np.ndarray):
        raise TypeError(f"text is {type(text).__name__}; expected a str or an iterable of str")


async def _push(pieces: Iterable[str | None] | AsyncIterable[str | None], stream: SynthesisStream) -> None:
    """Take the pieces as they come; if that fails, end the stream."""
    try:
        async with aclosing(_in_order(pieces)) as in_order:
            async for piece in in_order:
                if piece is None:  # as the deltas of some models are
                    continue
                if not isinstance(piece, str):
                    raise TypeError(f"a piece of the text is {type(piece).__name__}; expected str or None")
                stream.push_text(piece)
        stream.finish_text()
    except Exception:
        stream.cancel("disconnect")
        raise


async def _in_order(
    pieces: Iterable[str | None] | AsyncIterable[str | None],
) -> AsyncGenerator[str | None, None]:
    """Yield the pieces; those of an ordinary iterable are taken in threads, as one may be long in coming.

    Nobody waits for such a thread at the end: the piece may never come.
    """
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
        return
    iterator, loop = iter(pieces), asyncio.get_running_loop()

    def take(coming: asyncio.Future[list[str | None]]) -> None:
        set_outcome: Callable[[], object]
        try:
            set_outcome = partial(coming.set_result, [*islice(iterator, 1)])
        except BaseException as error:
            set_outcome = partial(coming.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: coming.done() or set_outcome())

    while True:
        coming = loop.create_future()
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(take, coming), name="text", daemon=True).start()
        if not (found := await coming):
            return
        yield found[0]
