"""Text to audio without a server: the Python interface, over the same engine as the service.

`Synthesizer` for ordinary code; async_synthesizer.py has the one for code that runs in an event loop.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from firstword.app.async_synthesizer import (
    DEFAULT_MAX_STREAMS,
    AsyncSynthesizer,
    Recording,
    Text,
    VoiceOptions,
)
from firstword.app.audio.dsp import Samples
from firstword.app.core.interface import (
    Audio,
)
from firstword.app.options import (
    BUILTIN_CHECKPOINT,
    BackendChoice,
    DeviceChoice,
    PrecisionChoice,
)
from firstword.app.speakers.interface import PreparedSpeaker

Result = TypeVar("Result")


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

    def timed(self, text: Text, **voice: Unpack[VoiceOptions]) -> Iterator[Audio]:
        """Speak a text as `speak` does; with the samples come the words that ended in them.

        Each has its place in the text, and from which to which sample of the stream it sounds.
        """
        return self._iterate(self._opened.timed(text, **voice))

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

    def _iterate(self, pieces: AsyncGenerator[Result, None]) -> Iterator[Result]:
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
