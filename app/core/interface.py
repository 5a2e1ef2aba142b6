"""The engine as surfaces see it: a request goes in, a stream of audio comes out. Free of torch."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import Watermark
from firstword.app.clients import Client
from firstword.app.core.request import EngineInfo, SynthesisRequest
from firstword.app.core.transcript import TimedWord, UtteranceTranscript, spoken_text
from firstword.app.errors import CancelReason
from firstword.app.events import StreamEvents
from firstword.app.telemetry.stream_stats import StreamStats


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """A piece of a stream. words: those that end in it, if they are wanted; in order, they never change."""

    samples: Samples  # at the stream's sample rate
    words: Sequence[TimedWord] = ()


@dataclass(frozen=True, slots=True)
class Flushed:
    """All text before a flush has been spoken."""


StreamEvent = Audio | Flushed


@dataclass(frozen=True, slots=True)
class ReadPart:
    """One part of a text as it is read: a segment, or a change between segments.

    source: the client's text. spoken, language, text_ids, marks: set for a segment. The others: set where
    they change.
    """

    source: str = ""
    spoken: str = ""
    language: str | None = None
    text_ids: tuple[int, ...] = ()
    marks: tuple[str, ...] = ()
    pause_s: float | None = None
    speaker: str | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class TextReport:
    parts: tuple[ReadPart, ...]
    warnings: tuple[str, ...]


class SynthesisStream(Protocol):
    """One stream, which takes text from the first. Used within one event loop.

    `async with` waits for its speaker and for a slot, and then owns it: leaving it early, or by an error,
    cancels and frees everything at once. Before it is entered it holds nothing but its text. It ends
    without any audio where nothing in its text can be spoken, and only there.
    """

    request: SynthesisRequest
    sample_rate_hz: int
    stats: StreamStats
    watermark: Watermark | None  # that its samples have; a change of speed destroys it
    transcripts: list[UtteranceTranscript]  # of the utterances so far, by which `spoken_text` goes

    @property
    def speaker(self) -> str:
        """Its name, the default filled in; "" until the first audio where the text's language decides."""
        return self.stats.speaker

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
        return spoken_text(self.transcripts, num_samples, self.sample_rate_hz)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Raise TtsError where the stream fails. The stream pauses while nobody takes from it."""
        ...


@dataclass(frozen=True, slots=True)
class ListedTokens:
    """Speech tokens of one segment of a text, as they came."""

    segment: int
    source: str  # the segment's part of the text, as it was given
    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]  # by the language model's own distribution; None: vLLM tells none
    reason: str | None  # why the segment ended; None: it goes on
    warnings: tuple[str, ...] = ()  # of the whole text


NetworksState = Literal["loaded", "unloaded", "loading"]


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Whether an engine speaks. is_ready: warm and admitting. Else `reason` says in one line why not.

    failing_workers: background workers that failed and are started again; speech goes on without them.
    max_streams: that run at once, and what that is known from: a setting, a measurement, live streams.
    networks: with unloaded ones it is ready: the next request loads them.
    """

    is_ready: bool
    reason: str = ""
    failing_workers: tuple[str, ...] = ()
    max_streams: int = 0
    max_streams_from: str = ""
    networks: NetworksState = "loaded"


@dataclass(frozen=True, slots=True, eq=False)
class SpeechPrompt:
    """The features of a reference recording that the flow takes."""

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


MEL_FAMILIES: Final = frozenset({"cosyvoice3"})
"""Families with a flow and a vocoder that clients run one by one."""


class Stages(Protocol):
    """The networks of a checkpoint one by one, for those who put them together themselves."""

    @property
    def family(self) -> str:
        """cosyvoice1, cosyvoice2 or cosyvoice3."""
        ...

    @property
    def gives_mel(self) -> bool:
        """True if a TokenSession gives mel frames, which `vocode` turns into samples."""
        ...

    @property
    def lookahead_tokens(self) -> int: ...

    @property
    def chunk_tokens(self) -> int: ...

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int, client: Client) -> list[int]: ...

    async def embedding(
        self, samples: Samples, sample_rate_hz: int, client: Client
    ) -> NDArray[np.float32]: ...

    async def open_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None, client: Client
    ) -> TokenSession:
        """Wait for a slot. prompt None: the default speaker's.

        Raises InvalidRequest for a prompt that no recording gives, Overloaded and Draining.
        """
        ...

    async def vocode(self, mel: NDArray[np.float32], is_last: bool, deadline_s: float) -> Samples:
        """mel (80, n), from the start of an utterance. Without is_last the end is withheld."""
        ...


class Engine(Protocol):
    @property
    def info(self) -> EngineInfo: ...

    @property
    def max_streams(self) -> int:
        """The number of streams that run at once; more of them wait."""
        ...

    @property
    def status(self) -> EngineStatus: ...

    def open(self, request: SynthesisRequest, events: StreamEvents | None = None) -> SynthesisStream:
        """Check the request and return its stream. Waits for nothing: entering the stream does.

        events: those of the stream, with who subscribed to them; None: nobody but the engine.

        Raises SpeakerNotFound, TextTooLong, and InvalidRequest for what the checkpoint cannot do.
        """
        ...

    def list_tokens(self, request: SynthesisRequest) -> AsyncGenerator[ListedTokens]:
        """Check the request and give the speech tokens of its whole text, without audio; holds a slot.

        Raises as `open` does, and iterating as a stream does.
        """
        ...

    async def wait_for_free_slot(self) -> None:
        """Wait while streams that are not in the background take every slot."""
        ...

    async def read_text(self, request: SynthesisRequest) -> TextReport:
        """Read a whole text and speak nothing, without a slot. Raises as `open` does."""
        ...

    async def drain(self, timeout_s: float) -> None:
        """Admit no more streams, let the running ones finish, then end the rest with an error they see."""
        ...
