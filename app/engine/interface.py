"""The engine as the API sees it: a request goes in, a stream of audio comes out."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.errors import CancelReason, TextTooLong, Wire
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.telemetry.stream_record import StreamStats

Mode = Literal["whole", "continuous", "segments"]


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """What one stream speaks, and how.

    mode: "whole": `text` is all of it, spoken segment by segment; "segments": text is pushed in pieces, a
    sentence is spoken as soon as it is whole; "continuous": text is pushed in pieces to one running
    utterance.
    """

    request_id: str
    wire: Wire
    mode: Mode = "whole"
    text: str | None = None  # None: it is pushed
    speaker: str | None = None  # None: the default one
    language: str | None = None  # None: detected for each segment
    instruct: str | None = None
    seed: int | None = None
    normalize: bool = True

    def __post_init__(self) -> None:
        assert (self.text is not None) == (self.mode == "whole"), "a whole text comes with its request"


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    samples: Samples  # at the stream's sample rate


@dataclass(frozen=True, slots=True)
class Flushed:
    """All text before a flush has been spoken."""


StreamEvent = Audio | Flushed


class SynthesisStream(Protocol):
    """One stream, which takes text from the first. Used within one event loop.

    `async with` waits for its speaker and for a slot, and then owns it: leaving it early, or by an error,
    cancels and frees everything at once. Before it is entered it holds nothing but its text. It ends
    without any audio where nothing in its text can be spoken, and only there.
    """

    request: SynthesisRequest
    speaker: str  # its name, the default filled in
    sample_rate_hz: int
    stats: StreamStats

    async def __aenter__(self) -> "SynthesisStream":
        """Raise Overloaded, Draining, Restarting, and SpeakerNotFound for a speaker that is not there now."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def push_text(self, text: str) -> None:
        """Add to the text, exactly as given. Never waits. Raises TextTooLong past the limit of a stream."""
        ...

    def flush(self) -> None:
        """Speak all text that has come to its end; a Flushed follows its last audio."""
        ...

    def finish_text(self) -> None:
        """End the text; a whole text of the request has ended already."""
        ...

    def cancel(self, reason: CancelReason) -> None:
        """Stop at once, or stop waiting, and free everything; iteration ends. An ended stream stays so."""
        ...

    def spoken_text(self, num_samples: int) -> str:
        """Return the part of the text that the first `num_samples` samples speak, up to a whole word."""
        ...

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Raise TtsError where the stream fails. The stream pauses while nobody takes from it."""
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

    def check_length(self, num_characters: int) -> None:
        """Raise TextTooLong past the limit of a stream."""
        if num_characters > self.max_text_chars:
            raise TextTooLong(
                f"the text has {num_characters} characters, at most {self.max_text_chars} can be spoken at "
                "once; send it in several requests",
                "text",
            )


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """is_ready: warm and admitting. Else `reason` says in one line why not."""

    is_ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SpeechPrompt:
    """What the flow takes of a reference recording."""

    tokens: NDArray[np.int64]  # (L,) speech tokens
    mel: NDArray[np.float32]  # (2 L, 80)
    embedding: NDArray[np.float32]  # (192,)


class TokenSession(Protocol):
    """Speech tokens to sound, one request after the other; it holds a slot of the engine until closed."""

    async def step(self, tokens: Sequence[int], is_last: bool, deadline_s: float) -> NDArray[np.float32]:
        """Return what new tokens add: samples (n,), or mel frames (80, n) where the stages are apart.

        Raises InvalidRequest for a token that the flow does not know, and SynthesisFailed.
        """
        ...

    def close(self) -> None: ...


class Stages(Protocol):
    """The networks of a checkpoint one by one, for those who put them together themselves."""

    @property
    def family(self) -> str:
        """cosyvoice1, cosyvoice2 or cosyvoice3."""
        ...

    @property
    def gives_mel(self) -> bool:
        """Whether a TokenSession gives mel frames, which `vocode` turns into samples."""
        ...

    @property
    def lookahead_tokens(self) -> int: ...

    @property
    def chunk_tokens(self) -> int: ...

    async def speaker(self, samples: Samples, sample_rate_hz: int, transcript: str) -> PreparedSpeaker:
        """Read a reference recording; the last ones are kept. Raises BadAudio and kin, Overloaded."""
        ...

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int) -> list[int]: ...

    async def embedding(self, samples: Samples, sample_rate_hz: int) -> NDArray[np.float32]: ...

    async def open_tokens(self, prompt: SpeechPrompt | None, first_hop_tokens: int | None) -> TokenSession:
        """Wait for a slot. prompt None: the default speaker's.

        Raises InvalidRequest for a prompt that no recording gives, Overloaded and Draining.
        """
        ...

    async def vocode(self, mel: NDArray[np.float32], is_last: bool) -> Samples:
        """mel (80, n), from the start of an utterance. Without is_last the end is withheld."""
        ...


class Engine(Protocol):
    @property
    def info(self) -> EngineInfo: ...

    @property
    def max_streams(self) -> int:
        """How many run at once; more of them wait."""
        ...

    @property
    def status(self) -> EngineStatus: ...

    def open(self, request: SynthesisRequest, prepared: PreparedSpeaker | None = None) -> SynthesisStream:
        """Check the request and return its stream. Waits for nothing: entering the stream does.

        prepared: a speaker that is not registered, instead of the one that the request names.

        Raises SpeakerNotFound, TextTooLong, and InvalidRequest for what the checkpoint cannot do.
        """
        ...

    async def drain(self, timeout_s: float) -> None:
        """Admit no more streams, let the running ones finish, then end the rest with an error they see."""
        ...
