"""What the engine takes and gives. Imports neither torch nor HTTP."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol

from firstword.app.audio.dsp import Samples
from firstword.app.errors import CancelReason, TextTooLong, Wire
from firstword.app.telemetry.stream_record import StreamStats

Mode = Literal["whole", "continuous", "segments"]


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """What one stream is asked for.

    mode: "whole": all text is pushed before the first audio is wanted, and is spoken segment by segment;
    "segments": text comes in pieces, a sentence is spoken as soon as it is whole; "continuous": text comes
    in pieces and is fed to one running utterance.
    """

    request_id: str
    wire: Wire
    mode: Mode = "whole"
    speaker: str | None = None  # None: the default one
    language: str | None = None  # None: found for each segment
    instruct: str | None = None
    seed: int | None = None
    normalize: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    samples: Samples  # at the stream's sample rate


@dataclass(frozen=True, slots=True)
class Flushed:
    """All that was pushed before a flush has been given out as audio."""


StreamEvent = Audio | Flushed


class SynthesisStream(Protocol):
    """One turn of speech: text goes in, events come out. Used within one event loop.

    `async with` owns it: leaving it early, or by an error, cancels and frees everything at once.
    """

    request: SynthesisRequest
    speaker: str  # its name, the default filled in
    sample_rate_hz: int
    stats: StreamStats

    async def __aenter__(self) -> "SynthesisStream": ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def push_text(self, text: str) -> None:
        """Adds to the text exactly as given. Never waits.

        Raises TextTooLong past the limit of a stream. Text that nobody can speak is refused by
        `finish_text`.
        """
        ...

    def flush(self) -> None:
        """Speak to its end what has come; a Flushed follows its last audio."""
        ...

    def finish_text(self) -> None:
        """No more text. Raises InvalidRequest(param="text") if nothing that can be spoken ever came."""
        ...

    def cancel(self, reason: CancelReason) -> None:
        """Stops at once and frees everything; iteration ends. Does nothing on an ended stream."""
        ...

    def spoken_text(self, num_samples: int) -> str:
        """The part of the text that the first `num_samples` samples say, up to a whole word."""
        ...

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Raises TtsError where the stream fails. Pauses the stream while nobody takes from it."""
        ...


@dataclass(frozen=True, slots=True)
class EngineInfo:
    checkpoint: str  # its name, no path
    backend: str
    sample_rate_hz: int
    default_speaker: str
    can_continue_text: bool  # mode "continuous"
    takes_instruct: bool
    languages: tuple[str, ...]
    max_text_chars: int  # of one stream

    def check_length(self, num_characters: int, param: str = "text") -> None:
        """Raises TextTooLong. param: the field that the text came in."""
        if num_characters > self.max_text_chars:
            raise TextTooLong(
                f"the text has {num_characters} characters, at most {self.max_text_chars} can be spoken at "
                "once; send it in several requests",
                param,
            )


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """is_ready: warm and admitting. Else `reason` says in one line why not."""

    is_ready: bool
    reason: str = ""


class Engine(Protocol):
    @property
    def info(self) -> EngineInfo: ...

    @property
    def max_streams(self) -> int:
        """How many speak at once; more of them wait."""
        ...

    @property
    def status(self) -> EngineStatus: ...

    async def open(self, request: SynthesisRequest) -> SynthesisStream:
        """Waits for a place. The caller enters the stream (`async with`) at once.

        Raises Overloaded, Draining, SpeakerNotFound, and InvalidRequest for what the checkpoint cannot do.
        """
        ...

    async def drain(self, timeout_s: float) -> None:
        """Admits nobody more, lets the streams finish, then ends the rest with an error they can see."""
        ...
