"""What the engine takes and gives, and everything that can go wrong. Knows no torch and no HTTP.

TtsError
├── InvalidRequest          a value that cannot be served; `param` names the field
│   └── TextTooLong
├── SpeakerNotFound
├── SpeakerExists
├── SpeakerIncompatible     made with another checkpoint
├── BadAudio                an upload that is no usable recording
│   ├── AudioTooShort
│   └── AudioTooLong
├── UploadTooLarge
├── Refused                 come again in `retry_after_s`
│   ├── RateLimited
│   ├── Overloaded
│   ├── Restarting          a part of the engine died and is started again
│   └── Draining
├── StreamTimeout           nothing came, or nothing was taken, for too long
└── SynthesisFailed         our own fault
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol

from app.audio.pcm import Samples

Mode = Literal["whole", "continuous", "segments"]
CancelReason = Literal["client_cancel", "disconnect", "timeout", "slow_listener", "shutdown"]
Wire = Literal["http", "openai", "websocket", "cli"]


class TtsError(Exception):
    """`message` says what came, what was expected, what to do; it may be shown to the client."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(TtsError):
    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class TextTooLong(InvalidRequest):
    pass


class SpeakerNotFound(TtsError):
    pass


class SpeakerExists(TtsError):
    pass


class SpeakerIncompatible(TtsError):
    pass


class BadAudio(TtsError):
    pass


class AudioTooShort(BadAudio):
    pass


class AudioTooLong(BadAudio):
    pass


class UploadTooLarge(TtsError):
    pass


class Refused(TtsError):
    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        assert retry_after_s >= 1, retry_after_s
        self.retry_after_s = retry_after_s


class RateLimited(Refused):
    pass


class Overloaded(Refused):
    pass


class Restarting(Refused):
    def __init__(self, message: str, retry_after_s: int = 10) -> None:
        """retry_after_s: about a third of what a start takes."""
        super().__init__(message, retry_after_s)


class Draining(Refused):
    pass


class StreamTimeout(TtsError):
    pass


class SynthesisFailed(TtsError):
    pass


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


@dataclass(slots=True)
class StreamStats:
    """Counted by the engine while a stream lives. Times are seconds; compute is that of all stages."""

    characters: int = 0  # as given, before normalisation
    speech_tokens: int = 0
    audio_samples: int = 0  # given out
    queue_wait_s: float = 0.0
    compute_s: float = 0.0


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
