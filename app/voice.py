"""A voice by itself for ordinary code: an `AsyncVoice` in a thread with an event loop of its own."""

from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from anyio.from_thread import start_blocking_portal

from firstword.app.async_voice import AsyncVoice, Recording, Text, VoiceOptions, check_text
from firstword.app.audio.dsp import Samples
from firstword.app.core.interface import Audio
from firstword.app.events import Anomaly
from firstword.app.options import BUILTIN_CHECKPOINT, BackendChoice, DeviceChoice, PrecisionChoice
from firstword.app.speakers.interface import PreparedSpeaker

Result = TypeVar("Result")


class Voice:
    """A voice in this process. `with Voice.open() as voice:` frees everything at its end.

    The networks run in threads of their own; any thread may call, several at once.
    """

    def __init__(self, voice: AsyncVoice) -> None:
        """Load and warm up, in a thread with an event loop of its own."""
        self._async = voice
        self._is_closed = False
        self._unfinished: set[AsyncGenerator[Any, None]] = set()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(voice))
            self._stack = stack.pop_all()

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
        """Load the built-in voice or the model directory of a CosyVoice 1, 2 or 3, and warm up.

        Raises CheckpointError for a directory that is no such checkpoint, BackendError and InvalidOptions
        for what this machine cannot run.
        """
        return cls(
            AsyncVoice.open(
                checkpoint,
                backend=backend,
                device=device,
                precision=precision,
                default_speaker=default_speaker,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        of_async = repr(self._async).removeprefix(f"<{type(self._async).__name__}")
        return f"<{type(self).__name__}{of_async}".replace("not open", "closed")

    def close(self) -> None:
        """End what still speaks; threads, processes and the event loop are gone on return."""
        if self._is_closed:
            return
        self._is_closed = True
        for pieces in list(self._unfinished):
            with suppress(RuntimeError):  # another thread waits for its next piece, and gets an error
                self._portal.call(pieces.aclose)
        self._stack.close()

    @property
    def sample_rate_hz(self) -> int:
        """The rate of all samples that this voice makes."""
        return self._opened.sample_rate_hz

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers."""
        voice = self._opened
        return self._portal.call(lambda: voice.speakers)

    @property
    def anomalies(self) -> Mapping[Anomaly, int]:
        """The number of utterances that went wrong since it was opened, by kind, as in the metric."""
        return self._opened.anomalies

    @overload
    def speak(
        self, text: Text, *, stream: Literal[True] = True, speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> Iterator[Samples]: ...

    @overload
    def speak(
        self, text: Text, *, stream: Literal[False], speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> Samples: ...

    def speak(
        self, text: Text, *, stream: bool = True, speed: float = 1.0, **voice: Unpack[VoiceOptions]
    ) -> Iterator[Samples] | Samples:
        """Speak a text: float32 samples (n,) within ±1, in pieces as they are made; stream False: in one.

        text: an iterable of pieces, as another model writes them, is spoken while it still comes. speed: 0.5
        to 2, at the same pitch. speaker: a
        name of `speakers`; None: the default one. reference: a recording of 1 to 30 s whose voice is taken
        instead, or what `prepare` made of it; transcript: what is said in it, word for word. mode: zero_shot,
        cross_lingual, instruct or sft; None: what fits the speaker. instruct: how to say it, for a checkpoint
        trained with instructions. language: such as en or English; None: found for each segment. normalize
        False: the text has its numbers and symbols in words already. The same seed says it the same way
        again; None: a new one each time. options: further fields of `POST /tts`, from `marks` to `volume`.
        context "full": each segment is solved at once, and its samples come when it is whole.

        Raises TypeError for what is no text, InvalidRequest for a text without words or what the checkpoint
        cannot do, SpeakerNotFound, BadAudio, and SynthesisFailed.
        """
        check_text(text, takes_async=False)
        if not stream:
            return self._await(self._opened.speak(text, stream=False, speed=speed, **voice))
        return self._iterate(self._opened.speak(text, speed=speed, **voice))

    def timed(self, text: Text, *, speed: float = 1.0, **voice: Unpack[VoiceOptions]) -> Iterator[Audio]:
        """Speak a text as `speak` does; with the samples come the words that ended in them.

        Each has its place in the text, and from which to which sample of the stream it sounds.
        """
        check_text(text, takes_async=False)
        return self._iterate(self._opened.timed(text, speed=speed, **voice))

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

    def save(
        self,
        path: str | Path,
        speech: str | Samples | PreparedSpeaker,
        *,
        speed: float = 1.0,
        **voice: Unpack[VoiceOptions],
    ) -> None:
        """Write a text, spoken as `speak` does with the same arguments, or samples into a file.

        The suffix is the format: .wav, .flac, .mp3, .opus, .ogg (Opus too), .aac, .m4a, .pcm. A prepared
        speaker becomes a .safetensors file, which `load` reads and a server imports. Raises ValueError for
        another suffix, and OSError where no file can be.
        """
        self._await(self._opened.save(path, speech, speed=speed, **voice))

    def load(self, path: str | Path) -> PreparedSpeaker:
        """Read a prepared speaker that `save` or a server's export wrote.

        Raises InvalidRequest for another file, and SpeakerIncompatible for a speaker of another checkpoint.
        """
        return self._await(self._opened.load(path))

    @property
    def _opened(self) -> AsyncVoice:
        if self._is_closed:
            raise RuntimeError("the voice is closed; open another one")
        return self._async

    def _iterate(self, pieces: AsyncGenerator[Result, None]) -> Iterator[Result]:
        self._unfinished.add(pieces)
        try:
            while self._opened and (piece := self._await(anext(pieces, None))) is not None:
                yield piece
        finally:
            self._unfinished.discard(pieces)
            if not self._is_closed:
                self._portal.call(pieces.aclose)

    def _await(self, work: Awaitable[Result]) -> Result:
        async def run() -> Result:
            return await work

        return self._portal.call(run)
