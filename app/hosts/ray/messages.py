"""What an engine in another process tells of its streams, and how it is reached. Free of torch and of Ray."""

from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from firstword.app.core.interface import EngineStatus, StreamEvent
from firstword.app.core.request import EngineInfo
from firstword.app.core.transcript import UtteranceTranscript
from firstword.app.errors import TtsError
from firstword.app.events import Event
from firstword.app.speakers.interface import KnownSpeaker
from firstword.app.telemetry.stream_stats import WordTimes

Operation = tuple[Any, ...]
"""What a client does to a running stream: its name and its arguments, of which JSON is made."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream is at its engine, which takes operations at host and port from who says the token."""

    host: str
    port: int
    token: str
    replica: str


@dataclass(frozen=True, slots=True)
class Busy:
    """The engine has no free slot, and was not to wait for one."""


@dataclass(frozen=True, slots=True)
class Entered:
    """The stream has its speaker and its slot; the engine has taken the call."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    event: StreamEvent


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the stream. at_s: when it was told, by the clock of the engine's process."""

    event: Event
    at_s: float


@dataclass(frozen=True, slots=True)
class Noted:
    """What is known of a stream now, beside its events. transcripts: those that changed, by their number."""

    is_speaker_ready: bool
    speech_tokens: int
    pauses: tuple[int, ...]
    word_times: WordTimes | None
    warnings: tuple[str, ...]
    transcripts: tuple[tuple[int, UtteranceTranscript], ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    error: TtsError


Item = Opened | Busy | Entered | Said | Happened | Noted | Failed


@dataclass(frozen=True, slots=True)
class StagesInfo:
    family: str
    gives_mel: bool
    lookahead_tokens: int
    chunk_tokens: int


@dataclass(frozen=True, slots=True)
class Description:
    """What an engine tells of itself. builtin_names: what is said, to the built-in speaker who speaks."""

    replica: str
    info: EngineInfo
    status: EngineStatus
    max_streams: int
    num_streams: int
    builtin: Mapping[str, KnownSpeaker]
    builtin_names: Mapping[str, str]
    stages: StagesInfo


class EngineGone(Exception):
    """The engine of a call died, or could not be reached in time."""


class Link(Protocol):
    """The way to engines that are all the same. key: who has the same one goes to the same engine."""

    @property
    def silent(self) -> Collection[str]:
        """Replicas that did not answer when they were asked last, of those that have answered before."""
        ...

    @property
    def late(self) -> Collection[str]:
        """Those of the silent that were waited for; the others Ray could not ask, and said so."""
        ...

    def stream(self, key: str, nth: int, method: str, *given: Any) -> AsyncGenerator[list[Item], None]:
        """Call a method of an engine that yields. nth: the first choice for the key is 0, the next one 1.

        Closing it ends the call. Raises EngineGone.
        """
        ...

    async def describe(self) -> list[Description]:
        """Ask every engine; those that do not answer soon are left out."""
        ...
