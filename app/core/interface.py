"""The engine as the API sees it: a request goes in, a stream of audio comes out."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.clients import Client
from firstword.app.core.transcript import TimedWord
from firstword.app.errors import CancelReason, InvalidRequest, TextTooLong, Wire
from firstword.app.options import Sampling
from firstword.app.speakers.interface import SentRecording
from firstword.app.telemetry.stream_record import StreamStats
from firstword.app.telemetry.tracing import NO_TRACE, StreamTrace
from firstword.app.text.language import CODES, NAMES
from firstword.app.text.marks import Reading

READING: Final = Reading()
_ACCENTS_OF_TAGS = {"en-gb": "british"}
_TAG = re.compile(r"([a-z]{2,3})(?:-[a-z0-9]{1,8})*", re.ASCII)  # BCP 47, its usual part

Mode = Literal["whole", "continuous", "segments", "tokens"]
VoiceMode = Literal["zero_shot", "cross_lingual", "instruct", "sft"]
FlowContext = Literal["chunks", "full"]  # what the flow sees: as a stream does, or a whole utterance
MAX_SPEECH_TOKENS = 15_000  # of one stream that is given them: ten minutes


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """What one stream speaks, and how.

    mode: "whole": `text` is all of it, spoken segment by segment; "segments": text is pushed in pieces, a
    sentence is spoken as soon as it is whole; "continuous": text is pushed in pieces to one running
    utterance; "tokens": no text, but speech tokens or a recording to convert.
    """

    request_id: str
    wire: Wire
    mode: Mode = "whole"
    text: str | None = None  # None: it is pushed
    speaker: str | None = None  # None: the default one
    language: str | None = None  # None: detected for each segment
    instruct: str | None = None
    seed: int | None = None
    reference: SentRecording | None = None  # its voice is taken instead of a speaker's
    voice_mode: VoiceMode | None = None  # None: by the instruction and what the speaker has
    speech: SentRecording | tuple[int, ...] | None = None  # of mode "tokens"
    reading: Reading = READING
    sampling: Sampling | None = None
    volume: float = 1.0  # a factor of the amplitude
    is_played: bool = True  # while it comes; False: a file, which may wait and gives way to those that are
    is_background: bool = False  # an item of a batch: as long as it may be there, and behind all others
    trace: StreamTrace = NO_TRACE
    client: Client = field(kw_only=True)  # who asks; no default, so that no route can forget it
    pauses: frozenset[int] | None = None  # of the writer, of an earlier stream; None: as it pauses
    wants_words: bool = False  # with the times when each sounds
    context: FlowContext = "chunks"
    cache: bool | None = None  # whether finished audio may be kept and given again; None: with a seed

    def __post_init__(self) -> None:
        assert (self.text is not None) == (self.mode == "whole"), "a whole text comes with its request"
        assert (self.speech is not None) == (self.mode == "tokens"), "only mode tokens speaks without text"

    def with_lexicon(self, lexicon: Mapping[str, str]) -> "SynthesisRequest":
        """lexicon: its speaker's."""
        return replace(self, reading=replace(self.reading, speaker_lexicon=lexicon))

    def in_accent(self, accent: str) -> "SynthesisRequest":
        """accent: "" for the checkpoint's own."""
        return replace(self, reading=replace(self.reading, accent=accent))


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """words: those that end in it, where the request wants them; they are in order and never change."""

    samples: Samples  # at the stream's sample rate
    words: Sequence[TimedWord] = ()


@dataclass(frozen=True, slots=True)
class Flushed:
    """All text before a flush has been spoken."""


StreamEvent = Audio | Flushed


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What a text becomes, in order: a segment, or what changes between segments.

    source: the client's text. spoken, language, text_ids, marks: of a segment. The others: where they change.
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
class ListedTokens:
    """Speech tokens of one segment of a text, as they came."""

    segment: int
    source: str  # the segment's part of the text, as it was given
    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]  # by the language model's own distribution; None: vLLM tells none
    reason: str | None  # why the segment ended; None: it goes on
    warnings: tuple[str, ...] = ()  # of the whole text


@dataclass(frozen=True, slots=True)
class EngineInfo:
    checkpoint: str  # its name, no path
    backend: str
    sample_rate_hz: int
    default_speaker: str
    can_continue_text: bool  # mode "continuous"
    takes_instruct: bool
    languages: tuple[str, ...]  # ISO 639 codes
    max_text_chars: int  # of one stream
    voice_modes: tuple[VoiceMode, ...] = ("zero_shot", "cross_lingual", "instruct", "sft")
    num_speech_ids: int = 6561  # speech tokens are below it
    token_rate_hz: int = 25
    accents: tuple[str, ...] = ()  # beside its own

    def check_length(self, num_characters: int) -> None:
        """Raise TextTooLong past the limit of a stream."""
        if num_characters > self.max_text_chars:
            raise TextTooLong(
                f"the text has {num_characters} characters, at most {self.max_text_chars} can be spoken at "
                "once; send it in several requests",
                "text",
            )

    def check(self, request: SynthesisRequest) -> None:
        """Raise InvalidRequest for what the checkpoint cannot do."""
        mode = request.voice_mode
        if request.mode == "continuous" and not self.can_continue_text:
            raise InvalidRequest(
                f"{self.checkpoint} cannot speak while its text comes; use mode segments", "mode"
            )
        if request.instruct is not None and not self.takes_instruct:
            raise InvalidRequest(f"{self.checkpoint} takes no instructions; leave instruct out", "instruct")
        if request.reference is not None and request.speaker is not None:
            raise InvalidRequest("speaker and a reference recording were both given; give one", "speaker")
        if mode is not None and mode not in self.voice_modes:
            raise InvalidRequest(
                f"{self.checkpoint} has no mode {mode}; it has {', '.join(self.voice_modes)}", "voice_mode"
            )
        if mode is not None and (mode == "instruct") != (request.instruct is not None):
            given = "no instruct was given" if mode == "instruct" else "an instruct was given"
            raise InvalidRequest(
                f"mode {mode}, but {given}; mode instruct and the field instruct come together", "voice_mode"
            )
        if not isinstance(request.speech, tuple):
            return
        if not 1 <= len(request.speech) <= MAX_SPEECH_TOKENS:
            raise InvalidRequest(
                f"{len(request.speech)} speech tokens; expected 1 to {MAX_SPEECH_TOKENS}", "tokens"
            )
        foreign = next((id for id in request.speech if not 0 <= id < self.num_speech_ids), None)
        if foreign is not None:
            raise InvalidRequest(
                f"speech token {foreign}; {self.checkpoint} has 0 to {self.num_speech_ids - 1}", "tokens"
            )

    def language_of(self, given: str | None) -> str | None:
        """Return the code of a language by its code, tag or English name; None: it is to be detected.

        Raises InvalidRequest for one that is unknown or not spoken.
        """
        name = _language_name(given)
        if name == "auto":
            return None
        tag = _TAG.fullmatch(name)
        code = CODES.get(name) or (CODES.get(tag[1], tag[1]) if tag else None)
        if code in self.languages:
            return code
        spoken = ", ".join(f"{code} ({NAMES[code]})" if code in NAMES else code for code in self.languages)
        reason = (
            f"{self.checkpoint} does not speak {NAMES[code]}"
            if code in NAMES
            else (f"unknown language {(given or '')[:60]!a}")
        )
        raise InvalidRequest(f"{reason}; choose one of {spoken}, or leave it out", "language")

    def accent_of(self, language: str | None) -> str:
        """Return the accent that the tag of a language asks for; "" for the checkpoint's own."""
        accent = _ACCENTS_OF_TAGS.get(_language_name(language), "")
        return accent if accent in self.accents else ""

    def warning_of(self, language: str) -> str:
        """Say that a text has a language that is not spoken, by its code. In ASCII."""
        name = f"{NAMES[language]} ({language})" if language in NAMES else language
        spoken = ", ".join(self.languages)
        return f"the text seems to have {name} in it, and {self.checkpoint:.60} speaks {spoken} only"


def _language_name(given: str | None) -> str:
    return " ".join((given or "auto").replace("_", "-").lower().split())


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


MEL_FAMILIES: Final = frozenset({"cosyvoice3"})
"""Whose flow and vocoder are asked apart."""


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

    def open(self, request: SynthesisRequest) -> SynthesisStream:
        """Check the request and return its stream. Waits for nothing: entering the stream does.

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
        """Read a whole text and speak nothing, without a slot. Raises as speaking it would."""
        ...

    async def drain(self, timeout_s: float) -> None:
        """Admit no more streams, let the running ones finish, then end the rest with an error they see."""
        ...
